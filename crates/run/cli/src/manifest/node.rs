//! A value together with the place where it was written.

use indexmap::IndexMap;
use pillion_api::field::Segment;
use serde_json::{Map, Value};

/// A place in a text, counted from 1 as editors do; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The line.
    pub line: u32,
    /// The character in it.
    pub column: u32,
}

impl Position {
    pub(super) fn new(line: usize, column: usize) -> Position {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: narrow(line), column: narrow(column) }
    }
}

/// A parsed value and its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) position: Position,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(IndexMap<String, Node>),
}

impl Content {
    /// With its article, for messages.
    pub(super) fn describe(&self) -> &'static str {
        match self {
            Content::Scalar(Value::Null) => "empty",
            Content::Scalar(Value::Bool(_)) => "a boolean",
            Content::Scalar(Value::Number(_)) => "a number",
            Content::Scalar(_) => "a string",
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value, and beside it the tree of its places.
    pub(super) fn into_parts(self) -> (Value, Place) {
        let position = self.position;
        match self.content {
            Content::Scalar(value) => (value, Place { position, below: Vec::new() }),
            Content::List(items) => {
                let (values, below) = items.into_iter().map(Node::into_parts).unzip();
                (Value::Array(values), Place { position, below })
            }
            Content::Map(entries) => {
                let mut object = Map::with_capacity(entries.len());
                let mut below = Vec::with_capacity(entries.len());
                for (key, node) in entries {
                    let (value, place) = node.into_parts();
                    object.insert(key, value);
                    below.push(place);
                }
                (Value::Object(object), Place { position, below })
            }
        }
    }
}

/// Where a value and all that is below it were written; `below` is in the order of the value's own children.
#[derive(Clone, Debug)]
pub(super) struct Place {
    position: Position,
    below: Vec<Place>,
}

impl Place {
    /// The place of what `segments` lead to from `value`, or of the last thing on the way that is there.
    pub(super) fn find(&self, value: &Value, segments: &[Segment]) -> Position {
        let (mut place, mut value) = (self, value);
        for segment in segments {
            let next = match (segment, value) {
                (Segment::Index(index), Value::Array(items)) => items.get(*index).map(|item| (*index, item)),
                (Segment::Field(key) | Segment::Key(key), Value::Object(object)) => {
                    object.iter().enumerate().find(|(_, (name, _))| *name == key).map(|(i, (_, item))| (i, item))
                }
                _ => None,
            };
            let Some((index, item)) = next else { break };
            let Some(below) = place.below.get(index) else { break };
            (place, value) = (below, item);
        }
        place.position
    }
}
