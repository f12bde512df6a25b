//! A document: its value, and where each part of it was written.

use serde_json::{Map, Value};

use crate::node::{Content, Node, Position};

/// A value, and where each part of it was written.
#[derive(Clone, Debug)]
pub struct Document {
    /// The value; keys are in the order in which they were written.
    pub value: Value,
    /// Where its parts were written.
    pub positions: Positions,
}

/// Where a value and all that is below it were written.
#[derive(Clone, Debug)]
pub struct Positions {
    own: Position,
    /// In the order of the value's own children.
    below: Vec<Positions>,
}

/// One step from a value to a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// To the value of a key.
    Key(&'a str),
    /// To an element of a list.
    Index(usize),
}

impl Document {
    /// Where the part at `path` was written; if it is missing, where the nearest thing around it was.
    pub fn position<'a>(&self, path: impl IntoIterator<Item = Step<'a>>) -> Position {
        self.positions.find(&self.value, path)
    }

    /// Takes the elements out of the list at `key` of a mapping, each as a document. `None` if there is no such list.
    pub fn take_items(&mut self, key: &str) -> Option<Vec<Document>> {
        let object = self.value.as_object_mut()?;
        let index = object.keys().position(|name| name == key)?;
        let items = object.get_mut(key)?.as_array_mut()?;
        let positions = &mut self.positions.below.get_mut(index)?.below;
        let parts = std::mem::take(items).into_iter().zip(std::mem::take(positions));
        Some(parts.map(|(value, positions)| Document { value, positions }).collect())
    }
}

impl Positions {
    /// Where the part at `path` of `value` was written; if it is missing, where the nearest thing around it was.
    pub fn find<'a>(&self, value: &Value, path: impl IntoIterator<Item = Step<'a>>) -> Position {
        let (mut found, mut value) = (self, value);
        for step in path {
            let next = match (step, value) {
                (Step::Index(index), Value::Array(items)) => items.get(index).map(|item| (index, item)),
                (Step::Key(key), Value::Object(object)) => {
                    object.iter().enumerate().find(|(_, (name, _))| *name == key).map(|(i, (_, item))| (i, item))
                }
                _ => None,
            };
            let Some((index, item)) = next else { break };
            let Some(below) = found.below.get(index) else { break };
            (found, value) = (below, item);
        }
        found.own
    }
}

impl From<Node> for Document {
    fn from(node: Node) -> Document {
        let (value, positions) = parts(node);
        Document { value, positions }
    }
}

fn parts(Node { position: own, content }: Node) -> (Value, Positions) {
    match content {
        Content::Scalar(value) => (value, Positions { own, below: Vec::new() }),
        Content::List(items) => {
            let (values, below) = items.into_iter().map(parts).unzip();
            (Value::Array(values), Positions { own, below })
        }
        Content::Map(entries) => {
            let mut object = Map::with_capacity(entries.len());
            let mut below = Vec::with_capacity(entries.len());
            for (key, node) in entries {
                let (value, positions) = parts(node);
                object.insert(key, value);
                below.push(positions);
            }
            (Value::Object(object), Positions { own, below })
        }
    }
}
