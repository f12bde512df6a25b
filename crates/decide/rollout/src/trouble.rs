//! Why a sidecar of a pod does not run.
//!
//! A kubelet takes an init container that has ended with 0 for one that is done, native sidecars included. Until the next process runs, their status stays
//! `Completed`, even if their image cannot be pulled. The same is true of any container that the restart policy does not start again. What the status
//! leaves out is in the events of the pod.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;

use crate::hot_upgrade::in_service;
use crate::target::Target;
use crate::view::{ContainerView, Ended, InPlaceView, PodView, Trouble};
use crate::waiting::is_done;

/// Why a container does not run.
pub(crate) fn of(container: &ContainerView, pod: &PodView, in_place: Option<&InPlaceView>) -> Option<Trouble> {
    if !pod.is_observed {
        return None;
    }
    let is_done = is_done(container, pod, in_place);
    // A container that crashes with the image before it was updated is no failure of the update.
    let reported = container.trouble.filter(|trouble| *trouble != Trouble::CrashLoopBackOff || is_done);
    reported.or_else(|| (is_done && ends_again_and_again(container, in_place)).then_some(Trouble::CrashLoopBackOff))
}

/// Whether the next start of a native sidecar is put off because it has ended before. The first restart is not put off.
fn ends_again_and_again(container: &ContainerView, in_place: Option<&InPlaceView>) -> bool {
    let before = in_place.and_then(|update| update.before.iter().find(|before| before.container == container.name));
    // How often the container had been restarted when it first ran with its image.
    let first = before.map_or(Some(0), |before| before.restarts.map(|restarts| restarts + 1));
    container.is_native
        && container.ended == Some(Ended::Early)
        && first.is_some_and(|first| container.restarts > first)
}

impl Target {
    /// Whether a sidecar has ended for its update in place, and nothing in the status of the pod says why it has not started again. Events may.
    pub fn is_unexplained(&self, pod: &PodView) -> bool {
        self.unexplained(pod).next().is_some()
    }

    fn unexplained<'p>(&self, pod: &'p PodView) -> impl Iterator<Item = &'p ContainerView> {
        let injected = pod.injected(self.name()).filter(|injected| pod.is_observed && self.is_updated(injected));
        let in_place = injected.and_then(|injected| injected.in_place.as_deref());
        let containers = self.sidecars.iter().flat_map(|sidecar| in_service(sidecar, pod));
        containers.filter(move |container| {
            in_place.is_some()
                && container.ended.is_some()
                && container.trouble.is_none()
                && !is_done(container, pod, in_place)
        })
    }

    /// The view of a pod with what its events say of such sidecars; `None` if they say nothing.
    pub fn explained(&self, pod: &PodView, events: &[Event]) -> Option<PodView> {
        let since = pod.injected(self.name())?.in_place.as_ref()?.updated_at?;
        let explain =
            |container: &ContainerView| Some((container.name.clone(), trouble_in(events, pod, container, since)?));
        let troubles: Vec<_> = self.unexplained(pod).filter_map(explain).collect();
        let mut view = pod.clone();
        for (name, trouble) in &troubles {
            if let Some(container) = view.containers.iter_mut().find(|container| container.name == *name) {
                container.trouble = Some(*trouble);
            }
        }
        (!troubles.is_empty()).then_some(view)
    }
}

/// The trouble that the last telling event about a container reports.
fn trouble_in(events: &[Event], pod: &PodView, container: &ContainerView, since: Timestamp) -> Option<Trouble> {
    let list = if container.is_native { "initContainers" } else { "containers" };
    let field_path = format!("spec.{list}{{{}}}", container.name);
    let is_about = |event: &&Event| {
        let about = &event.involved_object;
        about.uid.as_deref() == Some(&*pod.uid) && about.field_path.as_deref() == Some(&field_path)
    };
    let mut events: Vec<(Timestamp, &Event)> =
        events.iter().filter(is_about).filter_map(|event| Some((last_seen(event)?, event))).collect();
    events.retain(|(at, _)| *at >= since);
    events.sort_by_key(|(at, _)| *at);
    let mut trouble = None;
    for (_, event) in events {
        let (reason, message) =
            (event.reason.as_deref().unwrap_or_default(), event.message.as_deref().unwrap_or_default());
        trouble = match reason {
            "Pulled" | "Created" | "Started" => None,
            _ => trouble_of(reason, message, &container.image).or(trouble),
        };
    }
    trouble
}

fn last_seen(event: &Event) -> Option<Timestamp> {
    let series = event.series.as_ref().and_then(|series| series.last_observed_time.as_ref()).map(|time| time.0);
    let last = event.last_timestamp.as_ref().map(|time| time.0);
    series.or(last).or_else(|| event.event_time.as_ref().map(|time| time.0))
}

/// What an event of a kubelet means for a container that is to run `image`. The first failed pull is often followed by a good one.
fn trouble_of(reason: &str, message: &str, image: &str) -> Option<Trouble> {
    match reason {
        "BackOff" if message.starts_with("Back-off pulling image") && message.contains(image) => {
            Some(Trouble::ImagePullBackOff)
        }
        "BackOff" if message.starts_with("Back-off restarting") => Some(Trouble::CrashLoopBackOff),
        "ErrImageNeverPull" => Some(Trouble::ErrImageNeverPull),
        "InspectFailed" => Some(Trouble::InvalidImageName),
        "Failed" => match message.strip_prefix("Error: ")? {
            "ErrImagePull" | "RegistryUnavailable" | "SignatureValidationFailed" => None,
            error => Trouble::of_reason(error).or(Some(Trouble::CreateContainerError)),
        },
        _ => None,
    }
}
