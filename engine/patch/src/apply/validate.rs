//! Whether a value fits its schema, as far as server-side apply looks.

use std::collections::BTreeSet;

use serde_json::Value;

use super::element::Element;
use super::go;
use super::shape::{ListShape, MapShape, ScalarShape, Shape, Type};

/// What does not fit, and where.
struct Violation {
    path: String,
    message: String,
}

/// Lists with keys and sets may hold an element twice: objects that are stored may, applied ones must not.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Duplicates {
    Allowed,
    Refused,
}

/// What does not fit, in Kubernetes' words.
pub(super) fn validate(at: Type<'_>, value: &Value, duplicates: Duplicates) -> Result<(), String> {
    let violations: Vec<String> = visit(at, value, duplicates)
        .into_iter()
        .map(|Violation { path, message }| if path.is_empty() { message } else { format!("{path}: {message}") })
        .collect();
    match violations.as_slice() {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("errors:\n  {}", many.join("\n  "))),
    }
}

fn visit(at: Type<'_>, value: &Value, duplicates: Duplicates) -> Vec<Violation> {
    if matches!(at, Type::Deduced | Type::Untyped) {
        return Vec::new();
    }
    match (at.shape(Some(value)), value) {
        (_, Value::Null) => Vec::new(),
        (Shape::Scalar(scalar), value) => scalar_violation(scalar, value).into_iter().collect(),
        (Shape::List(list), Value::Array(items)) => list_items(list, items, duplicates),
        (Shape::List(_), other) => vec![violation(format!("expected list, got &{{{}}}", go::plain(other)))],
        (Shape::Map(map), Value::Object(fields)) => {
            let mut violations = Vec::new();
            for (name, value) in fields {
                violations.extend(map_item(map, name, value, duplicates));
            }
            violations
        }
        (Shape::Map(_), other) => vec![violation(format!("expected map, got &{{{}}}", go::plain(other)))],
    }
}

fn map_item(map: MapShape<'_>, name: &str, value: &Value, duplicates: Duplicates) -> Vec<Violation> {
    let inside = match map.value(name) {
        Some(at) => visit(at, value, duplicates),
        None => vec![violation("field not declared in schema".to_owned())],
    };
    below(&Element::Field(name), inside)
}

fn list_items(list: ListShape<'_>, items: &[Value], duplicates: Duplicates) -> Vec<Violation> {
    let step = |index, item| list.element(item).unwrap_or(Element::Index(i64::try_from(index).unwrap_or(i64::MAX)));
    let mut violations = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        if let Err(message) = list.check(item) {
            violations.push(violation(format!("element {index}: {message}")));
            break;
        }
        let inside = visit(list.item, item, duplicates);
        // Most items are fine, and their steps are not needed.
        if !inside.is_empty() {
            violations.extend(below(&step(index, item), inside));
        }
        if duplicates == Duplicates::Refused && !list.atomic() {
            let element = step(index, item);
            if let Some(twice) = seen.replace(element) {
                violations.push(violation(format!("duplicate entries for key {twice}")));
            }
        }
    }
    violations
}

fn scalar_violation(scalar: ScalarShape, value: &Value) -> Option<Violation> {
    let message = match (scalar, value) {
        (ScalarShape::Numeric, Value::Number(_))
        | (ScalarShape::String, Value::String(_))
        | (ScalarShape::Boolean, Value::Bool(_))
        | (ScalarShape::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => return None,
        (ScalarShape::Numeric, other) => format!("expected numeric (int or float), got {}", go::type_name(other)),
        (ScalarShape::String, other) => {
            format!("expected string, got &value.valueUnstructured{{Value:{}}}", go::syntax(other))
        }
        (ScalarShape::Boolean, other) => format!("expected boolean, got &{{{}}}", go::plain(other)),
        (ScalarShape::Untyped, other) => format!("expected any scalar, got &{{{}}}", go::plain(other)),
    };
    Some(violation(message))
}

fn violation(message: String) -> Violation {
    Violation { path: String::new(), message }
}

fn below(element: &Element<'_>, mut violations: Vec<Violation>) -> Vec<Violation> {
    for violation in &mut violations {
        violation.path.insert_str(0, &element.to_string());
    }
    violations
}
