//! Conversions between types.

use super::{Call, Fault, Outcome, Run};
use crate::cel::shown::shown;
use crate::cel::time::{parse_timestamp, timestamp_of};
use crate::cel::value::{Value, int_to_double, truncate};

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
            timestamp_of(seconds).map(Value::Timestamp).ok_or_else(|| Fault::error("timestamp overflow"))
        }
        Value::String(text) => match parse_timestamp(&text) {
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
