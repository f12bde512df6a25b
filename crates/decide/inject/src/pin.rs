//! The revision that a SidecarSet pins for new pods.

use std::sync::Arc;

use pillion_api::sidecarset::{InjectRevision, InjectRevisionPolicy, SidecarSet, revision};
use pillion_patch::selector::Selector;

use crate::body::{Body, CompileError};
use crate::revisions::{Revisions, name_of, owner_of};
use crate::selectors::selector;

/// The revision that a set pins for new pods.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) policy: InjectRevisionPolicy,
    /// How the set names the revision.
    pub(crate) wanted: String,
    pub(crate) update_selector: Option<Selector>,
    pub(crate) body: Result<Arc<Body>, PinError>,
}

/// Why a pinned revision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinError {
    pub(crate) reason: String,
}

impl From<CompileError> for PinError {
    fn from(error: CompileError) -> PinError {
        PinError { reason: format!("the pinned revision cannot be used: {}: {}", error.path, chain(&error.reason)) }
    }
}

impl Pin {
    /// What `set` pins, if anything.
    pub(crate) fn of(set: &SidecarSet, revisions: &Revisions) -> Result<Option<Pin>, CompileError> {
        let update_selector = selector(set, set.spec.update_strategy.selector.as_ref(), "updateStrategy.selector")?;
        let Some(pinned) = set.spec.pinned_revision() else { return Ok(None) };
        let wanted = match (&pinned.revision_name, &pinned.custom_version) {
            (Some(name), _) => name.clone(),
            (None, Some(version)) => format!("with customVersion {version:?}"),
            (None, None) => return Ok(None),
        };
        let body = restore(set, &pinned, revisions).map(Arc::new);
        let policy = pinned.policy.unwrap_or(InjectRevisionPolicy::Always);
        Ok(Some(Pin { policy, wanted, update_selector, body }))
    }
}

fn restore(set: &SidecarSet, pinned: &InjectRevision, revisions: &Revisions) -> Result<Body, PinError> {
    let found = revisions.pinned(set, pinned).ok_or_else(|| missing(pinned, revisions))?;
    let restored = revision::restore(set, found)
        .map_err(|error| PinError { reason: format!("the pinned revision cannot be used: {}", chain(&error)) })?;
    Ok(Body::compile_revision(Arc::new(restored), name_of(found))?)
}

fn missing(pinned: &InjectRevision, revisions: &Revisions) -> PinError {
    let not_found = |what: String| PinError {
        reason: format!("{what} is pinned for new pods and is not there; pin one that is, or remove the pin"),
    };
    let Some(name) = &pinned.revision_name else {
        let version = pinned.custom_version.as_deref().unwrap_or_default();
        return not_found(format!("a ControllerRevision with customVersion {version:?}"));
    };
    match revisions.get(name).map(|other| owner_of(other).unwrap_or_default()) {
        Some(owner) => PinError { reason: format!("ControllerRevision {name:?} belongs to SidecarSet {owner:?}") },
        None => not_found(format!("ControllerRevision {name:?}")),
    }
}

/// An error and everything that led to it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
