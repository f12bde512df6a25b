//! The SidecarSets in force: compiled once, so that a pod's admission only looks things up.

use std::sync::Arc;

use imbl::OrdMap;
use pillion_api::field::Path;
use pillion_api::names;
use pillion_api::sidecarset::{self, SidecarContainer, SidecarSet};
use pillion_patch::selector::{Selector, SelectorError};
use serde_json::Value;

use crate::index::Index;
use crate::resources::{Policy, PolicyError};
use crate::revision::{Pin, PinError};
use crate::selection::Namespace;

/// The SidecarSets in force. A clone shares what it has with the original, whatever becomes of either.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// By name, which is therefore the order of injection.
    sets: OrdMap<String, Arc<Entry>>,
    index: Index,
}

/// A SidecarSet that validation should have refused.
#[derive(Debug, thiserror::Error)]
#[error("SidecarSet {set:?}: {path}")]
pub struct CompileError {
    /// The set.
    pub set: String,
    /// Where in it.
    pub path: Path,
    /// What is wrong.
    #[source]
    pub reason: CompileReason,
}

/// What is wrong with a SidecarSet.
#[derive(Debug, thiserror::Error)]
pub enum CompileReason {
    /// A selector is malformed.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// A `resourcesPolicy` is malformed.
    #[error(transparent)]
    Policy(#[from] PolicyError),
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

/// What one revision of a SidecarSet injects.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) set: SidecarSet,
    pub(crate) init_containers: Vec<Option<Arc<Policy>>>,
    pub(crate) containers: Vec<Option<Arc<Policy>>>,
    pub(crate) hash: String,
    pub(crate) hash_without_image: String,
}

impl Catalog {
    /// Compiles SidecarSets, with the ControllerRevisions that they may pin. A name that is there twice counts once,
    /// the last one.
    ///
    /// # Errors
    /// The first set that validation should have refused.
    pub fn new(sets: impl IntoIterator<Item = SidecarSet>, revisions: &[Value]) -> Result<Catalog, CompileError> {
        let mut catalog = Catalog::default();
        for set in sets {
            catalog.insert(set, revisions)?;
        }
        Ok(catalog)
    }

    /// Takes a set in, in the place of the one of its name. `revisions` are the ControllerRevisions that it may pin.
    ///
    /// # Errors
    /// Validation should have refused it. The catalog stays as it was.
    pub fn insert(&mut self, set: SidecarSet, revisions: &[Value]) -> Result<(), CompileError> {
        let entry = Entry::compile(set, revisions)?;
        self.remove(entry.name());
        if let Some(selector) = &entry.selector {
            self.index.insert(entry.name(), entry.namespace_selector.as_ref(), selector);
        }
        self.sets.insert(entry.name().to_owned(), Arc::new(entry));
        Ok(())
    }

    /// Takes a set out, if it is there.
    pub fn remove(&mut self, name: &str) {
        let Some(entry) = self.sets.remove(name) else { return };
        if let Some(selector) = &entry.selector {
            self.index.remove(name, entry.namespace_selector.as_ref(), selector);
        }
    }

    /// Every set, by name.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.sets.values().map(AsRef::as_ref)
    }

    /// The sets that may match these labels, by name.
    pub(crate) fn candidates(&self, namespace: &Namespace, labels: &[(&str, &str)]) -> impl Iterator<Item = &Entry> {
        let namespace: Vec<(&str, &str)> = namespace.labels().collect();
        self.index.find(&namespace, labels).into_iter().filter_map(|name| self.sets.get(name).map(AsRef::as_ref))
    }
}

impl Entry {
    fn compile(set: SidecarSet, revisions: &[Value]) -> Result<Entry, CompileError> {
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
}

impl Body {
    pub(crate) fn compile(set: SidecarSet) -> Result<Body, CompileError> {
        let policies = |list: &[SidecarContainer], field: &str| {
            list.iter()
                .enumerate()
                .map(|(i, container)| {
                    container
                        .resources_policy
                        .as_ref()
                        .map(Policy::compile)
                        .transpose()
                        .map(|policy| policy.map(Arc::new))
                        .map_err(|reason| CompileError {
                            set: set.name().to_owned(),
                            path: Path::new("spec").child(field).index(i).child("resourcesPolicy"),
                            reason: reason.into(),
                        })
                })
                .collect::<Result<Vec<_>, _>>()
        };
        let init_containers = policies(&set.spec.init_containers, "initContainers")?;
        let containers = policies(&set.spec.containers, "containers")?;
        let hash = set.annotation(names::HASH).map_or_else(|| sidecarset::hash(&set), str::to_owned);
        let hash_without_image = set
            .annotation(names::HASH_WITHOUT_IMAGE)
            .map_or_else(|| sidecarset::hash_without_image(&set), str::to_owned);
        Ok(Body { set, init_containers, containers, hash, hash_without_image })
    }
}

/// An error and everything that led to it, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl From<CompileError> for PinError {
    fn from(error: CompileError) -> PinError {
        PinError { reason: format!("the pinned revision cannot be used: {}: {}", error.path, chain(&error.reason)) }
    }
}
