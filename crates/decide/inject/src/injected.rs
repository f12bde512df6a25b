//! What was injected into one pod, for the steps that come after.

use std::sync::Arc;

use pillion_api::sidecarset::{SidecarContainer, SidecarMode};
use pillion_note::ContainerKey;

use crate::policy::Policy;

/// What was injected into one pod.
#[derive(Debug, Default)]
pub struct Injected {
    pub(crate) sidecars: Vec<Sidecar>,
}

/// One injected container.
#[derive(Debug)]
pub(crate) struct Sidecar {
    pub(crate) key: ContainerKey,
    /// The SidecarSet that it comes from.
    pub(crate) set: String,
    /// How it is sized, if it is.
    pub(crate) policy: Option<Arc<Policy>>,
    /// Whether it ends when the work is done.
    pub(crate) mark: Option<SetMark>,
}

/// What a SidecarSet says of a container with `sidecar: true`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetMark {
    /// `sidecarMode`.
    pub mode: Option<SidecarMode>,
    /// `failPodOnSidecarError`.
    pub fail_pod: bool,
}

impl SetMark {
    pub(crate) fn of(sidecar: &SidecarContainer) -> Option<SetMark> {
        (sidecar.sidecar == Some(true)).then(|| SetMark {
            mode: sidecar.sidecar_mode.clone(),
            fail_pod: sidecar.fail_pod_on_sidecar_error == Some(true),
        })
    }
}

impl Injected {
    /// The containers with `sidecar: true`, and the sets that say so.
    pub fn marked(&self) -> impl Iterator<Item = (ContainerKey, &str, &SetMark)> {
        self.sidecars.iter().filter_map(|sidecar| Some((sidecar.key, sidecar.set.as_str(), sidecar.mark.as_ref()?)))
    }

    /// Every injected container, and the set that it comes from.
    pub fn sets(&self) -> impl Iterator<Item = (ContainerKey, &str)> {
        self.sidecars.iter().map(|sidecar| (sidecar.key, sidecar.set.as_str()))
    }

    /// A later step has put one container in the place of another.
    pub fn moved(&mut self, from: ContainerKey, to: ContainerKey) {
        for sidecar in self.sidecars.iter_mut().filter(|sidecar| sidecar.key == from) {
            sidecar.key = to;
        }
    }
}
