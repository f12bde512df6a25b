//! Pods in a message: their number, and the names of some.

use std::collections::BTreeMap;
use std::fmt;

use crate::view::PodView;

/// More names help nobody.
const MAX_NAMES: usize = 10;

/// How many pods, and the first of them by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodNames<'p> {
    count: usize,
    /// By namespace and name, with what is said about the pod.
    first: BTreeMap<(&'p str, &'p str), String>,
}

impl<'p> PodNames<'p> {
    pub(crate) fn add(&mut self, pod: &'p PodView, detail: impl fmt::Display) {
        self.count += 1;
        let key = (&*pod.namespace, &*pod.name);
        if self.first.len() == MAX_NAMES {
            if self.first.last_key_value().is_none_or(|(last, _)| *last < key) {
                return;
            }
            self.first.pop_last();
        }
        self.first.insert(key, detail.to_string());
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// `3 pods`, or `1 pod`.
    pub(crate) fn counted(&self) -> String {
        counted(self.count)
    }
}

/// `3 pods`, or `1 pod`.
pub fn counted(pods: usize) -> String {
    format!("{pods} pod{}", if pods == 1 { "" } else { "s" })
}

/// `3 pods are`, or `1 pod is`.
pub fn is_or_are(pods: usize) -> String {
    format!("{} {}", counted(pods), if pods == 1 { "is" } else { "are" })
}

/// `shop/web-1 (ImagePullBackOff), shop/web-2 and 3 more`.
impl fmt::Display for PodNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ((namespace, name), detail)) in self.first.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{namespace}/{name}")?;
            if !detail.is_empty() {
                write!(f, " ({detail})")?;
            }
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
