//! Reading manifests: files, folders and standard input; YAML and JSON; one or many documents.
//!
//! ```text
//!  paths ──source──▶ text ──yaml──▶ located trees ──(lists flattened)──▶ Documents
//!                      └──▶ Broken { file, line, column, excerpt }
//! ```
//!
//! A document is read as kubectl reads it (YAML 1.1 booleans and numbers, merge keys, keys turned into strings), with
//! two differences: a key that is there twice is an error, and every value remembers where it was written, so that a
//! message about a field can name line and column.

mod build;
mod node;
mod scalar;
mod source;
#[cfg(test)]
mod tests;
mod yaml;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use pillion_api::field;
use serde_json::Value;
use thiserror::Error;

pub use self::node::Position;
use self::node::{Content, Node, Place};

/// One Kubernetes object, and where each of its fields was written.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file, as the user named it; `<stdin>` for standard input.
    pub source: Arc<str>,
    /// The object; its keys are in the order in which they were written.
    pub value: Value,
    places: Place,
}

impl Document {
    /// `kind`, which every document has.
    pub fn kind(&self) -> &str {
        self.value.get("kind").and_then(Value::as_str).unwrap_or_default()
    }

    /// `apiVersion`, empty when it is missing.
    pub fn api_version(&self) -> &str {
        self.value.get("apiVersion").and_then(Value::as_str).unwrap_or_default()
    }

    /// `metadata.name`, empty when it is missing.
    pub fn name(&self) -> &str {
        self.value.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default()
    }

    /// `Kind/name`, as kubectl names an object to a person.
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind(), self.name())
    }

    /// Where the value at `path` was written; of a missing one, the nearest thing around it that is there.
    pub fn position(&self, path: &field::Path) -> Position {
        self.places.find(&self.value, path.segments())
    }

    /// `file:line:column` of the value at `path`, as editors and terminals understand it.
    pub fn locate(&self, path: &field::Path) -> String {
        let Position { line, column } = self.position(path);
        format!("{}:{line}:{column}", self.source)
    }
}

/// Why a manifest could not be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The file or folder itself.
    #[error("{path}: {reason}")]
    Unreadable {
        /// As the user named it.
        path: String,
        /// What the operating system said, or what is missing.
        reason: String,
    },
    /// A document in it.
    #[error("{0}")]
    Broken(Broken),
}

/// A document that is no object, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// The file, as the user named it.
    pub source: Arc<str>,
    /// Where in it.
    pub position: Position,
    /// What is wrong.
    pub message: String,
    /// The line at that place.
    pub excerpt: String,
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Broken { source, position: Position { line, column }, message, excerpt } = self;
        write!(f, "{source}:{line}:{column}: {message}")?;
        let (text, caret) = window(excerpt, *column as usize);
        write!(f, "\n  {text}\n  {caret}^")
    }
}

/// The part of a line around `column` that fits a terminal, and the blanks that bring a caret below the column.
fn window(line: &str, column: usize) -> (String, String) {
    const BEFORE: usize = 60;
    const WIDTH: usize = 100;
    let at = column.saturating_sub(1);
    let start = at.saturating_sub(BEFORE);
    let mut text = String::new();
    let mut blanks = String::new();
    if start > 0 {
        text.push('…');
        blanks.push(' ');
    }
    let mut characters = line.chars().skip(start);
    for (i, c) in characters.by_ref().take(WIDTH).enumerate() {
        // A tab stays a tab in both lines, so that they line up however wide it is shown.
        let shown = if c == '\t' {
            '\t'
        } else if c.is_control() {
            '\u{fffd}'
        } else {
            c
        };
        text.push(shown);
        if start + i < at {
            blanks.push(if c == '\t' { '\t' } else { ' ' });
        }
    }
    if characters.next().is_some() {
        text.push('…');
    }
    (text, blanks)
}

/// Reads every document of `paths` in order: a file, a folder (all `*.yaml`, `*.yml` and `*.json` below it, sorted),
/// or `-` for `stdin`. Lists are flattened into their items.
///
/// All that is broken is reported, not only the first.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Document>, Vec<ReadError>> {
    let mut documents = Vec::new();
    let mut errors = Vec::new();
    for source in source::open(paths, stdin) {
        match source {
            Ok(source) => {
                let (found, broken) = parse(&source.name, &source.text);
                documents.extend(found);
                errors.extend(broken.into_iter().map(ReadError::Broken));
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(documents) } else { Err(errors) }
}

/// The documents of one text, and those that are broken.
pub fn parse(name: &Arc<str>, text: &str) -> (Vec<Document>, Vec<Broken>) {
    let (trees, mut mistakes) = yaml::parse(text, name.ends_with(".json"));
    let mut documents = Vec::new();
    for tree in trees {
        flatten(name, tree, None, &mut documents, &mut mistakes);
    }
    // Once for all mistakes, however many there are.
    let lines: Vec<&str> = if mistakes.is_empty() { Vec::new() } else { text.lines().collect() };
    let broken = mistakes
        .into_iter()
        .map(|Mistake { position, mut message }| {
            let excerpt = lines.get(position.line.saturating_sub(1) as usize).copied().unwrap_or_default();
            let excerpt = excerpt.trim_start_matches('\u{feff}').to_owned();
            if excerpt.contains("{{") {
                message.push_str("; if this is a template, render it first");
            }
            Broken { source: Arc::clone(name), position, message, excerpt }
        })
        .collect();
    (documents, broken)
}

/// What is wrong, where; the source is known to the caller.
#[derive(Debug)]
struct Mistake {
    position: Position,
    message: String,
}

/// An object of a list that does not repeat its type, as the API server writes them: `PodList` says it once.
struct ItemType {
    api_version: String,
    kind: String,
}

fn flatten(
    source: &Arc<str>,
    mut tree: Node,
    item: Option<&ItemType>,
    documents: &mut Vec<Document>,
    mistakes: &mut Vec<Mistake>,
) {
    let position = tree.position;
    let Content::Map(fields) = &mut tree.content else {
        let message = format!("a manifest is a mapping with apiVersion and kind, this is {}", tree.content.describe());
        mistakes.push(Mistake { position, message });
        return;
    };
    let text = |key: &str| match fields.get(key).map(|node| &node.content) {
        Some(Content::Scalar(Value::String(text))) if !text.is_empty() => Some(text.clone()),
        _ => None,
    };
    let kind = text("kind");
    let api_version = text("apiVersion");
    // An object of a kind that happens to end in `List` and has something else in its items is an object.
    if let (Some(kind), Some(Node { content: Content::List(items), .. })) =
        (kind.as_deref().and_then(|kind| kind.strip_suffix("List")), fields.get_mut("items"))
        && items.iter().all(|item| matches!(item.content, Content::Map(_)))
    {
        let items = std::mem::take(items);
        let item = (!kind.is_empty())
            .then(|| ItemType { api_version: api_version.unwrap_or_default(), kind: kind.to_owned() });
        for tree in items {
            flatten(source, tree, item.as_ref(), documents, mistakes);
        }
        return;
    }
    if kind.is_none() && item.is_none() {
        mistakes.push(Mistake { position, message: "kind: Required value".to_owned() });
        return;
    }
    let (mut value, places) = tree.into_parts();
    if let (None, Some(item), Value::Object(object)) = (kind, item, &mut value) {
        object.entry("apiVersion").or_insert_with(|| item.api_version.clone().into());
        object.entry("kind").or_insert_with(|| item.kind.clone().into());
    }
    documents.push(Document { source: Arc::clone(source), value, places });
}
