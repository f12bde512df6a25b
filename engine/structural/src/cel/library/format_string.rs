//! `'%s has %d'.format([…])`.

use std::fmt::Write;

use super::{Call, Fault, Outcome};
use crate::cel::shown::shown;
use crate::cel::value::{List, Value};

pub(super) fn run(call: Call<'_>) -> Outcome<'_> {
    let [Value::String(format), Value::List(args)] = call.args.as_slice() else {
        return Err(Fault::no_such_overload());
    };
    let mut out = String::with_capacity(format.len());
    let mut rest: &str = format;
    let mut next = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(rest.get(..at).unwrap_or_default());
        rest = rest.get(at + 1..).unwrap_or_default();
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        if rest.is_empty() {
            return Err(Fault::error("unexpected end of string"));
        }
        let value = argument(args, next)?;
        next += 1;
        rest = clause(rest, &value, &mut out)?;
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

fn argument<'a>(args: &List<'a>, index: usize) -> Result<Value<'a>, Fault> {
    args.get(index)?.ok_or_else(|| Fault::error(format!("index {index} out of range")))
}

/// Writes one value as the clause says; what follows the clause.
fn clause<'t>(text: &'t str, value: &Value<'_>, out: &mut String) -> Result<&'t str, Fault> {
    let (precision, rest) = match text.strip_prefix('.') {
        None => (6, text),
        Some(digits) => {
            let end = digits.find(|c: char| !c.is_ascii_digit());
            let Some((digits, rest)) = end.and_then(|end| digits.split_at_checked(end)) else {
                return Err(Fault::error("could not find end of precision specifier"));
            };
            // No float has more digits that tell something.
            (digits.parse::<usize>().unwrap_or_default().min(1100), rest)
        }
    };
    let Some(verb) = rest.chars().next() else { return Err(Fault::error("could not find end of precision specifier")) };
    let cannot = |wanted: &str| {
        let found = value.type_name();
        Fault::error(format!(
            "error during formatting: {wanted} clause can only be used on {}, was given {found}",
            wanted_types(verb)
        ))
    };
    // Writing to a String cannot fail.
    match (verb, value) {
        ('s', _) => out.push_str(&plain(value, false)?),
        ('d', Value::Int(_) | Value::Uint(_)) => out.push_str(&shown(value)),
        ('f', Value::Double(_) | Value::Int(_) | Value::Uint(_)) => {
            let _ = write!(out, "{:.precision$}", number(value));
        }
        ('e', Value::Double(_) | Value::Int(_) | Value::Uint(_)) => out.push_str(&scientific(number(value), precision)),
        ('b', Value::Int(int)) => {
            let _ = write!(out, "{}{:b}", if *int < 0 { "-" } else { "" }, int.unsigned_abs());
        }
        ('b', Value::Uint(uint)) => {
            let _ = write!(out, "{uint:b}");
        }
        ('b', Value::Bool(bool)) => out.push(if *bool { '1' } else { '0' }),
        ('o', Value::Int(int)) => {
            let _ = write!(out, "{}{:o}", if *int < 0 { "-" } else { "" }, int.unsigned_abs());
        }
        ('o', Value::Uint(uint)) => {
            let _ = write!(out, "{uint:o}");
        }
        ('x' | 'X', _) => {
            let text = match value {
                Value::Int(int) => format!("{}{:x}", if *int < 0 { "-" } else { "" }, int.unsigned_abs()),
                Value::Uint(uint) => format!("{uint:x}"),
                Value::String(text) => hexadecimal(text.as_bytes()),
                Value::Bytes(bytes) => hexadecimal(bytes),
                _ => return Err(cannot("hex")),
            };
            out.push_str(&if verb == 'X' { text.to_uppercase() } else { text });
        }
        ('d', _) => return Err(cannot("decimal")),
        ('f', _) => return Err(cannot("fixed-point")),
        ('e', _) => return Err(cannot("scientific")),
        ('b', _) => return Err(cannot("binary")),
        ('o', _) => return Err(cannot("octal")),
        _ => {
            return Err(Fault::error(format!(
                "could not parse formatting clause: unrecognized formatting clause \"{verb}\""
            )));
        }
    }
    Ok(rest.get(verb.len_utf8()..).unwrap_or_default())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        // Writing to a String cannot fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}

fn wanted_types(verb: char) -> &'static str {
    match verb {
        'd' | 'o' => "integers",
        'b' => "integers and bools",
        'x' | 'X' => "integers, byte buffers, and strings",
        _ => "doubles",
    }
}

fn number(value: &Value<'_>) -> f64 {
    match value {
        Value::Double(double) => *double,
        #[allow(clippy::cast_precision_loss, reason = "as Go converts an integer to a float")]
        Value::Uint(uint) => *uint as f64,
        Value::Int(int) => crate::cel::value::int_to_double(*int),
        _ => f64::NAN,
    }
}

fn scientific(number: f64, precision: usize) -> String {
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    // In superscript, as the locale of the API server has it.
    let raised =
        |digit: char| digit.to_digit(10).and_then(|digit| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(digit as usize)).unwrap_or(digit);
    let digits: String = format!("{:02}", exponent.abs()).chars().map(raised).collect();
    format!("{mantissa}×10{}{digits}", if exponent < 0 { "⁻" } else { "" })
}

/// As `%s` writes it; text within lists and maps is quoted.
fn plain(value: &Value<'_>, nested: bool) -> Result<String, Fault> {
    Ok(match value {
        Value::String(text) if nested => quote(text),
        Value::Bytes(bytes) if nested => quote(&String::from_utf8_lossy(bytes)),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Double(double) => crate::go_float::shortest(*double, 21),
        Value::List(list) => {
            let items: Result<Vec<String>, Fault> = list.iter().map(|item| plain(&item?, true)).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Map(map) => {
            let entries: Result<Vec<String>, Fault> = map
                .entries()?
                .iter()
                .map(|(key, value)| Ok(format!("{}: {}", plain(key, true)?, plain(value, true)?)))
                .collect();
            format!("{{{}}}", entries?.join(", "))
        }
        Value::Timestamp(_) if nested => format!("timestamp({})", quote(&shown(value))),
        Value::Duration(_) if nested => format!("duration({})", quote(&shown(value))),
        Value::Optional(_)
        | Value::Url(_)
        | Value::Quantity(_)
        | Value::Semver(_)
        | Value::Format(_)
        | Value::Authorization(_) => {
            let found = value.type_name();
            return Err(Fault::error(format!(
                "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given {found}"
            )));
        }
        _ => shown(value),
    })
}

/// Text in quotes, with what has to be escaped escaped.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
