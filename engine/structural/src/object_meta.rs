//! Metadata of objects, read and written as Go's `ObjectMeta`: what it does not know is dropped, what is empty is left out.

use serde_json::{Map, Value, json};

/// How a field of the metadata is read.
#[derive(Clone, Copy)]
enum Shape {
    Text,
    /// Text that is written even if it is empty.
    KeptText,
    Integer,
    /// An integer that is written even if it is zero.
    KeptInteger,
    Flag,
    Time,
    Raw,
    Texts,
    TextMap,
    List(&'static str, &'static [(&'static str, Shape)]),
}

const OBJECT_META: &[(&str, Shape)] = &[
    ("name", Shape::Text),
    ("generateName", Shape::Text),
    ("namespace", Shape::Text),
    ("selfLink", Shape::Text),
    ("uid", Shape::Text),
    ("resourceVersion", Shape::Text),
    ("generation", Shape::Integer),
    ("creationTimestamp", Shape::Time),
    ("deletionTimestamp", Shape::Time),
    ("deletionGracePeriodSeconds", Shape::KeptInteger),
    ("labels", Shape::TextMap),
    ("annotations", Shape::TextMap),
    ("ownerReferences", Shape::List("OwnerReference", OWNER_REFERENCE)),
    ("finalizers", Shape::Texts),
    ("managedFields", Shape::List("ManagedFieldsEntry", MANAGED_FIELDS)),
];

const OWNER_REFERENCE: &[(&str, Shape)] = &[
    ("apiVersion", Shape::KeptText),
    ("kind", Shape::KeptText),
    ("name", Shape::KeptText),
    ("uid", Shape::KeptText),
    ("controller", Shape::Flag),
    ("blockOwnerDeletion", Shape::Flag),
];

const MANAGED_FIELDS: &[(&str, Shape)] = &[
    ("manager", Shape::Text),
    ("operation", Shape::Text),
    ("apiVersion", Shape::Text),
    ("time", Shape::Time),
    ("fieldsType", Shape::Text),
    ("fieldsV1", Shape::Raw),
    ("subresource", Shape::Text),
];

/// Metadata as Go would write it after reading `meta`. Fields that it does not know are dropped, and their names added to `unknown`.
///
/// # Errors
/// What has the wrong type, in Go's words.
pub(crate) fn coerce(meta: &Value, unknown: &mut Vec<String>) -> Result<Value, String> {
    match meta {
        Value::Null => Ok(json!({})),
        Value::Object(fields) => {
            let place = Place { record: "ObjectMeta", go: "", path: "" };
            read_fields(fields, OBJECT_META, place, unknown)
        }
        other => Err(format!("json: cannot unmarshal {} into Go value of type v1.ObjectMeta", go_kind(other))),
    }
}

/// Where in the metadata: the struct, the fields that led to it as Go names them, and as paths name them.
#[derive(Clone, Copy)]
struct Place<'a> {
    record: &'a str,
    go: &'a str,
    path: &'a str,
}

fn read_fields(
    fields: &Map<String, Value>,
    shapes: &[(&str, Shape)],
    place: Place<'_>,
    unknown: &mut Vec<String>,
) -> Result<Value, String> {
    let mut out = Map::new();
    for name in fields.keys().filter(|name| !shapes.iter().any(|(known, _)| known == name)) {
        unknown.push(format!("{}{name}", place.path));
    }
    for (name, shape) in shapes {
        let value = fields.get(*name).unwrap_or(&Value::Null);
        let (go, path) = (format!("{}{name}", place.go), format!("{}{name}", place.path));
        if let Some(value) = read(value, *shape, Place { go: &go, path: &path, ..place }, unknown)? {
            out.insert((*name).to_owned(), value);
        }
    }
    Ok(Value::Object(out))
}

fn read(value: &Value, shape: Shape, place: Place<'_>, unknown: &mut Vec<String>) -> Result<Option<Value>, String> {
    let wrong = |value: &Value, wanted: &str| {
        let Place { record, go, .. } = place;
        format!("json: cannot unmarshal {} into Go struct field {record}.{go} of type {wanted}", go_kind(value))
    };
    Ok(match (shape, value) {
        (Shape::KeptText, Value::Null) => Some(json!("")),
        (_, Value::Null) => None,
        (Shape::Text | Shape::KeptText, Value::String(text)) => {
            (!text.is_empty() || matches!(shape, Shape::KeptText)).then(|| value.clone())
        }
        (Shape::Integer | Shape::KeptInteger, Value::Number(number)) => match number.as_i64() {
            Some(0) if matches!(shape, Shape::Integer) => None,
            Some(_) => Some(value.clone()),
            None => {
                let Place { record, go, .. } = place;
                return Err(format!(
                    "json: cannot unmarshal number {number} into Go struct field {record}.{go} of type int64"
                ));
            }
        },
        (Shape::Integer | Shape::KeptInteger, other) => return Err(wrong(other, "int64")),
        (Shape::Flag, Value::Bool(_)) | (Shape::Raw, _) => Some(value.clone()),
        (Shape::Flag, other) => return Err(wrong(other, "bool")),
        (Shape::Time, Value::String(text)) => Some(json!(read_time(text)?)),
        (Shape::Text | Shape::KeptText | Shape::Time, other) => return Err(wrong(other, "string")),
        (Shape::Texts, Value::Array(items)) => {
            let texts: Result<Vec<Value>, String> = items
                .iter()
                .map(|item| match item {
                    Value::Null => Ok(json!("")),
                    Value::String(_) => Ok(item.clone()),
                    other => Err(wrong(other, "string")),
                })
                .collect();
            Some(texts?).filter(|texts| !texts.is_empty()).map(Value::Array)
        }
        (Shape::Texts, other) => return Err(wrong(other, "[]string")),
        (Shape::TextMap, Value::Object(entries)) => {
            let texts: Result<Map<String, Value>, String> = entries
                .iter()
                .map(|(key, entry)| match entry {
                    Value::Null => Ok((key.clone(), json!(""))),
                    Value::String(_) => Ok((key.clone(), entry.clone())),
                    other => Err(wrong(other, "string")),
                })
                .collect();
            Some(texts?).filter(|texts| !texts.is_empty()).map(Value::Object)
        }
        (Shape::TextMap, other) => return Err(wrong(other, "map[string]string")),
        (Shape::List(record, shapes), Value::Array(items)) => {
            let mut records = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                let empty = Map::new();
                let fields = match item {
                    Value::Object(fields) => fields,
                    Value::Null => &empty,
                    other => return Err(wrong(other, &format!("v1.{record}"))),
                };
                let (go, path) = (format!("{}.", place.go), format!("{}[{index}].", place.path));
                records.push(read_fields(fields, shapes, Place { record, go: &go, path: &path }, unknown)?);
            }
            Some(records).filter(|records| !records.is_empty()).map(Value::Array)
        }
        (Shape::List(record, _), other) => return Err(wrong(other, &format!("[]v1.{record}"))),
    })
}

fn go_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// A time of RFC 3339, as it is stored: in UTC, to the second.
fn read_time(text: &str) -> Result<String, String> {
    if let Ok(time) = text.parse::<jiff::Timestamp>()
        && looks_like_rfc3339(text)
    {
        return Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    }
    // The layout, element by element, as Go walks it.
    let mut rest = text;
    for (element, length) in [
        ("2006", 4),
        ("-", 1),
        ("01", 2),
        ("-", 1),
        ("02", 2),
        ("T", 1),
        ("15", 2),
        (":", 1),
        ("04", 2),
        (":", 1),
        ("05", 2),
    ] {
        let fits = |part: &str| if length == 1 { part == element } else { part.bytes().all(|b| b.is_ascii_digit()) };
        match rest.split_at_checked(length) {
            Some((part, after)) if fits(part) => rest = after,
            _ => return Err(cannot_parse(text, rest, element)),
        }
    }
    Err(cannot_parse(text, rest, "Z07:00"))
}

fn cannot_parse(text: &str, rest: &str, element: &str) -> String {
    let quoted = pillion_rules::field::quoted;
    format!(
        r#"parsing time {} as "2006-01-02T15:04:05Z07:00": cannot parse {} as "{element}""#,
        quoted(text),
        quoted(rest)
    )
}

fn looks_like_rfc3339(text: &str) -> bool {
    text.get(10..11) == Some("T") && text.len() >= 20 && text.get(4..5) == Some("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_written_as_go_writes_it() {
        let mut unknown = Vec::new();
        let meta = json!({
            "name": "", "labels": {"a": null}, "annotations": {}, "generation": 0, "deletionGracePeriodSeconds": 0, "foo": 1,
            "creationTimestamp": "2024-01-01T00:00:00+01:00", "ownerReferences": [{"name": "o", "bar": 1}],
        });
        assert_eq!(
            coerce(&meta, &mut unknown).unwrap(),
            json!({
                "creationTimestamp": "2023-12-31T23:00:00Z", "deletionGracePeriodSeconds": 0, "labels": {"a": ""},
                "ownerReferences": [{"apiVersion": "", "kind": "", "name": "o", "uid": ""}],
            })
        );
        assert_eq!(unknown, ["foo", "ownerReferences[0].bar"]);
    }

    #[test]
    fn wrong_types_are_named_as_go_names_them() {
        for (meta, message) in [
            (json!("x"), "json: cannot unmarshal string into Go value of type v1.ObjectMeta"),
            (
                json!({"labels": "x"}),
                "json: cannot unmarshal string into Go struct field ObjectMeta.labels of type map[string]string",
            ),
            (
                json!({"labels": {"a": 1}}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string",
            ),
            (
                json!({"ownerReferences": [{"name": 1}]}),
                "json: cannot unmarshal number into Go struct field OwnerReference.ownerReferences.name of type string",
            ),
            (
                json!({"ownerReferences": {}}),
                "json: cannot unmarshal object into Go struct field ObjectMeta.ownerReferences of type []v1.OwnerReference",
            ),
            (
                json!({"generation": 1.5}),
                "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.generation of type int64",
            ),
            (
                json!({"finalizers": [1]}),
                "json: cannot unmarshal number into Go struct field ObjectMeta.finalizers of type string",
            ),
            (
                json!({"creationTimestamp": "2024-01-01"}),
                r#"parsing time "2024-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            (
                json!({"managedFields": [{"time": "x"}]}),
                r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#,
            ),
        ] {
            assert_eq!(coerce(&meta, &mut Vec::new()).unwrap_err(), message);
        }
    }
}
