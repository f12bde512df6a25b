//! A pod spec in the shape that the API server itself works with: Go's names of fields, in their order, zero values included.
//!
//! That shape is never served. An error quotes a value in it when the value is more than a text or a number, and values are compared in it.
//! `types.txt` has one type per paragraph: Go's name of a field (`?` if it is left out when
//! empty), where it is in the served JSON (`^` if it is beside the type and not in it), and its type.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value, json};

use super::resources::quantity;

/// One field of an internal type.
struct Field {
    name: &'static str,
    omit_empty: bool,
    served: &'static str,
    kind: &'static str,
}

fn types() -> &'static BTreeMap<&'static str, Vec<Field>> {
    static TYPES: OnceLock<BTreeMap<&'static str, Vec<Field>>> = OnceLock::new();
    TYPES.get_or_init(|| {
        let mut types: BTreeMap<&str, Vec<Field>> = BTreeMap::new();
        let mut current = "";
        for line in include_str!("internal/types.txt").lines() {
            let mut words = line.split_ascii_whitespace();
            match (words.next(), words.next(), words.next()) {
                (Some(name), Some(served), Some(kind)) => {
                    let (omit_empty, name) = (name.ends_with('?'), name.trim_end_matches('?'));
                    types.entry(current).or_default().push(Field { name, omit_empty, served, kind });
                }
                (Some(name), ..) => current = name,
                _ => {}
            }
        }
        types
    })
}

/// A value as an error quotes it.
pub fn bad_value(kind: &str, served: &Value) -> Value {
    to_internal(kind, served, &Value::Null)
}

/// Whether two values of a type mean the same: an empty list is no list, and quantities are compared by what they are worth.
pub fn is_same(kind: &str, a: &Value, b: &Value) -> bool {
    normal(to_internal(kind, a, &Value::Null)) == normal(to_internal(kind, b, &Value::Null))
}

fn to_internal(kind: &str, served: &Value, beside: &Value) -> Value {
    if let Some(kind) = kind.strip_prefix('*') {
        return if served.is_null() { Value::Null } else { to_internal(kind, served, beside) };
    }
    if let Some(kind) = kind.strip_prefix("[]") {
        let Some(list) = served.as_array() else { return Value::Null };
        return list.iter().map(|element| to_internal(kind, element, &Value::Null)).collect();
    }
    if let Some(kind) = kind.strip_prefix("{}") {
        let Some(map) = served.as_object() else { return Value::Null };
        let sorted: BTreeMap<&String, &Value> = map.iter().collect();
        return Value::Object(
            sorted.into_iter().map(|(key, value)| (key.clone(), to_internal(kind, value, &Value::Null))).collect(),
        );
    }
    match kind {
        "string" => served.as_str().unwrap_or_default().into(),
        "int" => json!(served.as_i64().unwrap_or_default()),
        "bool" => served.as_bool().unwrap_or_default().into(),
        "quantity" => quantity(served).to_string().into(),
        "intorstring" => {
            if served.is_null() {
                json!(0)
            } else {
                served.clone()
            }
        }
        kind => Value::Object(types().get(kind).map_or_else(Map::new, |fields| object(fields, served, beside))),
    }
}

fn object(fields: &[Field], served: &Value, beside: &Value) -> Map<String, Value> {
    let mut object = Map::new();
    for field in fields {
        let found = match field.served.strip_prefix('^') {
            Some(name) => &beside[name],
            None => field.served.split('.').fold(served, |value, name| &value[name]),
        };
        let value = to_internal(field.kind, found, served);
        if !(field.omit_empty && is_empty(&value)) {
            object.insert(field.name.to_owned(), value);
        }
    }
    object
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_i64() == Some(0),
    }
}

/// Empty lists and maps are no lists and maps; every quantity is written in one way.
fn normal(value: Value) -> Value {
    match value {
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => list.into_iter().map(normal).collect(),
        Value::Object(map) if map.is_empty() => Value::Null,
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| {
                    let value = if matches!(key.as_str(), "Limits" | "Requests" | "Overhead") {
                        worth(value)
                    } else {
                        normal(value)
                    };
                    (key, value)
                })
                .collect(),
        ),
        other => other,
    }
}

fn worth(amounts: Value) -> Value {
    match amounts {
        Value::Object(map) if map.is_empty() => Value::Null,
        Value::Object(map) => Value::Object(
            map.into_iter().map(|(name, amount)| (name, quantity(&amount).nanos().to_string().into())).collect(),
        ),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_has_the_names_of_go_and_every_field() {
        assert_eq!(
            bad_value("SeccompProfile", &json!({"type": "Unconfined"})).to_string(),
            r#"{"Type":"Unconfined","LocalhostProfile":null}"#
        );
        let spec = json!({"hostNetwork": true, "securityContext": {}});
        assert_eq!(bad_value("PodSpec", &spec)["SecurityContext"]["HostNetwork"], true);
    }

    #[test]
    fn sameness_goes_by_meaning() {
        let resources = |value: Value| json!({"resources": {"limits": value}});
        assert!(is_same("Container", &resources(json!({"memory": "1024"})), &resources(json!({"memory": "1Ki"}))));
        assert!(is_same("Container", &resources(json!({})), &json!({})));
        assert!(!is_same("Container", &json!({"command": ["a"]}), &json!({})));
        assert!(!is_same("SecurityContext", &json!({"privileged": false}), &json!({})));
    }

    #[test]
    fn every_named_type_is_there() {
        for fields in types().values() {
            for field in fields {
                let kind = field.kind.trim_start_matches(['*', '[', ']', '{', '}']);
                let is_known = matches!(kind, "string" | "int" | "bool" | "quantity" | "intorstring")
                    || types().contains_key(kind);
                assert!(is_known, "{kind}");
            }
        }
    }
}
