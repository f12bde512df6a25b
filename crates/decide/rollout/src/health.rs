//! How a pod of the set is doing.

use crate::hot_upgrade::{Pair, in_service};
use crate::target::Target;
use crate::view::{InjectedSet, PodView};
use crate::waiting::is_done;

/// How a pod of the set is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Health {
    /// Whether every sidecar runs the image of the pod's spec.
    pub(crate) is_done: bool,
    /// Whether the pod is ready, and no hot upgrade is under way.
    pub(crate) is_ready: bool,
    /// Whether an update is under way in a container that still runs with the image before.
    pub(crate) is_in_flight: bool,
    /// Whether every sidecar that is in service is ready.
    pub(crate) are_sidecars_ready: bool,
}

impl Health {
    pub(crate) fn of(target: &Target, pod: &PodView, injected: &InjectedSet) -> Health {
        let in_place = injected.in_place.as_deref();
        let mut health = Health {
            is_done: pod.is_reported,
            is_ready: pod.is_running_and_ready(),
            is_in_flight: false,
            are_sidecars_ready: true,
        };
        for sidecar in &target.sidecars {
            for container in sidecar.containers().filter_map(|name| pod.container(name)) {
                let is_done = pod.is_reported && is_done(container, pod, in_place);
                health.is_done &= is_done;
                health.is_in_flight |= container.is_ready && !is_done;
            }
            health.are_sidecars_ready &= in_service(sidecar, pod).all(|container| container.is_ready);
            let Some(hot) = &sidecar.hot else { continue };
            let pair = Pair::of(sidecar, hot, pod);
            health.is_ready &= !pair.is_some_and(|pair| pair.is_unfinished(hot));
        }
        health
    }

    /// Whether the pod does its work with its sidecars.
    pub(crate) fn is_available(self) -> bool {
        self.is_done && self.is_ready
    }
}
