//! What a plain scalar means: the rules of YAML 1.1 as kubectl has them (go-yaml v2 under sigs.k8s.io/yaml).

use serde_json::{Number, Value};

/// The value of a plain (unquoted, untagged) scalar.
///
/// `yes`, `on` and `y` are booleans, `0o17`, `017`, `0x1F`, `0b1` and `1_000` are integers, and what looks like a date is
/// a string. Infinities and NaN have no JSON: `Err` says so.
pub(crate) fn resolve(text: &str) -> Result<Value, &'static str> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Value::Bool(true),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Err("JSON has no such number; quote it if it is text"),
        _ => match text.as_bytes().first() {
            Some(b'0'..=b'9' | b'+' | b'-' | b'.') => number(text).map_or_else(|| text.into(), Value::Number),
            _ => text.into(),
        },
    })
}

/// The value of a scalar with one of YAML's own tags, such as `!!str` or `!!int`.
pub(crate) fn resolve_tagged(tag: &str, text: &str) -> Result<Value, String> {
    let value = match tag {
        "str" | "timestamp" => return Ok(text.into()),
        "binary" => return Err("!!binary is not supported; write the text itself".to_owned()),
        _ => resolve(text)?,
    };
    match (tag, &value) {
        ("int", Value::Number(number)) if !number.is_f64() => Ok(value),
        ("bool", Value::Bool(_)) | ("null", Value::Null) | ("float", Value::Number(_)) => Ok(value),
        ("bool" | "null" | "int" | "float", _) => Err(format!("cannot read `{text}` as a !!{tag}")),
        _ => Ok(text.into()),
    }
}

/// The key that a scalar in key position stands for; JSON has only strings there.
pub(crate) fn key(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn number(text: &str) -> Option<Number> {
    if text.starts_with('.') {
        return decimal(text);
    }
    let plain = text.replace('_', "");
    integer(&plain).or_else(|| decimal(&plain))
}

/// An integer with Go's prefixes: `0x`, `0o`, `0b`, and a leading zero for octal.
fn integer(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = if let Some(digits) = lower.strip_prefix("0x") {
        (16, digits)
    } else if let Some(digits) = lower.strip_prefix("0o") {
        (8, digits)
    } else if let Some(digits) = lower.strip_prefix("0b") {
        (2, digits)
    } else if lower.len() > 1 && lower.starts_with('0') {
        (8, &lower[1..])
    } else {
        (10, lower.as_str())
    };
    // `from_str_radix` takes a second sign, Go does not.
    if !digits.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        return None;
    }
    let magnitude = u64::from_str_radix(digits, radix).ok()?;
    if negative { 0i64.checked_sub_unsigned(magnitude).map(Number::from) } else { Some(Number::from(magnitude)) }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`; what is too large for a double stays text, and what is whole
/// becomes an integer, as it does on kubectl's way through JSON.
fn decimal(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let well_formed = digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| {
            let power = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !power.is_empty() && digits(power)
        });
    if !well_formed {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // Every whole double below 2^53 is exactly an integer; above, its decimal digits are not the ones written.
    #[expect(clippy::cast_possible_truncation, reason = "whole and within ±2^53")]
    if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
        return Some(Number::from(value as i64));
    }
    Number::from_f64(value)
}
