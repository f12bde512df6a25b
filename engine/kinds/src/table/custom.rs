//! Columns of custom resources: `additionalPrinterColumns` of their definition.

use jiff::Timestamp;
use pillion_jsonpath::JsonPath;
use serde_json::{Map, Value, json};

use super::format::{int, items, name, since, text, text_or};
use super::{AGE, Column, NAME};

/// How the objects of a custom resource are shown: the parsed columns of one version of its definition.
///
/// ```
/// use pillion_kinds::table::CustomTable;
/// use serde_json::json;
///
/// let now = "2026-01-01T00:05:00Z".parse()?;
/// let table = CustomTable::new(&json!([{"name": "Matched", "type": "integer", "jsonPath": ".status.matchedPods"}]));
/// let object = json!({"metadata": {"name": "logs"}, "status": {"matchedPods": 3}});
/// assert_eq!(table.row(&object, now), [json!("logs"), json!(3)]);
/// # Ok::<(), jiff::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CustomTable {
    columns: Vec<Column>,
    paths: Vec<JsonPath>,
}

impl CustomTable {
    /// Reads `additionalPrinterColumns`; without any, the age is shown. Columns from the first one on whose path cannot be read are left out.
    pub fn new(additional: &Value) -> CustomTable {
        let mut table = CustomTable { columns: vec![NAME], paths: Vec::new() };
        if items(additional).is_empty() {
            table.columns.push(Column { kind: "date".into(), ..AGE });
            table.paths.extend(JsonPath::parse(".metadata.creationTimestamp"));
        }
        for column in items(additional) {
            let json_path = text(&column["jsonPath"]);
            let Ok(path) = JsonPath::parse(json_path) else { break };
            let described = format!("Custom resource definition column (in JSONPath format): {json_path}");
            table.paths.push(path);
            table.columns.push(Column {
                name: text(&column["name"]).to_owned().into(),
                kind: text(&column["type"]).to_owned().into(),
                format: text(&column["format"]).to_owned().into(),
                description: text_or(&column["description"], &described).to_owned().into(),
                priority: int(&column["priority"]),
            });
        }
        table
    }

    /// How the scale of a custom resource is shown.
    pub fn scale() -> CustomTable {
        let column = |name: &str, kind: &str, path: &str, description: &str| json!({"name": name, "type": kind, "jsonPath": path, "description": description});
        CustomTable::new(&json!([
            column("Desired", "integer", ".spec.replicas", "Pods that there should be."),
            column("Available", "integer", ".status.replicas", "Pods that there are."),
            column("Age", "date", ".metadata.creationTimestamp", &AGE.description),
        ]))
    }

    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cells of an object. What its path does not find, or finds with another type, is null.
    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let types = self.columns.iter().skip(1).map(|column| &*column.kind);
        let cells = self.paths.iter().zip(types).map(|(path, kind)| {
            let found = path.find(object).ok();
            found.and_then(|found| found.first().map(|value| cell(kind, value, now))).unwrap_or_default()
        });
        std::iter::once(name(object)).chain(cells).collect()
    }
}

fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("string", value) => printed(value).into(),
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => whole.into(),
            // As Go converts: towards zero, within bounds.
            #[expect(clippy::cast_possible_truncation)]
            (None, Some(fraction)) => (fraction as i64).into(),
            (None, None) => Value::Null,
        },
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(time)) if time.is_empty() || time == "null" => "<unknown>".into(),
        ("date", Value::String(time)) => match since(value, now) {
            _ if time.parse::<Timestamp>().is_err() => "<invalid>".into(),
            since => since.into(),
        },
        _ => Value::Null,
    }
}

/// A value as text: lists and objects as Go writes JSON, all else as it prints them.
fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(float)) => go_float(float),
            _ => number.to_string(),
        },
        Value::Array(_) | Value::Object(_) => go_json(value),
    }
}

/// Go's `%v` of a float: the shortest digits, with an exponent for the very small and from a million on.
fn go_float(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    match exponent.parse::<i32>() {
        Ok(exponent) if exponent < -4 => format!("{digits}e-{:02}", exponent.abs()),
        Ok(exponent) if exponent >= 6 => format!("{digits}e+{exponent:02}"),
        _ => float.to_string(),
    }
}

/// Sorted keys, and `<`, `>`, `&` escaped.
fn go_json(value: &Value) -> String {
    let escaped = |c: char| match c {
        '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    };
    sorted(value).to_string().chars().map(escaped).collect()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> =
                fields.iter().map(|(key, value)| (key.clone(), sorted(value))).collect();
            fields.sort_by(|a, b| a.0.cmp(&b.0));
            Value::Object(Map::from_iter(fields))
        }
        Value::Array(items) => items.iter().map(sorted).collect(),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn cells_have_the_type_of_their_column() {
        let now = "2026-01-01T00:05:00Z".parse().expect("a time");
        let object = json!({
            "i": 3, "f": 2.75, "s": "text", "t": "2026-01-01T00:00:00Z", "b": true, "n": null, "l": ["b", {"z": 1, "a": "<"}],
            "large": 1e21, "bad": "yesterday", "nine": 123_456_789.5, "six": 123_456.5, "small": 0.000_012_34
        });
        let table = [
            ("string", ".i", json!("3")),
            ("string", ".f", json!("2.75")),
            ("string", ".s", json!("text")),
            ("string", ".large", json!("1e+21")),
            ("string", ".nine", json!("1.234567895e+08")),
            ("string", ".small", json!("1.234e-05")),
            ("string", ".six", json!("123456.5")),
            ("string", ".b", json!("true")),
            ("string", ".n", json!("<no value>")),
            ("string", ".l", json!(r#"["b",{"a":"\u003c","z":1}]"#)),
            ("string", ".missing", json!(null)),
            ("string", ".l[7]", json!(null)),
            ("string", ".l[*]", json!("b")),
            ("integer", ".i", json!(3)),
            ("integer", ".f", json!(2)),
            ("integer", ".s", json!(null)),
            ("number", ".f", json!(2.75)),
            ("boolean", ".b", json!(true)),
            ("boolean", ".s", json!(null)),
            ("date", ".t", json!("5m")),
            ("date", ".bad", json!("<invalid>")),
            ("date", ".i", json!(null)),
        ];
        for (kind, path, want) in table {
            let custom = CustomTable::new(&json!([{"name": "X", "type": kind, "jsonPath": path}]));
            assert_eq!(custom.row(&object, now), [json!(""), want], "{kind} {path}");
        }
    }

    #[test]
    fn without_columns_the_age_is_shown_and_a_bad_path_ends_the_columns() {
        let names = |additional| -> Vec<String> {
            CustomTable::new(&additional).columns().iter().map(|column| column.name.to_string()).collect()
        };
        assert_eq!(names(json!(null)), ["Name", "Age"]);
        assert_eq!(names(json!([])), ["Name", "Age"]);
        let column = |name, path| json!({"name": name, "type": "string", "jsonPath": path});
        assert_eq!(names(json!([column("A", ".a"), column("B", ".b["), column("C", ".c")])), ["Name", "A"]);
    }
}
