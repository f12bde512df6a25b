//! The SidecarSets in force: kept as text, and compiled when a pod first matches them.

use std::collections::BTreeSet;
use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use pillion_api::sidecarset::{Packed, SidecarSet};
use serde_json::Value;

use crate::body::{Body, CompileError};
use crate::compiled::Compiled;
use crate::index::Index;
use crate::namespace::Namespace;
use crate::pin::Pin;
use crate::recently_used::RecentlyUsed;
use crate::revisions::Revisions;
use crate::selectors::Selectors;

/// The SidecarSets in force. A clone shares what it has with the original, whatever becomes of either.
///
/// Most sets of a large cluster match few pods, so that each is held as text with what it takes to find it. Those that were matched
/// last are held compiled as well.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name, which is therefore the order of injection.
    sets: OrdMap<Arc<str>, Arc<Entry>>,
    index: Index,
    kept: Arc<RecentlyUsed<Entry, Compiled>>,
    /// The environment variables that sets transfer, or once did: there are few names, so that none is ever taken out.
    transferred: Arc<BTreeSet<Box<str>>>,
}

/// One SidecarSet at rest.
#[derive(Debug)]
pub(crate) struct Entry {
    summary: Summary,
    packed: Packed,
    /// What has to be checked of a pod that the index finds; `None` if that is nothing.
    unfiled: Option<Box<Selectors>>,
    /// The revision that new pods should get instead.
    pin: Option<Arc<Pin>>,
}

/// What is known of a set without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    pub name: Arc<str>,
    pub created: Option<Timestamp>,
    /// Whether its injection is paused.
    pub is_paused: bool,
    /// Whether it has sidecars or init containers.
    pub has_containers: bool,
    /// Whether pods that are older than it count as missed.
    pub includes_older: bool,
    /// The set that it is the canary of.
    pub canary_base: Option<Box<str>>,
}

impl Summary {
    fn of(set: &SidecarSet) -> Summary {
        let strategy = &set.spec.injection_strategy;
        let includes_older = strategy.repair.as_ref().and_then(|repair| repair.include_older);
        Summary {
            name: Arc::from(set.name()),
            created: set.metadata.creation_timestamp.as_ref().map(|time| time.0),
            is_paused: strategy.paused,
            has_containers: !set.spec.containers.is_empty() || !set.spec.init_containers.is_empty(),
            includes_older: includes_older.unwrap_or(false),
            canary_base: set.canary_base().map(Into::into),
        }
    }
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
        let packed = Packed::new(&set);
        self.insert_packed(packed, set, revisions)
    }

    /// As [`Catalog::insert`], with the text of the set, which is then in memory once.
    ///
    /// # Errors
    /// Validation should have refused it. The catalog stays as it was.
    pub fn insert_packed(
        &mut self,
        packed: Packed,
        set: Arc<SidecarSet>,
        revisions: &Revisions,
    ) -> Result<(), CompileError> {
        let summary = Summary::of(&set);
        let pin = Pin::of(&set, revisions)?.map(Arc::new);
        let compiled = Compiled::new(set, pin.clone())?;
        self.remove(&summary.name);
        for name in compiled.bodies().flat_map(Body::transferred_variables) {
            if !self.transferred.contains(name) {
                Arc::make_mut(&mut self.transferred).insert(name.into());
            }
        }
        let selectors = compiled.selectors;
        let is_filed = match &selectors.pods {
            Some(pods) => self.index.insert(&summary.name, selectors.namespaces.as_ref(), pods),
            None => true,
        };
        let unfiled = (!is_filed).then(|| Box::new(selectors));
        self.sets.insert(Arc::clone(&summary.name), Arc::new(Entry { summary, packed, unfiled, pin }));
        Ok(())
    }

    /// Removes a set, if it is there.
    pub fn remove(&mut self, name: &str) {
        let Some(entry) = self.sets.remove(name) else { return };
        if let Some(Selectors { namespaces, pods: Some(pods) }) = entry.selectors() {
            self.index.remove(name, namespaces.as_ref(), &pods);
        }
    }

    pub fn get(&self, name: &str) -> Option<Arc<SidecarSet>> {
        let entry = self.sets.get(name)?;
        if let Some(compiled) = self.kept.get(entry) {
            return Some(Arc::clone(&compiled.latest.set));
        }
        entry.packed.unpack().map(Arc::new)
    }

    /// The text of the set of this name.
    pub fn packed(&self, name: &str) -> Option<&Packed> {
        self.sets.get(name).map(|entry| &entry.packed)
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

    /// The names of all environment variables of an app that a set, or the revision that it pins, may transfer to its sidecars.
    pub fn transferred_variables(&self) -> &Arc<BTreeSet<Box<str>>> {
        &self.transferred
    }

    /// How many sets there are.
    pub fn len(&self) -> usize {
        self.sets.len()
    }

    /// Whether there are no sets.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty()
    }

    /// The set of this name, compiled.
    pub(crate) fn compiled(&self, name: &str) -> Option<Arc<Compiled>> {
        let entry = self.sets.get(name)?;
        self.kept.get_or_compile(entry, || entry.compile())
    }

    /// Every set, by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.sets.values().map(AsRef::as_ref)
    }

    /// The sets whose selectors match a pod with these labels in this namespace, by name: paused sets, canaries and the sets
    /// that they stand in for included. The cost does not grow with the number of sets that cannot match.
    pub fn matching(&self, namespace: &Namespace, labels: &[(&str, &str)]) -> Matching<'_> {
        let of_namespace: Vec<(&str, &str)> = namespace.labels().collect();
        let label = |key: &str| labels.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        let found = self.index.find(&of_namespace, labels).into_iter();
        let entries = found.filter_map(|name| self.sets.get(name));
        let matches =
            |entry: &&Arc<Entry>| entry.unfiled.as_ref().is_none_or(|selectors| selectors.match_pod(namespace, label));
        Matching(entries.filter(matches).collect())
    }

    /// The same sets, compiled.
    pub(crate) fn compile(&self, sets: Matching<'_>) -> Vec<Arc<Compiled>> {
        // What is in the catalog was compiled before, so that it compiles.
        sets.0.into_iter().filter_map(|entry| self.kept.get_or_compile(entry, || entry.compile())).collect()
    }
}

/// The sets whose selectors match a pod, by name.
#[derive(Debug)]
pub struct Matching<'c>(Vec<&'c Arc<Entry>>);

impl<'c> Matching<'c> {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that the pod gets: without paused ones, and with a canary in the place of its set.
    #[must_use]
    pub fn injected(mut self) -> Matching<'c> {
        self.0.retain(|entry| !entry.summary.is_paused);
        let replaced: Vec<&str> = self.0.iter().filter_map(|entry| entry.summary.canary_base.as_deref()).collect();
        if !replaced.is_empty() {
            self.0.retain(|entry| !replaced.contains(&entry.name()));
        }
        self
    }

    /// What is known of them without reading them.
    pub fn summaries(&self) -> Vec<&'c Summary> {
        self.0.iter().map(|entry| &entry.summary).collect()
    }
}

impl Entry {
    pub(crate) fn name(&self) -> &str {
        &self.summary.name
    }

    pub(crate) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// The selectors, read again.
    pub(crate) fn selectors(&self) -> Option<Selectors> {
        Selectors::of(&self.packed.unpack()?).ok()
    }

    fn compile(&self) -> Option<Compiled> {
        Compiled::new(Arc::new(self.packed.unpack()?), self.pin.clone()).ok()
    }
}
