//! The paths that an object sets: its leaves, the items of its lists, the keys of its maps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::element::Element;
use super::set::{Node, Set};
use super::shape::{ListShape, Shape, Type};

/// The paths that this valid value sets.
pub(super) fn field_set<'a>(at: Type<'a>, value: &'a Value) -> Set<'a> {
    below(at, value).1
}

/// Whether the path that ends at the value is set, and the paths below.
fn below<'a>(at: Type<'a>, value: &'a Value) -> (bool, Set<'a>) {
    match (at.shape(Some(value)), value) {
        (Shape::Scalar(_), _) => (true, Set::default()),
        (Shape::Map(map), _) if map.atomic() => (true, Set::default()),
        (Shape::List(list), _) if list.atomic() => (true, Set::default()),
        (Shape::Map(map), Value::Object(fields)) => {
            let nodes = fields.iter().filter_map(|(name, value)| {
                let (leaf, children) = below(map.value(name)?, value);
                let empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                Node::new(Element::Field(name), leaf || empty || !map.is_named(name), children)
            });
            (false, nodes.collect())
        }
        (Shape::List(list), Value::Array(items)) => (false, list_items(list, items)),
        _ => (false, Set::default()),
    }
}

fn list_items<'a>(list: ListShape<'a>, items: &'a [Value]) -> Set<'a> {
    let mut elements: BTreeMap<Element<'a>, Vec<&'a Value>> = BTreeMap::new();
    for item in items {
        if let Some(element) = list.element(item) {
            elements.entry(element).or_default().push(item);
        }
    }
    let nodes = elements.into_iter().filter_map(|(element, items)| match items.as_slice() {
        [item] => Node::new(element, true, below(list.item, item).1),
        // An element that is there twice is owned as one.
        _ => Node::new(element, true, Set::default()),
    });
    nodes.collect()
}
