//! Single values, and the messages that JSON has single values for.

use jiff::Timestamp;
use jiff::tz::Offset;
use k8s_openapi::ByteString;
use serde_json::Value;

use super::ProtobufError;
use super::wire::{Reader, Tag, text};
use crate::decode;
use crate::schema::Scalar;

/// The value in the field `name`.
pub(super) fn scalar(scalar: Scalar, reader: &mut Reader<'_>, tag: Tag, name: &str) -> Result<Value, ProtobufError> {
    Ok(match scalar {
        Scalar::Bool | Scalar::Int32 | Scalar::Int64 => number(scalar, reader.number(tag, name)?),
        Scalar::Float64 | Scalar::Number => reader.double(tag, name)?.into(),
        Scalar::String => text(reader.bytes(tag, name)?).into(),
        Scalar::Bytes => serde_json::to_value(ByteString(reader.bytes(tag, name)?.to_vec())).unwrap_or_default(),
        Scalar::IntOrString => int_or_string(reader.bytes(tag, name)?)?,
        Scalar::Quantity => quantity(reader.bytes(tag, name)?)?,
        Scalar::Time | Scalar::MicroTime => time(scalar, reader.bytes(tag, name)?)?,
    })
}

/// A number or a boolean.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "Go's conversions are these")]
pub(super) fn number(scalar: Scalar, number: u64) -> Value {
    match scalar {
        Scalar::Bool => (number != 0).into(),
        Scalar::Int32 => (number as i32).into(),
        _ => (number as i64).into(),
    }
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let (mut kind, mut int, mut string) = (0, Value::from(0), String::new());
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("IntOrString")? {
        match tag.number {
            1 => kind = reader.number(tag, "type")?,
            2 => int = number(Scalar::Int32, reader.number(tag, "intVal")?),
            3 => string = text(reader.bytes(tag, "strVal")?),
            _ => reader.skip(tag)?,
        }
    }
    match kind {
        0 => Ok(int),
        1 => Ok(string.into()),
        _ => Err(ProtobufError::IntOrString),
    }
}

fn quantity(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut quantity = "0".to_owned();
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("Quantity")? {
        match tag.number {
            1 => quantity = text(reader.bytes(tag, "String_")?),
            _ => reader.skip(tag)?,
        }
    }
    Ok(quantity.into())
}

/// `null` is the zero time. Of `metav1.Time` only the seconds count.
fn time(scalar: Scalar, bytes: &[u8]) -> Result<Value, ProtobufError> {
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    let (mut seconds, mut nanos) = (0_i64, 0_i32);
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("Timestamp")? {
        match tag.number {
            1 => seconds = reader.number(tag, "seconds")?.cast_signed(),
            #[expect(clippy::cast_possible_truncation, reason = "Go's conversion is this one")]
            2 => nanos = reader.number(tag, "nanos")? as i32,
            _ => reader.skip(tag)?,
        }
    }
    let (nanos, format) = if scalar == Scalar::Time {
        (0, "%Y-%m-%dT%H:%M:%SZ")
    } else {
        (nanos - nanos % 1000, "%Y-%m-%dT%H:%M:%S%.6fZ")
    };
    // Nanoseconds of more than a second, or before it, are allowed.
    let seconds = seconds.checked_add(nanos.div_euclid(1_000_000_000).into()).ok_or(ProtobufError::Time)?;
    let time =
        Timestamp::new(seconds, 0).ok().map(|time| Offset::UTC.to_datetime(time)).filter(|time| time.year() >= 0);
    let time = time.ok_or(ProtobufError::Time)?.with().subsec_nanosecond(nanos.rem_euclid(1_000_000_000)).build();
    Ok(time.map_err(|_| ProtobufError::Time)?.strftime(format).to_string().into())
}

/// As Go's `Duration.String` has it: `1m30s`.
pub(super) fn duration(bytes: &[u8]) -> Result<String, ProtobufError> {
    let mut nanos = 0_i64;
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("Duration")? {
        match tag.number {
            1 => nanos = reader.number(tag, "duration")?.cast_signed(),
            _ => reader.skip(tag)?,
        }
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let nanos = nanos.unsigned_abs();
    Ok(match nanos {
        0 => "0s".to_owned(),
        1..1_000 => format!("{sign}{nanos}ns"),
        1_000..1_000_000 => format!("{sign}{}µs", decimal(nanos, 1_000)),
        1_000_000..1_000_000_000 => format!("{sign}{}ms", decimal(nanos, 1_000_000)),
        _ => {
            let minutes = nanos / 60_000_000_000;
            let seconds = decimal(nanos % 60_000_000_000, 1_000_000_000);
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{sign}{seconds}s"),
                (0, minutes) => format!("{sign}{minutes}m{seconds}s"),
                (hours, minutes) => format!("{sign}{hours}h{minutes}m{seconds}s"),
            }
        }
    })
}

/// `value / unit`, where the unit is a power of ten, with as many digits as it takes.
fn decimal(value: u64, unit: u64) -> String {
    let digits = unit.ilog10() as usize;
    let (whole, fraction) = (value / unit, value % unit);
    if fraction == 0 {
        whole.to_string()
    } else {
        format!("{whole}.{fraction:0digits$}").trim_end_matches('0').to_owned()
    }
}

/// The JSON in a `RawExtension`, and in what is like it.
pub(super) fn json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let mut raw: &[u8] = &[];
    let mut reader = Reader::new(bytes);
    while let Some(tag) = reader.tag("RawExtension")? {
        match tag.number {
            1 => raw = reader.bytes(tag, "raw")?,
            _ => reader.skip(tag)?,
        }
    }
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    Ok(decode::parse(raw)?.value)
}
