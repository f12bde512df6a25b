//! YAML and JSON documents as kubectl reads them, with the position of every value.
//!
//! A text is read as `sigs.k8s.io/yaml` reads it (YAML 1.1 booleans and numbers, merge keys, keys turned into strings). A key that is given
//! twice is an error unless [`Options`] say otherwise. Every value remembers where it was written, so that a message about a field can name
//! line and column.
//!
//! ```
//! use pillion_yaml::{Options, Step, parse};
//!
//! let documents = parse("kind: Pod\nspec: {hostNetwork: yes}\n---\nkind: Service\n", Options::default()).unwrap();
//! assert_eq!(documents[0].value["spec"]["hostNetwork"], true);
//! assert_eq!(documents[0].position([Step::Key("spec"), Step::Key("hostNetwork")]).to_string(), "2:21");
//! assert_eq!(documents.len(), 2);
//!
//! let errors = parse("kind: Pod\nname: a\nname: b\n", Options::default()).unwrap_err();
//! assert_eq!(errors[0].to_string(), "3:1: key \"name\" is already set in this mapping, on line 2\n  name: b\n  ^");
//! ```
//!
//! ```text
//!  text ──parse, json──▶ events ──build──▶ tree of nodes ──▶ Document { value, positions }
//!                         └──────┴──▶ Mistake { position, problem } ──show──▶ Error with the line and a caret
//! ```
//!
//! # Invariants
//! - No text costs more than a small multiple of its size: what aliases and anchors copy is bounded ([`MAX_ALIASED_BYTES`]), and so is the
//!   depth ([`MAX_DEPTH`]). A "billion laughs" stops early.
//! - All broken documents of a text are reported, not only the first.
#![forbid(unsafe_code)]

mod build;
mod document;
mod error;
mod json;
mod list;
mod node;
mod origin;
mod parse;
mod scalar;
#[cfg(test)]
mod tests;

pub use build::{MAX_ALIASED_BYTES, MAX_DEPTH};
pub use document::{Document, Positions, Step};
pub use error::{Error, Mistake, Problem, show};
pub use list::ListType;
pub use node::{Position, describe};

/// How a text is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The text is JSON and nothing else, as in a file whose name ends in `.json`. Otherwise it may be either.
    pub json: bool,
    /// Of a key that is given twice in a mapping the last value counts, as for a request to an API server. Otherwise it is an error.
    pub last_key_wins: bool,
}

/// The documents of a text. Empty ones are left out.
///
/// # Errors
/// All that is wrong with the text.
pub fn parse(text: &str, options: Options) -> Result<Vec<Document>, Vec<Error>> {
    let (documents, mistakes) = parse_lossy(text, options);
    if mistakes.is_empty() { Ok(documents) } else { Err(show(text, mistakes)) }
}

/// The good documents of a text, and what is wrong with the others. [`show`] makes errors of the mistakes.
pub fn parse_lossy(text: &str, options: Options) -> (Vec<Document>, Vec<Mistake>) {
    let mut documents = Vec::new();
    let mistakes = parse::parse(text, options, false, &mut |tree, _| documents.push(tree.into()));
    (documents, mistakes)
}

/// Hands over each good object of a text before the next one is read, so that a text of very many needs the memory of one: a document, or an
/// item of a Kubernetes list with the type of the list. Returns what is wrong with the others.
///
/// A list is handed over as a whole if an item is not a mapping, or if aliases or merge keys decide what its items are.
///
/// ```
/// let mut names = Vec::new();
/// let text = "apiVersion: v1\nitems:\n- {metadata: {name: a}}\n- {metadata: {name: b}}\nkind: PodList\n";
/// pillion_yaml::for_each_object(text, pillion_yaml::Options::default(), |object, list| {
///     names.push((object.value["metadata"]["name"].to_string(), list.unwrap().kind.clone()));
/// });
/// assert_eq!(names, [(r#""a""#.to_owned(), "PodList".to_owned()), (r#""b""#.to_owned(), "PodList".to_owned())]);
/// ```
pub fn for_each_object(
    text: &str,
    options: Options,
    mut take: impl FnMut(Document, Option<&ListType>),
) -> Vec<Mistake> {
    parse::parse(text, options, true, &mut |tree, list| take(tree.into(), list))
}
