//! A value together with the place where it was written, while it is built.

use std::fmt;

use indexmap::IndexMap;
use serde_json::Value;

/// A place in a text, counted from 1 as editors do; columns are characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    /// The character in it.
    pub column: u32,
}

impl Position {
    /// A place by its line and column, both counted from 1.
    pub fn new(line: usize, column: usize) -> Position {
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Position { line: narrow(line), column: narrow(column) }
    }
}

/// `line:column`, as editors and terminals understand it behind the name of a file.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A parsed value and its place.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) position: Position,
    pub(crate) content: Content,
}

#[derive(Clone, Debug)]
pub(crate) enum Content {
    Scalar(Value),
    List(Vec<Node>),
    Map(IndexMap<String, Node>),
}

impl Content {
    /// With its article, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match self {
            Content::Scalar(value) => describe(value),
            Content::List(_) => "a list",
            Content::Map(_) => "a mapping",
        }
    }
}

/// What a value is, with its article, for messages: `a list`.
pub fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "empty",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}
