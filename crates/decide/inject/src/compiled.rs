//! A SidecarSet, compiled.

use std::sync::Arc;

use pillion_api::sidecarset::SidecarSet;

use crate::body::{Body, CompileError};
use crate::pin::Pin;
use crate::selectors::Selectors;

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
