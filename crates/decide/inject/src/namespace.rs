//! A namespace as selectors see it.

use std::collections::BTreeMap;

use pillion_api::names;

/// A namespace: its labels, which always include the one with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    labels: BTreeMap<String, String>,
}

impl Namespace {
    /// A namespace with no labels but its name.
    pub fn named(name: &str) -> Namespace {
        Namespace::new(name, BTreeMap::new())
    }

    pub fn new(name: &str, mut labels: BTreeMap<String, String>) -> Namespace {
        // The API server sets this label on every Namespace, and nobody can change it.
        labels.insert(names::NAMESPACE_NAME.to_owned(), name.to_owned());
        Namespace { labels }
    }

    pub(crate) fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.labels.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }
}
