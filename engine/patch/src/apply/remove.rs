//! Takes field paths out of an object.

use serde_json::{Map, Value};

use super::element::Element;
use super::set::Set;
use super::shape::{Shape, Type};

/// `value` without these paths. What has nothing left is null.
pub(super) fn remove(at: Type<'_>, value: &Value, paths: &Set<'_>) -> Value {
    match (at.shape(Some(value)), value) {
        (Shape::Scalar(_), scalar) => scalar.clone(),
        (Shape::Map(map), Value::Object(fields)) if !map.atomic() => {
            let mut kept = Map::with_capacity(fields.len());
            for (name, value) in fields {
                let value = match (paths.get(&Element::Field(name)), map.value(name)) {
                    (Some(node), _) if node.member => continue,
                    (Some(node), Some(at)) => match &node.children {
                        Some(paths) => remove(at, value, paths),
                        None => value.clone(),
                    },
                    _ => value.clone(),
                };
                kept.insert(name.clone(), value);
            }
            if kept.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        (Shape::List(list), Value::Array(items)) if !list.atomic() => {
            let kept: Vec<Value> = items
                .iter()
                .filter_map(|item| match list.element(item).and_then(|element| paths.get(&element)) {
                    Some(node) if node.member => None,
                    Some(node) => node.children.as_ref().map(|paths| remove(list.item, item, paths)),
                    None => Some(item.clone()),
                })
                .collect();
            if kept.is_empty() { Value::Null } else { Value::Array(kept) }
        }
        _ => Value::Null,
    }
}
