//! How one pod stands: whether it has the latest revision, and what it waits for.

use std::fmt;

use jiff::Timestamp;

use crate::health::Health;
use crate::hot_upgrade;
use crate::target::Target;
use crate::trouble;
use crate::view::{InjectedSet, PodView, Trouble};
use crate::waiting::is_done;

/// How a pod of a set stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing<'p> {
    /// The ControllerRevision that the pod records; empty if it records none.
    pub revision: &'p str,
    /// Whether, and how, the pod gets the latest revision.
    pub update_path: UpdatePath,
    /// How it is.
    pub state: PodState,
    /// Since when: the update in place that it waits for, or the last change of its condition Ready.
    pub since: Option<Timestamp>,
}

/// How a pod gets the latest revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UpdatePath {
    /// It has it.
    Updated,
    /// By an update in place.
    InPlace,
    /// Only by being recreated: the revision changes more than images.
    Recreate,
    /// Not now: `updateStrategy.selector` leaves it out.
    NotSelected,
}

/// How a pod of a set is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodState {
    /// It does its work with its sidecars.
    Ready,
    /// The kubelet has not started a container with the image that it got.
    Starting { container: String },
    /// A sidecar does not run.
    Failing {
        container: String,
        /// Why.
        trouble: Trouble,
    },
    /// A record on the pod cannot be read, so it is left alone.
    Unreadable { annotation: &'static str },
    /// The old container of a hot upgrade still has to get the empty image.
    HandingOver,
    /// It is not ready for another reason.
    NotReady,
}

/// In words of `kubectl get pods` where there are such.
impl fmt::Display for PodState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PodState::Ready => f.write_str("ready"),
            PodState::Starting { container } => write!(f, "{container}: starting"),
            PodState::Failing { container, trouble } => write!(f, "{container}: {trouble}"),
            PodState::Unreadable { annotation } => write!(f, "annotation {annotation} cannot be read"),
            PodState::HandingOver => f.write_str("handing over"),
            PodState::NotReady => f.write_str("not ready"),
        }
    }
}

impl Target {
    /// How a pod stands; `None` if the set does not match it any more.
    pub fn standing<'p>(&self, pod: &'p PodView) -> Option<Standing<'p>> {
        let injected = pod.injected(self.name()).filter(|_| pod.is_active() && self.selects(pod))?;
        let unreadable = self.unreadable_in(pod);
        let update_path = if self.is_updated(injected) {
            UpdatePath::Updated
        } else if !self.selects_for_update(pod) {
            UpdatePath::NotSelected
        } else if unreadable.is_some() || self.is_upgradable(pod, injected) {
            UpdatePath::InPlace
        } else {
            UpdatePath::Recreate
        };
        let state = match unreadable {
            Some(annotation) if self.is_held_back(pod, injected) => PodState::Unreadable { annotation },
            _ => self.state(pod, injected),
        };
        let updated_at = injected.in_place.as_ref().filter(|update| update.revision == injected.hash);
        let updated_at = updated_at.and_then(|update| update.updated_at).filter(|_| state != PodState::Ready);
        let since = updated_at.or(pod.ready_since);
        Some(Standing { revision: injected.revision.as_deref().unwrap_or_default(), update_path, state, since })
    }

    /// Whether a record that cannot be read keeps the pod from the latest revision, or from counting as ready with it.
    pub(crate) fn is_held_back(&self, pod: &PodView, injected: &InjectedSet) -> bool {
        let is_wanted = !self.is_updated(injected) && self.selects_for_update(pod);
        self.unreadable_in(pod).is_some() && (is_wanted || !Health::of(self, pod, injected).is_available())
    }

    fn state(&self, pod: &PodView, injected: &InjectedSet) -> PodState {
        let health = Health::of(self, pod, injected);
        if health.is_available() {
            return PodState::Ready;
        }
        let in_service = || self.sidecars.iter().flat_map(|sidecar| hot_upgrade::in_service(sidecar, pod));
        let in_place = injected.in_place.as_deref();
        let failing = in_service().find_map(|container| Some((container, trouble::of(container, pod, in_place)?)));
        if let Some((container, trouble)) = failing {
            return PodState::Failing { container: container.name.to_string(), trouble };
        }
        let starting = in_service().find(|container| !is_done(container, pod, in_place));
        if let Some(container) = starting {
            return PodState::Starting { container: container.name.to_string() };
        }
        // The pod is ready, and a pair is not.
        if pod.is_running_and_ready() && !health.is_ready { PodState::HandingOver } else { PodState::NotReady }
    }
}
