//! Simple values as text.

use super::value::Value;
use crate::go_float;

const NANOSECONDS: i64 = 1_000_000_000;

/// A simple value as text.
pub(super) fn shown(value: &Value<'_>) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(bool) => bool.to_string(),
        Value::Int(int) => int.to_string(),
        Value::Uint(uint) => uint.to_string(),
        Value::Double(double) => go_float::shortest(*double, 6),
        Value::String(text) => text.to_string(),
        Value::Duration(nanoseconds) => format!("{}s", seconds(*nanoseconds)),
        Value::Timestamp(time) => time.to_string(),
        Value::Ip(address) => address.to_string(),
        Value::Cidr(cidr) => cidr.to_string(),
        Value::Type(name) => (*name).to_owned(),
        other => other.type_name().to_owned(),
    }
}

/// Nanoseconds as a decimal number of seconds.
fn seconds(nanoseconds: i64) -> String {
    let (whole, part) = (nanoseconds / NANOSECONDS, (nanoseconds % NANOSECONDS).unsigned_abs());
    if part == 0 {
        return whole.to_string();
    }
    let sign = if nanoseconds < 0 && whole == 0 { "-" } else { "" };
    format!("{sign}{whole}.{}", format!("{part:09}").trim_end_matches('0'))
}
