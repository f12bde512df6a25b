//! The revision that a SidecarSet pins for new pods.

use std::sync::Arc;

use pillion_api::sidecarset::{InjectRevision, InjectRevisionPolicy, OnMissing, SidecarSet, revision};
use pillion_selector::Selector;

use crate::body::{Body, CompileError};
use crate::revisions::{Revisions, name_of};
use crate::selectors::selector;

/// The revision that a set pins for new pods.
#[derive(Debug)]
pub(crate) struct Pin {
    pub(crate) policy: InjectRevisionPolicy,
    /// How the set names the revision.
    pub(crate) wanted: String,
    pub(crate) update_selector: Option<Selector>,
    /// Whether new pods get the latest revision if the pinned one does not exist.
    pub(crate) is_optional: bool,
    pub(crate) body: Result<Arc<Body>, PinError>,
}

/// Why a pinned revision cannot be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PinError {
    pub(crate) reason: String,
    /// Whether the set has no such revision.
    pub(crate) is_missing: bool,
}

impl PinError {
    /// The revision is there, and something is wrong with it.
    fn unusable(why: &str) -> PinError {
        PinError { reason: format!("the pinned revision cannot be used: {why}"), is_missing: false }
    }
}

impl From<CompileError> for PinError {
    fn from(error: CompileError) -> PinError {
        PinError::unusable(&format!("{}: {}", error.path, chain(&error.reason)))
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
        let is_optional = pinned.on_missing == Some(OnMissing::Latest);
        Ok(Some(Pin { policy, wanted, update_selector, is_optional, body }))
    }
}

fn restore(set: &SidecarSet, pinned: &InjectRevision, revisions: &Revisions) -> Result<Body, PinError> {
    let found = revisions.pinned(set, pinned).ok_or_else(|| {
        let reason = format!("{}; pin a revision of this SidecarSet, or remove the pin", revisions.missing(pinned));
        PinError { reason, is_missing: true }
    })?;
    let restored = revision::restore(set, found).map_err(|error| PinError::unusable(&chain(&error)))?;
    Ok(Body::compile_revision(Arc::new(restored), name_of(found))?)
}

/// An error and everything that led to it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source()).map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
