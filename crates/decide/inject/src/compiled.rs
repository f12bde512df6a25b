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
}
