//! Conversions between types.

use super::{Call, Fault, Outcome, Run, time, truncate};
use crate::cel::value::{Value, int_to_double};
use crate::go_float;

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "bool" => to_bool,
        "bytes" => to_bytes,
        "double" => to_double,
        "duration" => to_duration,
        "int" => to_int,
        "string" => to_string,
        "timestamp" => to_timestamp,
        "uint" => to_uint,
        _ => return None,
    })
}

fn only(mut call: Call<'_>) -> Outcome<'_> {
    call.args.pop().ok_or_else(Fault::no_such_overload)
}

fn cannot<'a>(value: &Value<'a>, to: &str) -> Outcome<'a> {
    Err(Fault::error(format!("type conversion error from '{}' to '{to}'", value.type_name())))
}

fn to_bool(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Bool(_) => Ok(value),
        Value::String(text) => match &*text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => cannot(&Value::String(text.clone()), "bool"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_bytes(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Bytes(_) => Ok(value),
        Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_double(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Double(_) => Ok(value),
        Value::Int(int) => Ok(Value::Double(int_to_double(int))),
        #[allow(clippy::cast_precision_loss, reason = "as Go converts an integer to a float")]
        Value::Uint(uint) => Ok(Value::Double(uint as f64)),
        Value::String(text) => match text.parse() {
            Ok(double) => Ok(Value::Double(double)),
            Err(_) => cannot(&Value::String(text), "double"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_duration(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Duration(_) => Ok(value),
        Value::Int(nanoseconds) => Ok(Value::Duration(nanoseconds)),
        Value::String(text) => match crate::go_duration::parse(&text) {
            Some(nanoseconds) => Ok(Value::Duration(nanoseconds)),
            None => cannot(&Value::String(text), "google.protobuf.Duration"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_int(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Int(_) => Ok(value),
        Value::Uint(uint) => i64::try_from(uint).map(Value::Int).map_err(|_| Fault::error("integer overflow")),
        Value::Double(double) if double > -9.223_372_036_854_776e18 && double < 9.223_372_036_854_776e18 => {
            Ok(Value::Int(truncate(double)))
        }
        Value::Double(_) => Err(Fault::error("integer overflow")),
        Value::Duration(nanoseconds) => Ok(Value::Int(nanoseconds)),
        Value::Timestamp(time) => Ok(Value::Int(time.at.as_second())),
        Value::String(text) => match text.parse() {
            Ok(int) => Ok(Value::Int(int)),
            Err(_) => cannot(&Value::String(text), "int"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_uint(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Uint(_) => Ok(value),
        Value::Int(int) => u64::try_from(int).map(Value::Uint).map_err(|_| Fault::error("unsigned integer overflow")),
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range was checked")]
        Value::Double(double) if (0.0..1.844_674_407_370_955_2e19).contains(&double) => Ok(Value::Uint(double as u64)),
        Value::Double(_) => Err(Fault::error("unsigned integer overflow")),
        Value::String(text) => match text.parse() {
            Ok(uint) => Ok(Value::Uint(uint)),
            Err(_) => cannot(&Value::String(text), "uint"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_timestamp(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::Timestamp(_) => Ok(value),
        Value::Int(seconds) => {
            time::timestamp_of(seconds).map(Value::Timestamp).ok_or_else(|| Fault::error("timestamp overflow"))
        }
        Value::String(text) => match time::parse_timestamp(&text) {
            Some(time) => Ok(Value::Timestamp(time)),
            None => cannot(&Value::String(text), "google.protobuf.Timestamp"),
        },
        _ => Err(Fault::no_such_overload()),
    }
}

fn to_string(call: Call<'_>) -> Outcome<'_> {
    match only(call)? {
        value @ Value::String(_) => Ok(value),
        Value::Bytes(bytes) => match std::str::from_utf8(&bytes) {
            Ok(text) => Ok(Value::text(text)),
            Err(_) => Err(Fault::error("invalid UTF-8 in bytes, cannot convert to string")),
        },
        value @ (Value::Bool(_)
        | Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Duration(_)
        | Value::Timestamp(_)
        | Value::Ip(_)
        | Value::Cidr(_)) => Ok(Value::text(shown(&value))),
        _ => Err(Fault::no_such_overload()),
    }
}

/// A simple value as text.
pub(in crate::cel) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => go_float::shortest(*double, 6),
        Value::String(text) => text.to_string(),
        Value::Duration(nanoseconds) => format!("{}s", time::seconds(*nanoseconds)),
        Value::Timestamp(time) => time.to_string(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(name) => (*name).to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// Bytes of base64, with padding.
pub(crate) fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let value = |b: u8| match b {
        b'A'..=b'Z' => Some(b - b'A'),
        b'a'..=b'z' => Some(b - b'a' + 26),
        b'0'..=b'9' => Some(b - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    };
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    for group in body.as_bytes().chunks(4) {
        let bits = group.iter().try_fold(0_u32, |bits, b| Some(bits << 6 | u32::from(value(*b)?)))?;
        let bits = bits << (6 * (4 - group.len()));
        out.extend_from_slice(bits.to_be_bytes().get(1..group.len())?);
    }
    Some(out)
}
