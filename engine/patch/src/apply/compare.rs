//! What changed between two objects of one type, by field path.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::{Element, equal};
use super::set::{Node, Set};
use super::shape::{ListShape, MapShape, Shape, Type};

/// What changed. No path is in two of the sets.
#[derive(Debug, Default)]
pub(super) struct Comparison<'a> {
    pub removed: Set<'a>,
    pub modified: Set<'a>,
    pub added: Set<'a>,
}

impl Comparison<'_> {
    /// Without what begins with one of these paths.
    pub(super) fn without(self, paths: &Set<'_>) -> Self {
        if paths.is_empty() {
            return self;
        }
        Comparison {
            removed: self.removed.recursive_difference(paths),
            modified: self.modified.recursive_difference(paths),
            added: self.added.recursive_difference(paths),
        }
    }
}

/// What changed from `old` to `new`, which are both valid.
pub(super) fn compare<'a>(at: Type<'a>, old: &'a Value, new: &'a Value) -> Comparison<'a> {
    visit(at, Some(old), Some(new)).below
}

/// What happened to the value itself, and below it.
#[derive(Default)]
struct Change<'a> {
    own: Option<Own>,
    below: Comparison<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Removed,
    Modified,
    Added,
}

/// Changes of the values in a map or list, collected.
#[derive(Default)]
struct Changes<'a> {
    removed: Vec<Node<'a>>,
    modified: Vec<Node<'a>>,
    added: Vec<Node<'a>>,
}

impl<'a> Changes<'a> {
    fn add(&mut self, element: Element<'a>, change: Change<'a>) {
        let Change { own, below } = change;
        self.removed.extend(Node::new(element.clone(), own == Some(Own::Removed), below.removed));
        self.modified.extend(Node::new(element.clone(), own == Some(Own::Modified), below.modified));
        self.added.extend(Node::new(element, own == Some(Own::Added), below.added));
    }

    fn done(self) -> Change<'a> {
        let below = Comparison {
            removed: self.removed.into_iter().collect(),
            modified: self.modified.into_iter().collect(),
            added: self.added.into_iter().collect(),
        };
        Change { own: None, below }
    }
}

fn visit<'a>(at: Type<'a>, old: Option<&'a Value>, new: Option<&'a Value>) -> Change<'a> {
    match (old, new) {
        (None, None) => Change::default(),
        (Some(one), None) | (None, Some(one)) => within(at.shape(Some(one)), old, new),
        // Most of an object stays as it is: seen at once, nothing of it is walked.
        (Some(a), Some(b)) if equal(a, b) => Change::default(),
        (Some(a), Some(b)) if at.agrees(a, b) => within(at.shape(new), old, new),
        // What the old shape had is removed, what the new one has is added.
        (Some(_), Some(_)) => {
            let (a, b) = (within(at.shape(old), old, new), within(at.shape(new), old, new));
            Change {
                own: a.own.or(b.own),
                below: Comparison {
                    removed: a.below.removed.union(&b.below.removed),
                    modified: a.below.modified.union(&b.below.modified),
                    added: a.below.added.union(&b.below.added),
                },
            }
        }
    }
}

fn within<'a>(shape: Shape<'a>, old: Option<&'a Value>, new: Option<&'a Value>) -> Change<'a> {
    let mut change = match shape {
        Shape::Scalar(_) => return leaf(old, new),
        Shape::Map(map) => {
            let (a, b) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            // Two that are empty are a leaf, so that `{}` and null stay different.
            if map.atomic() || a.is_none_or(Map::is_empty) && b.is_none_or(Map::is_empty) {
                return leaf(old, new);
            }
            map_items(map, a, b)
        }
        Shape::List(list) => {
            let (a, b) = (old.and_then(Value::as_array), new.and_then(Value::as_array));
            if list.atomic() || a.is_none_or(Vec::is_empty) && b.is_none_or(Vec::is_empty) {
                return leaf(old, new);
            }
            list_items(list, a.map_or(&[], Vec::as_slice), b.map_or(&[], Vec::as_slice))
        }
    };
    change.own = match (old, new) {
        (None, _) => Some(Own::Added),
        (_, None) => Some(Own::Removed),
        _ => None,
    };
    change
}

fn leaf<'a>(old: Option<&Value>, new: Option<&Value>) -> Change<'a> {
    let own = match (old, new) {
        (None, _) => Some(Own::Added),
        (_, None) => Some(Own::Removed),
        (Some(a), Some(b)) => (!equal(a, b)).then_some(Own::Modified),
    };
    Change { own, below: Comparison::default() }
}

fn map_items<'a>(
    map: MapShape<'a>,
    old: Option<&'a Map<String, Value>>,
    new: Option<&'a Map<String, Value>>,
) -> Change<'a> {
    let mut changes = Changes::default();
    for (name, value) in old.into_iter().flatten() {
        if let Some(at) = map.value(name) {
            changes.add(Element::Field(name), visit(at, Some(value), new.and_then(|new| new.get(name))));
        }
    }
    for (name, value) in new.into_iter().flatten() {
        if !old.is_some_and(|old| old.contains_key(name))
            && let Some(at) = map.value(name)
        {
            changes.add(Element::Field(name), visit(at, None, Some(value)));
        }
    }
    changes.done()
}

fn list_items<'a>(list: ListShape<'a>, old: &'a [Value], new: &'a [Value]) -> Change<'a> {
    let mut elements: BTreeMap<Element<'a>, [Vec<&'a Value>; 2]> = BTreeMap::new();
    for (side, items) in [old, new].into_iter().enumerate() {
        for item in items {
            if let Some(element) = list.element(item)
                && let Some(values) = elements.entry(element).or_default().get_mut(side)
            {
                values.push(item);
            }
        }
    }
    let mut changes = Changes::default();
    let marked = |own| Change { own: Some(own), below: Comparison::default() };
    for (element, [old, new]) in elements {
        match (old.as_slice(), new.as_slice()) {
            (&[] | &[_], &[] | &[_]) => {
                changes.add(element, visit(list.item, old.first().copied(), new.first().copied()));
            }
            // An element that is there more than once is one leaf.
            (&[_, _, ..], &[_, _, ..]) => {
                if old.len() != new.len() || !old.iter().zip(&new).all(|(a, b)| equal(a, b)) {
                    changes.add(element, marked(Own::Modified));
                }
            }
            (&[_, _, ..], _) => {
                changes.add(element.clone(), visit(list.item, None, new.first().copied()));
                changes.add(element, marked(Own::Removed));
            }
            (_, &[_, _, ..]) => {
                changes.add(element.clone(), visit(list.item, old.first().copied(), None));
                changes.add(element, marked(Own::Added));
            }
        }
    }
    changes.done()
}
