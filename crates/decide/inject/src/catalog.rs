//! The SidecarSets in force: compiled once, so that a pod's admission only looks things up.

use std::sync::Arc;

use imbl::OrdMap;
use pillion_api::field::Path;
use pillion_api::sidecarset::SidecarSet;
use pillion_patch::selector::Selector;
use serde_json::Value;

use crate::body::{Body, CompileError};
use crate::index::Index;
use crate::namespace::Namespace;
use crate::pin::Pin;
use crate::revisions::Revisions;

/// The SidecarSets in force. A clone shares what it has with the original, whatever becomes of either.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name, which is therefore the order of injection.
    sets: OrdMap<String, Arc<Entry>>,
    index: Index,
}

/// One SidecarSet, compiled.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Never matches without one.
    pub(crate) selector: Option<Selector>,
    pub(crate) namespace_selector: Option<Selector>,
    /// What is injected if nothing is pinned.
    pub(crate) latest: Body,
    /// The revision that new pods should get instead.
    pub(crate) pin: Option<Pin>,
}

impl Catalog {
    /// Compiles SidecarSets, with the ControllerRevisions that they may pin. A name that is there twice counts once,
    /// the last one.
    ///
    /// # Errors
    /// The first set that validation should have refused.
    pub fn new(sets: impl IntoIterator<Item = SidecarSet>, revisions: &[Value]) -> Result<Catalog, CompileError> {
        let mut catalog = Catalog::default();
        let revisions = revisions.iter().cloned().collect();
        for set in sets {
            catalog.insert(Arc::new(set), &revisions)?;
        }
        Ok(catalog)
    }

    /// Adds a set, in the place of the one of its name. `revisions` are the ControllerRevisions that it may pin.
    ///
    /// # Errors
    /// Validation should have refused it. The catalog stays as it was.
    pub fn insert(&mut self, set: Arc<SidecarSet>, revisions: &Revisions) -> Result<(), CompileError> {
        let entry = Entry::compile(set, revisions)?;
        self.remove(entry.name());
        if let Some(selector) = &entry.selector {
            self.index.insert(entry.name(), entry.namespace_selector.as_ref(), selector);
        }
        self.sets.insert(entry.name().to_owned(), Arc::new(entry));
        Ok(())
    }

    /// Removes a set, if it is there.
    pub fn remove(&mut self, name: &str) {
        let Some(entry) = self.sets.remove(name) else { return };
        if let Some(selector) = &entry.selector {
            self.index.remove(name, entry.namespace_selector.as_ref(), selector);
        }
    }

    /// The set of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<SidecarSet>> {
        self.sets.get(name).map(|entry| &entry.latest.set)
    }

    /// Whether the set of this name pins no revision, or one that can be injected.
    pub fn is_pin_resolved(&self, name: &str) -> bool {
        let pin = self.sets.get(name).and_then(|entry| entry.pin.as_ref());
        pin.is_none_or(|pin| pin.body.is_ok())
    }

    /// The name of the revision that a set pins, if it pins one that can be injected.
    pub fn pinned_revision(&self, name: &str) -> Option<&str> {
        Some(self.sets.get(name)?.pin.as_ref()?.body.as_ref().ok()?.revision())
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// What a set injects: as it is in force, and as it is pinned.
    pub(crate) fn bodies(&self, set: &str) -> impl Iterator<Item = &Body> {
        let entry = self.sets.get(set);
        let pinned = entry.and_then(|entry| entry.pin.as_ref()?.body.as_ref().ok()).map(AsRef::as_ref);
        entry.map(|entry| &entry.latest).into_iter().chain(pinned)
    }

    /// What a set injected when it had this hash.
    pub(crate) fn body(&self, set: &str, hash: &str) -> Option<&Body> {
        self.bodies(set).find(|body| body.hash == hash)
    }

    /// Every set, by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.sets.values().map(AsRef::as_ref)
    }

    /// The sets whose selectors match a pod with these labels in this namespace, by name: paused sets, canaries and the sets
    /// that they stand in for included. The cost does not grow with the number of sets that cannot match.
    pub fn matching<'c>(&'c self, namespace: &Namespace, labels: &[(&str, &str)]) -> Vec<&'c SidecarSet> {
        self.matching_entries(namespace, labels).into_iter().map(|entry| entry.latest.set.as_ref()).collect()
    }

    /// The sets that a pod with these labels gets in this namespace, by name: those that match, without paused ones, and with a
    /// canary in the place of its set.
    pub fn injected_into<'c>(&'c self, namespace: &Namespace, labels: &[(&str, &str)]) -> Vec<&'c Arc<SidecarSet>> {
        self.injected_entries(namespace, labels).into_iter().map(|entry| &entry.latest.set).collect()
    }

    pub(crate) fn injected_entries(&self, namespace: &Namespace, labels: &[(&str, &str)]) -> Vec<&Entry> {
        let mut matching = self.matching_entries(namespace, labels);
        matching.retain(|entry| !entry.latest.set.spec.injection_strategy.paused);
        let replaced: Vec<&str> = matching.iter().filter_map(|entry| entry.latest.set.canary_base()).collect();
        matching.into_iter().filter(|entry| !replaced.contains(&entry.name())).collect()
    }

    pub(crate) fn matching_entries(&self, namespace: &Namespace, labels: &[(&str, &str)]) -> Vec<&Entry> {
        let of_namespace: Vec<(&str, &str)> = namespace.labels().collect();
        let label = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let found = self.index.find(&of_namespace, labels).into_iter();
        let entries = found.filter_map(|name| self.sets.get(name).map(AsRef::as_ref));
        entries.filter(|entry| entry.matches(namespace, label)).collect()
    }
}

impl Entry {
    fn compile(set: Arc<SidecarSet>, revisions: &Revisions) -> Result<Entry, CompileError> {
        let spec = Path::new("spec");
        let selector = |of: Option<&_>, field: &str| {
            of.map(Selector::from_label_selector).transpose().map_err(|reason| CompileError {
                set: set.name().to_owned(),
                path: spec.child(field),
                reason: reason.into(),
            })
        };
        let pod_selector = selector(set.spec.selector.as_ref(), "selector")?.filter(|selector| !selector.is_empty());
        let namespace_selector = selector(set.spec.namespace_selector.as_ref(), "namespaceSelector")?;
        let update_selector = selector(set.spec.update_strategy.selector.as_ref(), "updateStrategy.selector")?;
        let pin = Pin::of(&set, update_selector, revisions);
        Ok(Entry { selector: pod_selector, namespace_selector, latest: Body::compile(set)?, pin })
    }

    pub(crate) fn name(&self) -> &str {
        self.latest.set.name()
    }

    fn matches<'v>(&self, namespace: &Namespace, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.namespace_selector.as_ref().is_none_or(|selector| selector.matches(|key| namespace.label(key)))
            && self.selector.as_ref().is_some_and(|selector| selector.matches(label))
    }
}
