//! Measurements of what containers use, from which rates are computed.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::runtime::{ContainerId, Usage};

/// The last two measurements of each container.
#[derive(Default)]
pub(crate) struct Samples(Mutex<HashMap<ContainerId, (Option<Usage>, Usage)>>);

impl Samples {
    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<ContainerId, (Option<Usage>, Usage)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
