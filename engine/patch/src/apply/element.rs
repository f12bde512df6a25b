//! One step of a field path: a field, an element of a list by key or by value, or a place in a list.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;

use serde_json::{Map, Number, Value};

use super::go;

/// A step. Its order is the order in which `FieldsV1` lists steps.
#[derive(Clone, Debug)]
pub(super) enum Element<'a> {
    /// A field of an object: `f:`.
    Field(&'a str),
    /// The element of a list whose key fields have these values, sorted by name: `k:`.
    Key(Rc<[(Cow<'a, str>, Cow<'a, Value>)]>),
    /// The element of a list that is this value: `v:`.
    Value(Cow<'a, Value>),
    /// The element at this place: `i:`.
    Index(i64),
}

impl<'a> Element<'a> {
    /// The element with these key fields.
    pub(super) fn key(mut fields: Vec<(Cow<'a, str>, Cow<'a, Value>)>) -> Self {
        fields.sort_by(|(a, _), (b, _)| a.cmp(b));
        Element::Key(fields.into())
    }

    /// Reads the form that `FieldsV1` has. A kind of step that nobody knows yet is `None`.
    pub(super) fn parse(text: &'a str) -> Result<Option<Self>, String> {
        let Some((kind, rest)) = text.split_at_checked(2) else {
            return Err("key must be 2 characters long:".to_owned());
        };
        let json = |error: serde_json::Error| error.to_string();
        Ok(Some(match kind {
            "f:" => Element::Field(rest),
            "v:" => Element::Value(Cow::Owned(as_floats(serde_json::from_str(rest).map_err(json)?))),
            "k:" => {
                let fields: Map<String, Value> = serde_json::from_str(rest).map_err(json)?;
                Self::key(fields.into_iter().map(|(name, value)| (name.into(), Cow::Owned(as_floats(value)))).collect())
            }
            "i:" => Element::Index(
                rest.parse().map_err(|_| format!("strconv.Atoi: parsing {}: invalid syntax", go::quote(rest)))?,
            ),
            _ if kind.ends_with(':') => return Ok(None),
            _ => return Err(format!("missing colon: {text}")),
        }))
    }

    /// The form that `FieldsV1` has.
    pub(super) fn to_text(&self) -> String {
        let mut out = String::new();
        match self {
            Element::Field(name) => {
                out.reserve_exact(name.len() + 2);
                out.push_str("f:");
                out.push_str(name);
            }
            Element::Key(fields) => {
                out.push_str("k:{");
                for (at, (name, value)) in fields.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    go::json_string(name, &mut out);
                    out.push(':');
                    go::json(value, &mut out);
                }
                out.push('}');
            }
            Element::Value(value) => {
                out.push_str("v:");
                go::json(value, &mut out);
            }
            Element::Index(index) => out = format!("i:{index}"),
        }
        out
    }

    fn rank(&self) -> u8 {
        match self {
            Element::Field(_) => 0,
            Element::Key(_) => 1,
            Element::Value(_) => 2,
            Element::Index(_) => 3,
        }
    }
}

impl fmt::Display for Element<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Element::Field(name) => write!(formatter, ".{name}"),
            Element::Key(fields) => {
                formatter.write_str("[")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(formatter, "{comma}{name}={}", readable(value))?;
                }
                formatter.write_str("]")
            }
            Element::Value(value) => write!(formatter, "[={}]", readable(value)),
            Element::Index(index) => write!(formatter, "[{index}]"),
        }
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element<'_> {}

impl PartialOrd for Element<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Element::Field(a), Element::Field(b)) => a.cmp(b),
            (Element::Key(a), Element::Key(b)) => in_turn(
                a.iter().zip(b.iter()).map(|((name_a, a), (name_b, b))| name_a.cmp(name_b).then_with(|| order(a, b))),
                a.len().cmp(&b.len()),
            ),
            (Element::Value(a), Element::Value(b)) => order(a, b),
            (Element::Index(a), Element::Index(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

/// Whether two values are the same to server-side apply: numbers by value, objects without regard to order.
pub(super) fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_of_numbers(a, b) == Ordering::Equal,
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        _ => a == b,
    }
}

/// Numbers before strings, booleans, lists, objects and null.
fn order(a: &Value, b: &Value) -> Ordering {
    fn rank(value: &Value) -> u8 {
        match value {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => order_of_numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Array(x), Value::Array(y)) => in_turn(x.iter().zip(y).map(|(a, b)| order(a, b)), x.len().cmp(&y.len())),
        (Value::Object(x), Value::Object(y)) => in_turn(
            go::sorted(a)
                .iter()
                .zip(go::sorted(b))
                .map(|((key_a, a), (key_b, b))| (*key_a).cmp(key_b).then_with(|| order(a, b))),
            x.len().cmp(&y.len()),
        ),
        _ => rank(a).cmp(&rank(b)),
    }
}

fn in_turn(mut orders: impl Iterator<Item = Ordering>, otherwise: Ordering) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(otherwise)
}

fn order_of_numbers(a: &Number, b: &Number) -> Ordering {
    match (a.as_i64(), b.as_i64()) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal),
    }
}

/// Kubernetes reads the numbers inside a step as floats, which shows where it prints them.
fn as_floats(value: Value) -> Value {
    match &value {
        Value::Number(number) => number.as_f64().and_then(Number::from_f64).map_or(value, Value::Number),
        _ => value,
    }
}

fn readable(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::String(text) => go::quote(text),
        Value::Array(items) => format!("[{}]", items.iter().map(readable).collect::<Vec<_>>().join(",")),
        Value::Object(_) => {
            let fields: Vec<String> =
                go::sorted(value).into_iter().map(|(key, value)| format!("{key}={}", readable(value))).collect();
            fields.concat()
        }
        scalar => go::plain(scalar),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Element<'_> {
        Element::parse(text).expect("well-formed").expect("known")
    }

    #[test]
    fn steps_read_and_write_the_same_text() {
        // structured-merge-diff `serialize-pe_test.go`.
        for text in [
            "i:0",
            "i:1234",
            "f:",
            "f:spec",
            "f:more-complicated-string",
            r#"k:{"name":"my-container"}"#,
            r#"k:{"port":8080,"protocol":"TCP"}"#,
            r#"k:{"optionalField":null}"#,
            r#"k:{"jsonField":{"A":1,"B":null,"C":"D","E":{"F":"G"}}}"#,
            r#"k:{"listField":["1","2","3"]}"#,
            "v:null",
            r#"v:"some-string""#,
            "v:1234",
            r#"v:{"some":"json"}"#,
            r#"k:{"name":"\u003ca\u003e"}"#,
        ] {
            assert_eq!(parse(text).to_text(), text);
        }
        assert_eq!(parse(r#"k:{"b":1.0,"a":2.50}"#).to_text(), r#"k:{"a":2.5,"b":1}"#);
    }

    #[test]
    fn what_is_not_a_step_is_refused_and_a_later_kind_of_step_is_ignored() {
        for text in ["i:NotANumber", "", "i", "i:", "j", "fspec", "v:", r#"k:{"name":"#, "k:[]", "é:"] {
            assert!(Element::parse(text).is_err(), "{text:?}");
        }
        assert!(Element::parse("x:later").expect("well-formed").is_none());
    }

    #[test]
    fn steps_are_ordered_by_kind_then_by_content() {
        let texts = [
            "f:a",
            "f:b",
            r#"k:{"a":1}"#,
            r#"k:{"a":1,"b":1}"#,
            r#"k:{"a":80}"#,
            r#"k:{"a":443}"#,
            r#"k:{"a":"1"}"#,
            r#"k:{"b":1}"#,
            "v:1",
            "v:1.5",
            r#"v:"a""#,
            "v:false",
            "v:true",
            "v:[1]",
            "v:[1,2]",
            r#"v:{"a":1}"#,
            r#"v:{"a":2}"#,
            "v:null",
            "i:1",
            "i:5",
        ];
        let elements: Vec<Element> = texts.iter().map(|text| parse(text)).collect();
        for (at, a) in elements.iter().enumerate() {
            for (other, b) in elements.iter().enumerate() {
                assert_eq!(a.cmp(b), at.cmp(&other), "{} against {}", texts[at], texts[other]);
            }
        }
    }

    #[test]
    fn steps_print_as_in_conflicts() {
        let printed: String = [
            "f:ports",
            r#"k:{"protocol":"TCP","containerPort":443}"#,
            r#"v:"a""#,
            "v:true",
            "i:3",
            r#"k:{"n":1000000}"#,
        ]
        .iter()
        .map(|text| parse(text).to_string())
        .collect();
        assert_eq!(printed, r#".ports[containerPort=443,protocol="TCP"][="a"][=true][3][n=1e+06]"#);
    }
}
