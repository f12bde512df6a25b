//! Puts an applied configuration over an object. Nothing goes away by it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::element::Element;
use super::shape::{ListShape, MapShape, Shape, Type};

/// `object` with what `applied` says; both are valid.
pub(super) fn merge(at: Type<'_>, object: &Value, applied: &Value) -> Value {
    match at.shape(Some(applied)) {
        Shape::Scalar(_) => applied.clone(),
        Shape::Map(map) => {
            let (a, b) = (object.as_object(), applied.as_object());
            if map.atomic() || a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) {
                return applied.clone();
            }
            map_items(map, a, b)
        }
        Shape::List(list) => {
            let (a, b) = (object.as_array(), applied.as_array());
            if list.atomic() || a.is_none_or(Vec::is_empty) && b.is_none_or(Vec::is_empty) {
                return applied.clone();
            }
            list_items(list, a.map_or(&[], Vec::as_slice), b.map_or(&[], Vec::as_slice))
        }
    }
}

fn map_items(map: MapShape<'_>, object: Option<&Map<String, Value>>, applied: Option<&Map<String, Value>>) -> Value {
    let mut merged = Map::with_capacity(object.map_or(0, Map::len).max(applied.map_or(0, Map::len)));
    for (name, old) in object.into_iter().flatten() {
        let value = match (applied.and_then(|applied| applied.get(name)), map.value(name)) {
            (Some(value), Some(at)) => merge(at, old, value),
            _ => old.clone(),
        };
        merged.insert(name.clone(), value);
    }
    for (name, value) in applied.into_iter().flatten() {
        if !merged.contains_key(name) {
            merged.insert(name.clone(), value.clone());
        }
    }
    Value::Object(merged)
}

/// Items keep the object's order, and the applied ones their own among themselves.
fn list_items<'a>(list: ListShape<'a>, object: &'a [Value], applied: &'a [Value]) -> Value {
    let index = |items: &'a [Value]| -> Vec<(Element<'a>, &'a Value)> {
        items.iter().filter_map(|item| Some((list.element(item)?, item))).collect()
    };
    let (left, right) = (index(object), index(applied));
    let given: BTreeMap<&Element<'a>, &'a Value> = right.iter().map(|(element, item)| (element, *item)).collect();
    let mut had: BTreeMap<&Element<'a>, &'a Value> = BTreeMap::new();
    for (element, item) in &left {
        // An item that is there twice is not merged but replaced.
        had.entry(element).and_modify(|item| *item = &Value::Null).or_insert(item);
    }
    let mut shared = right.iter().map(|(element, _)| element).filter(|element| had.contains_key(element));
    let mut next_shared = shared.next();
    let mut done = BTreeSet::new();
    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    let (mut left_at, mut right_at) = (left.iter().peekable(), right.iter().peekable());
    let merged_item = |element: &Element<'a>, item: &Value| match had.get(element) {
        Some(old) => merge(list.item, old, item),
        None => item.clone(),
    };
    loop {
        match (left_at.peek(), right_at.peek()) {
            (None, None) => return Value::Array(merged),
            (Some((element, _)), Some((other, item))) if element == other => {
                done.insert(other);
                merged.push(merged_item(other, item));
                left_at.next();
                right_at.next();
                next_shared = shared.next();
                continue;
            }
            // It will come, but another that both have comes before it.
            (Some((element, _)), Some(_))
                if given.contains_key(element) && next_shared.is_some_and(|next| next != element) =>
            {
                left_at.next();
                continue;
            }
            (Some((element, item)), _) => {
                if !given.contains_key(element) {
                    merged.push((*item).clone());
                    left_at.next();
                    continue;
                }
                if done.contains(element) {
                    left_at.next();
                }
            }
            (None, Some(_)) => {}
        }
        if let Some((element, item)) = right_at.next() {
            done.insert(element);
            merged.push(merged_item(element, item));
            if next_shared == Some(element) {
                next_shared = shared.next();
            }
        }
    }
}
