//! How Go writes values: `%v`, `%#v`, `%q` in messages, and its JSON with sorted keys.

use std::fmt::Write;

use serde_json::{Number, Value};

/// `%q` of a string.
pub(super) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x80 && control.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(control));
            }
            control if control.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            printable => out.push(printable),
        }
    }
    out.push('"');
    out
}

/// `%q` of a list of strings.
pub(super) fn quote_all(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}

/// `%v`.
pub(super) fn plain(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number_general(number),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(_) => {
            let fields: Vec<String> =
                sorted(value).into_iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// `%#v`.
pub(super) fn syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(_) => {
            let fields: Vec<String> =
                sorted(value).into_iter().map(|(key, value)| format!("{}:{}", quote(key), syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        scalar => plain(scalar),
    }
}

/// `%T`.
pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// JSON as Go's encoders write it: sorted keys, `<`, `>` and `&` escaped.
pub(super) fn json(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(flag) => out.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_json(number)),
        Value::String(text) => json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json(item, out);
            }
            out.push(']');
        }
        Value::Object(_) => {
            out.push('{');
            for (at, (key, value)) in sorted(value).into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json_string(key, out);
                out.push(':');
                json(value, out);
            }
            out.push('}');
        }
    }
}

/// A string in JSON as Go's encoders write it.
pub(super) fn json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// The key and value pairs of an object by key; nothing for anything else.
pub(super) fn sorted(value: &Value) -> Vec<(&String, &Value)> {
    let mut fields: Vec<_> = value.as_object().into_iter().flatten().collect();
    fields.sort_unstable_by_key(|(key, _)| *key);
    fields
}

/// Digits and exponent of the shortest decimal form: 1234.5 is `("12345", 3)`.
fn shortest(float: f64) -> (String, i32) {
    let text = format!("{:e}", float.abs());
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn exponential(float: f64, width: usize) -> String {
    let (digits, exponent) = shortest(float);
    let sign = if float.is_sign_negative() { "-" } else { "" };
    let (first, rest) = digits.split_at(1.min(digits.len()));
    let point = if rest.is_empty() { "" } else { "." };
    let exponent_sign = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{point}{rest}e{exponent_sign}{:0width$}", exponent.unsigned_abs())
}

fn number_general(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            let (_, exponent) = shortest(float);
            if float != 0.0 && !(-4..6).contains(&exponent) { exponential(float, 2) } else { float.to_string() }
        }
        _ => number.to_string(),
    }
}

fn number_json(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() => {
            if float != 0.0 && !(1e-6..1e21).contains(&float.abs()) {
                exponential(float, 1)
            } else {
                float.to_string()
            }
        }
        _ => number.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_are_written_as_go_writes_them() {
        let value = json!({"b": [1, null, "x", 1.5, true, {}], "a": 1e6});
        assert_eq!(plain(&value), "map[a:1e+06 b:[1 <nil> x 1.5 true map[]]]");
        assert_eq!(
            syntax(&value),
            r#"map[string]interface {}{"a":1e+06, "b":[]interface {}{1, interface {}(nil), "x", 1.5, true, map[string]interface {}{}}}"#
        );
        let mut out = String::new();
        json(&json!({"b": 80.0, "a": "<\u{1}\n\"&\\é", "c": 1e21, "d": [1e-7, 123_456_789.0]}), &mut out);
        assert_eq!(out, r#"{"a":"\u003c\u0001\n\"\u0026\\é","b":80,"c":1e+21,"d":[1e-7,123456789]}"#);
    }

    #[test]
    fn floats_follow_percent_v() {
        for (float, text) in [
            (5.0, "5"),
            (8080.0, "8080"),
            (1e6, "1e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (-1.5, "-1.5"),
            (0.0, "0"),
            (1_234_567.5, "1.2345675e+06"),
        ] {
            assert_eq!(plain(&json!(float)), text);
        }
    }

    #[test]
    fn quoting_escapes_what_is_not_printable() {
        assert_eq!(quote("a\"\\\n\u{1}\u{80}é"), "\"a\\\"\\\\\\n\\x01\\u0080é\"");
        assert_eq!(quote_all(&["a".to_owned(), "b".to_owned()]), r#"["a" "b"]"#);
    }
}
