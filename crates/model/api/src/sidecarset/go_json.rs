//! JSON as Go's `encoding/json` writes Kruise's types.
//!
//! Kruise hashes this text, so it is part of the wire format: the order of the fields, which of them are left out when
//! empty, how a quantity is spelt. Whatever Kruise does not know follows after, sorted by name and as it was written:
//! a change to it is seen, and a SidecarSet without it has the hash that Kruise gives it.

use pillion_quantity::Quantity;
use serde::Serialize;
use serde_json::{Map, Number, Value};

use super::shape::{Field, Kind, SPEC, Shape, Written};
use crate::digest::Digest;
use crate::record::go_time;

/// What is made of the JSON: a value whose keys are in Go's order, or only its digest.
pub(super) trait Made: Sized {
    /// What is written as it is.
    fn plain(value: &Value) -> Self;
    fn list(items: impl Iterator<Item = Self>) -> Self;
    fn object<'a>(entries: impl Iterator<Item = (&'a str, Self)>) -> Self;
    /// Whether Go's `omitempty` leaves it out.
    fn is_empty(&self) -> bool;
}

impl Made for Value {
    fn plain(value: &Value) -> Value {
        sorted(value)
    }

    fn list(items: impl Iterator<Item = Value>) -> Value {
        Value::Array(items.collect())
    }

    fn object<'a>(entries: impl Iterator<Item = (&'a str, Value)>) -> Value {
        Value::Object(entries.map(|(key, value)| (key.to_owned(), value)).collect())
    }

    fn is_empty(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::Number(number) => number.as_i64() == Some(0),
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(entries) => entries.is_empty(),
        }
    }
}

/// The digest of the value after [`round_numbers`].
pub(super) struct Digested {
    pub(super) digest: Digest,
    is_empty: bool,
}

impl Made for Digested {
    fn plain(value: &Value) -> Digested {
        let digest = match value {
            Value::Null | Value::Bool(_) | Value::String(_) => Digest::of(value),
            Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                let mut rounded = value.clone();
                round_numbers(&mut rounded);
                Digest::of(&rounded)
            }
        };
        Digested { digest, is_empty: Made::is_empty(value) }
    }

    fn list(items: impl Iterator<Item = Digested>) -> Digested {
        let mut items = items.peekable();
        let is_empty = items.peek().is_none();
        Digested { digest: Digest::of_list(items.map(|item| item.digest)), is_empty }
    }

    fn object<'a>(entries: impl Iterator<Item = (&'a str, Digested)>) -> Digested {
        let mut entries = entries.peekable();
        let is_empty = entries.peek().is_none();
        Digested { digest: Digest::of_object(entries.map(|(key, value)| (key, value.digest))), is_empty }
    }

    fn is_empty(&self) -> bool {
        self.is_empty
    }
}

/// A field of a spec as Go would write it, if it would.
///
/// The proposal's spellings in `resourcesPolicy` are Kruise's here, so both give the same hash.
pub(super) fn field<M: Made>(name: &str, value: &impl Serialize) -> Option<M> {
    // Strings, numbers, lists and maps with string keys always become JSON.
    let mut value = serde_json::to_value(value).unwrap_or_default();
    if matches!(name, "containers" | "initContainers") {
        for container in value.as_array_mut().into_iter().flatten() {
            if let Some(Value::Object(policy)) = container.get_mut("resourcesPolicy") {
                rename(policy, "targetContainerMode", "targetContainersMode");
                rename(policy, "resourceExpr", "resourcesExpr");
            }
        }
    }
    let given = Some(&value).filter(|value| !value.is_null());
    match SPEC.field(name).filter(|field| field.written != Written::Later) {
        Some(field) => field_value(field, given),
        None => given.map(M::plain),
    }
}

fn rename(fields: &mut Map<String, Value>, from: &str, to: &str) {
    if !fields.contains_key(to)
        && let Some(value) = fields.shift_remove(from)
    {
        fields.insert(to.to_owned(), value);
    }
}

fn shaped<M: Made>(kind: &Kind, value: &Value) -> M {
    match (kind, value) {
        (Kind::Object(shape), Value::Object(fields)) => object(shape, fields),
        (Kind::List(kind), Value::Array(items)) => M::list(items.iter().map(|item| shaped(kind, item))),
        (Kind::Map(kind), Value::Object(entries)) => {
            M::object(by_name(entries).into_iter().map(|(key, value)| (key, shaped(kind, value))))
        }
        (Kind::Quantity, Value::String(text)) => M::plain(&quantity(text.trim()).into()),
        (Kind::Quantity, Value::Number(number)) => M::plain(&quantity(&number_text(number)).into()),
        (Kind::Time, Value::String(text)) => M::plain(&time(text).into()),
        (_, value) => M::plain(value),
    }
}

fn object<M: Made>(shape: &'static Shape, fields: &Map<String, Value>) -> M {
    let mut known: Vec<(&'static Field, Option<&Value>)> =
        shape.fields().filter(|field| field.written != Written::Later).map(|field| (field, None)).collect();
    // What is of a later version, or unknown.
    let mut later = Vec::new();
    for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
        match known.iter_mut().find(|(field, _)| field.name == name) {
            Some((_, given)) => *given = Some(value),
            None => later.push((name, value)),
        }
    }
    let known = known.into_iter().filter_map(|(field, given)| Some((field.name, field_value(field, given)?)));
    M::object(known.chain(by_name(later).into_iter().map(|(name, value)| (name, M::plain(value)))))
}

fn by_name<'a>(entries: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Vec<(&'a str, &'a Value)> {
    let mut entries: Vec<_> = entries.into_iter().map(|(name, value)| (name.as_str(), value)).collect();
    entries.sort_unstable_by_key(|(name, _)| *name);
    entries
}

fn field_value<M: Made>(field: &Field, value: Option<&Value>) -> Option<M> {
    match (field.written, value) {
        (Written::UnlessEmpty, Some(value)) => Some(shaped(&field.kind, value)).filter(|value: &M| !value.is_empty()),
        (_, Some(value)) => Some(shaped(&field.kind, value)),
        (Written::Always, None) => Some(zero(&field.kind)),
        (Written::OrNull, None) => Some(M::plain(&Value::Null)),
        (_, None) => None,
    }
}

/// What Go writes for a value that was never given.
fn zero<M: Made>(kind: &Kind) -> M {
    let zero: Value = match kind {
        Kind::String | Kind::Name(_) => "".into(),
        Kind::Bool => false.into(),
        Kind::Int32 | Kind::Int64 | Kind::IntOrString => 0.into(),
        Kind::Quantity => "0".into(),
        Kind::Object(shape) => return object(shape, &Map::new()),
        Kind::Time | Kind::Any | Kind::List(_) | Kind::Map(_) => Value::Null,
    };
    M::plain(&zero)
}

/// A quantity keeps its own text when Kubernetes' parser takes that for the canonical form, which is a little more often
/// than it is: `1.500`, `+5` and `1.234k` stay as they are, `1000m` and `0.5` do not.
fn quantity(text: &str) -> String {
    match text.parse::<Quantity>() {
        Ok(quantity) if !is_taken_for_canonical(text) => quantity.to_string(),
        _ => text.to_owned(),
    }
}

fn is_taken_for_canonical(text: &str) -> bool {
    if text == "0" {
        return true;
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text).trim_start_matches('0');
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = if whole.is_empty() { "0" } else { whole };
    if let Some(binary) = suffix.strip_suffix('i') {
        // Kubernetes reads it exactly while it has about 15 digits; it keeps the text unless three bits at the end are 0.
        let exponent = "KMGTPE".find(binary).map_or(0, |at| 10 * (at + 1));
        fraction.is_empty()
            && whole.len() + exponent * 3 / 10 < 15
            && whole.parse::<i64>().is_ok_and(|value| value & 7 != 0)
    } else {
        let digits = format!("{whole}{fraction}");
        let scale = decimal_exponent(suffix) - i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        digits.len() <= 18 && scale >= -9 && scale % 3 == 0 && !digits.ends_with("000") && !digits.starts_with('0')
    }
}

fn decimal_exponent(suffix: &str) -> i64 {
    match suffix {
        "n" => -9,
        "u" => -6,
        "m" => -3,
        "k" => 3,
        "M" => 6,
        "G" => 9,
        "T" => 12,
        "P" => 15,
        "E" => 18,
        _ => suffix.get(1..).and_then(|exponent| exponent.parse().ok()).unwrap_or(0),
    }
}

/// A JSON number as the API server hands it on.
fn number_text(number: &Number) -> String {
    match number.as_f64() {
        Some(float) if number.is_f64() && float != 0.0 && !(1e-6..1e21).contains(&float.abs()) => {
            let text = format!("{float:e}");
            if text.contains("e-") { text } else { text.replace('e', "e+") }
        }
        Some(float) if number.is_f64() => float.to_string(),
        _ => number.to_string(),
    }
}

/// A time in UTC and whole seconds.
fn time(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), go_time)
}

/// The value with the keys of every object sorted, as Go writes maps.
fn sorted(value: &Value) -> Value {
    let mut value = value.clone();
    value.sort_all_objects();
    value
}

/// Makes every number what Go has after it read the JSON without a type: a float of 64 bits.
pub(super) fn round_numbers(value: &mut Value) {
    match value {
        Value::Object(entries) => entries.values_mut().for_each(round_numbers),
        Value::Array(items) => items.iter_mut().for_each(round_numbers),
        Value::Number(number) if !number.is_f64() => {
            if let Some(rounded) = number.as_f64().and_then(|float| float.to_string().parse().ok()) {
                *number = rounded;
            }
        }
        _ => {}
    }
}

/// The value as compact JSON with Go's escapes. Keys stay in the order they have.
pub(super) fn text(value: &Value) -> String {
    // These characters can only stand inside strings; the other escapes are the same in both languages.
    const ESCAPED: [(char, &str); 5] =
        [('<', r"\u003c"), ('>', r"\u003e"), ('&', r"\u0026"), ('\u{2028}', r"\u2028"), ('\u{2029}', r"\u2029")];
    let mut text = value.to_string();
    for (character, escape) in ESCAPED {
        if text.contains(character) {
            text = text.replace(character, escape);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Kruise (Kubernetes 1.32 libraries) writes after it read these.
    #[test]
    fn quantities_are_spelt_as_kubernetes_spells_them() {
        let table = [
            ("1", "1"),
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("100u", "100u"),
            ("1024Mi", "1Gi"),
            ("2048Ki", "2Mi"),
            ("1025Ki", "1025Ki"),
            ("1.5Gi", "1536Mi"),
            ("0.1Ki", "102400m"),
            ("+5", "+5"),
            ("005", "005"),
            ("1.234k", "1.234k"),
            ("1.500", "1.500"),
            ("0.100", "100m"),
            ("3000", "3k"),
            ("1.", "1."),
            (".5", "500m"),
            ("00", "0"),
            ("0Mi", "0"),
            ("-0", "0"),
            ("12e6", "12e6"),
            ("1.5e3", "1500"),
            ("10e2", "1e3"),
            ("12E", "12E"),
            ("0.1n", "1n"),
            ("123456789.123456789", "123456789.123456789"),
            ("9223372036854775808", "9223372036854775808"),
        ];
        for (written, expected) in table {
            assert_eq!(quantity(written), expected, "{written}");
        }
    }

    #[test]
    fn numbers_become_quantities_by_their_go_text() {
        let spelt = |number: Value| shaped::<Value>(&Kind::Quantity, &number);
        assert_eq!(spelt(2.into()), "2");
        assert_eq!(spelt(2.5.into()), "2500m");
        assert_eq!(spelt(1e-7.into()), "100e-9");
        assert_eq!(spelt(1e21.into()), "1e+21");
        assert_eq!(spelt(" 1 ".into()), "1");
    }

    #[test]
    fn text_has_gos_escapes() {
        let value = Value::from("<a>&\u{2028}\u{2029}\u{1}\u{8}\u{c}\n\"\\/\u{7f}é");
        assert_eq!(text(&value), "\"\\u003ca\\u003e\\u0026\\u2028\\u2029\\u0001\\b\\f\\n\\\"\\\\/\u{7f}é\"");
    }

    #[test]
    fn untyped_integers_are_rounded_as_floats() {
        let floats = |number: i64| {
            let mut value = number.into();
            round_numbers(&mut value);
            text(&value)
        };
        assert_eq!(floats(9_007_199_254_740_993), "9007199254740992");
        assert_eq!(floats(i64::MAX), "9223372036854776000");
        assert_eq!(floats(-7), "-7");
    }

    #[test]
    fn times_are_in_utc_and_whole_seconds() {
        assert_eq!(time("2024-01-02T03:04:05.678+02:00"), "2024-01-02T01:04:05Z");
    }
}
