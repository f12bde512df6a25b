//! A SidecarSet, compiled.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_api::field::Path;
use pillion_api::sidecarset::SidecarSet;
use pillion_patch::selector::Selector;

use crate::body::{Body, CompileError};
use crate::namespace::Namespace;
use crate::pin::Pin;

/// One SidecarSet, compiled.
#[derive(Debug)]
pub(crate) struct Compiled {
    pub(crate) selectors: Selectors,
    /// What is injected if nothing is pinned.
    pub(crate) latest: Body,
    /// The revision that new pods should get instead.
    pub(crate) pin: Option<Arc<Pin>>,
}

impl Compiled {
    pub(crate) fn new(set: Arc<SidecarSet>, pin: Option<Arc<Pin>>) -> Result<Compiled, CompileError> {
        Ok(Compiled { selectors: Selectors::of(&set)?, latest: Body::compile(set)?, pin })
    }

    /// What the set injects: as it is in force, and as it is pinned.
    pub(crate) fn bodies(&self) -> impl Iterator<Item = &Body> {
        let pinned = self.pin.as_ref().and_then(|pin| pin.body.as_ref().ok());
        std::iter::once(&self.latest).chain(pinned.map(AsRef::as_ref))
    }
}

/// Which pods a set is for.
#[derive(Debug)]
pub(crate) struct Selectors {
    /// `None` means all namespaces.
    pub(crate) namespaces: Option<Selector>,
    /// Matches nothing without one.
    pub(crate) pods: Option<Selector>,
}

impl Selectors {
    pub(crate) fn of(set: &SidecarSet) -> Result<Selectors, CompileError> {
        let pods = selector(set, set.spec.selector.as_ref(), "selector")?;
        let namespaces = selector(set, set.spec.namespace_selector.as_ref(), "namespaceSelector")?;
        Ok(Selectors { namespaces, pods: pods.filter(|selector| !selector.is_empty()) })
    }

    pub(crate) fn match_pod<'v>(&self, namespace: &Namespace, label: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.namespaces.as_ref().is_none_or(|selector| selector.matches(|key| namespace.label(key)))
            && self.pods.as_ref().is_some_and(|selector| selector.matches(label))
    }
}

/// A selector of a set, checked.
pub(crate) fn selector(
    set: &SidecarSet,
    selector: Option<&LabelSelector>,
    field: &str,
) -> Result<Option<Selector>, CompileError> {
    selector.map(Selector::from_label_selector).transpose().map_err(|reason| CompileError {
        set: set.name().to_owned(),
        path: Path::new("spec").child(field),
        reason: reason.into(),
    })
}
