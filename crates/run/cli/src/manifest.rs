//! Reading manifests: files, folders and standard input; YAML and JSON; one or many documents.
//!
//! ```text
//!  paths ──source──▶ text ──pillion_yaml──▶ documents with positions ──(lists flattened)──▶ Documents
//!                      └──────────┴──▶ Broken { source, error }
//! ```

mod source;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use self::source::Source;
use pillion_api::field::{self, Segment};
use pillion_yaml::{ListType, Mistake, Options, Positions, Step};
use serde_json::Value;
use thiserror::Error;

pub use pillion_yaml::Position;

/// One Kubernetes object, and where each of its fields was written.
#[derive(Clone, Debug)]
pub struct Document {
    /// The file, as the user named it; `<stdin>` for standard input.
    pub source: Arc<str>,
    /// The object; its keys are in the order in which they were written.
    pub value: Value,
    positions: Positions,
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

    /// `metadata.namespace`, if the object names one.
    pub fn namespace(&self) -> Option<&str> {
        self.value.pointer("/metadata/namespace").and_then(Value::as_str).filter(|name| !name.is_empty())
    }

    /// The title with the namespace, if the object names one: an app may be in several of them under one name.
    pub fn full_title(&self) -> String {
        let place = self.namespace().map(|name| format!(" in namespace {name}")).unwrap_or_default();
        format!("{}{place}", self.title())
    }

    /// Where the value at `path` was written; of a missing one, the nearest thing around it that is there.
    pub fn position(&self, path: &field::Path) -> Position {
        let steps = path.segments().iter().map(|segment| match segment {
            Segment::Field(key) | Segment::Key(key) => Step::Key(key),
            Segment::Index(index) => Step::Index(*index),
        });
        self.positions.find(&self.value, steps)
    }

    /// `file:line:column` of the value at `path`, as editors and terminals understand it.
    pub fn locate(&self, path: &field::Path) -> String {
        format!("{}:{}", self.source, self.position(path))
    }
}

/// Why a manifest could not be read.
#[derive(Clone, Debug, Error)]
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

/// A document that is no object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{source_name}:{error}")]
pub struct Broken {
    /// The file, as the user named it.
    pub source_name: Arc<str>,
    /// Where in it, and what is wrong.
    pub error: pillion_yaml::Error,
}

/// The texts of manifests. Their documents can be read as often as it takes, one after the other: all of them at once need many times the
/// memory of the texts.
pub struct Manifests {
    sources: Vec<Result<Source, ReadError>>,
}

impl Manifests {
    /// The texts of `paths` in order: a file, a folder (all `*.yaml`, `*.yml` and `*.json` below it, sorted), or `-` for `stdin`.
    pub fn open(paths: &[PathBuf], stdin: &mut dyn Read) -> Manifests {
        Manifests { sources: source::open(paths, stdin) }
    }

    /// One text, as the file `name`.
    #[cfg(test)]
    pub(crate) fn of_text(name: &str, text: &str) -> Manifests {
        Manifests { sources: vec![Ok(Source { name: name.into(), text: text.to_owned() })] }
    }

    /// Hands over every document in order. Lists are flattened into their items.
    ///
    /// # Errors
    /// All that is broken, not only the first. What is good was handed over all the same.
    pub fn for_each(&self, mut take: impl FnMut(Document)) -> Result<(), Vec<ReadError>> {
        let mut errors = Vec::new();
        for source in &self.sources {
            match source {
                Ok(source) => {
                    let broken = for_each(&source.name, &source.text, &mut take);
                    errors.extend(broken.into_iter().map(ReadError::Broken));
                }
                Err(error) => errors.push(error.clone()),
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors) }
    }
}

/// Reads every document of `paths`, as [`Manifests`] does.
pub fn read(paths: &[PathBuf], stdin: &mut dyn Read) -> Result<Vec<Document>, Vec<ReadError>> {
    let mut documents = Vec::new();
    Manifests::open(paths, stdin).for_each(|document| documents.push(document))?;
    Ok(documents)
}

/// The documents of one text, and those that are broken.
pub fn parse(name: &Arc<str>, text: &str) -> (Vec<Document>, Vec<Broken>) {
    let mut documents = Vec::new();
    let broken = for_each(name, text, &mut |document| documents.push(document));
    (documents, broken)
}

fn for_each(name: &Arc<str>, text: &str, take: &mut dyn FnMut(Document)) -> Vec<Broken> {
    let options = Options { json: name.ends_with(".json"), ..Options::default() };
    let mut unfit = Vec::new();
    let mut mistakes = pillion_yaml::for_each_object(text, options, |document, list| {
        flatten(name, document, list.and_then(ItemType::of).as_ref(), take, &mut unfit);
    });
    mistakes.append(&mut unfit);
    let errors = pillion_yaml::show(text, mistakes).into_iter();
    errors.map(|error| Broken { source_name: Arc::clone(name), error }).collect()
}

/// The type of a list's items that do not repeat it, as the API server writes them: a `PodList` has it once.
struct ItemType {
    api_version: String,
    kind: String,
}

impl ItemType {
    /// The items of a `List` say their own type.
    fn of(list: &ListType) -> Option<ItemType> {
        let kind = list.kind.strip_suffix("List").filter(|kind| !kind.is_empty())?;
        Some(ItemType { api_version: list.api_version.clone(), kind: kind.to_owned() })
    }
}

fn flatten(
    source: &Arc<str>,
    mut document: pillion_yaml::Document,
    item: Option<&ItemType>,
    take: &mut dyn FnMut(Document),
    mistakes: &mut Vec<Mistake>,
) {
    let position = document.position([]);
    let Value::Object(object) = &document.value else {
        let found = pillion_yaml::describe(&document.value);
        let message = format!("a manifest is a mapping with apiVersion and kind, this is {found}");
        mistakes.push(Mistake::new(position, message));
        return;
    };
    let text = |key: &str| object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned);
    let kind = text("kind");
    let api_version = text("apiVersion");
    // An object of a kind that happens to end in `List` and has something else in its items is an object.
    if let Some(kind) = kind.as_ref().filter(|kind| kind.ends_with("List"))
        && object.get("items").and_then(Value::as_array).is_some_and(|items| items.iter().all(Value::is_object))
    {
        let item = ItemType::of(&ListType { api_version: api_version.unwrap_or_default(), kind: kind.clone() });
        for document in document.take_items("items").unwrap_or_default() {
            flatten(source, document, item.as_ref(), take, mistakes);
        }
        return;
    }
    if kind.is_none() && item.is_none() {
        mistakes.push(Mistake::new(position, "kind: Required value"));
        return;
    }
    let pillion_yaml::Document { mut value, positions } = document;
    if let (None, Some(item), Value::Object(object)) = (kind, item, &mut value) {
        object.entry("apiVersion").or_insert_with(|| item.api_version.clone().into());
        object.entry("kind").or_insert_with(|| item.kind.clone().into());
    }
    take(Document { source: Arc::clone(source), value, positions });
}
