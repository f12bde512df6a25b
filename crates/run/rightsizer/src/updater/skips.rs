//! Says why pods that should be resized in place are not, once for each reason.

use std::collections::HashMap;

use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::Recorder;
use pillion_rightsize::PodView;
use pillion_rightsize::update::SkipReason;

use crate::references;

/// What was reported last, by the UID of a pod or of an autoscaler.
#[derive(Default)]
pub(super) struct Skips {
    reported: HashMap<String, SkipReason>,
}

impl Skips {
    /// Forgets what is gone.
    pub(super) fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.reported.retain(|uid, _| is_known(uid));
    }

    /// Writes an event where the mode resizes in place and the reason lasts; everything else is for the log.
    pub(super) fn report(
        &mut self,
        recorder: &Recorder,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        reason: SkipReason,
    ) {
        tracing::debug!(pod = pod.name, namespace = pod.namespace, %reason, "a pod is left alone");
        if !reason.is_lasting() || !autoscaler.update_mode().is_in_place() {
            return;
        }
        let (about, uid) = if reason.concerns_all_pods() {
            (references::of_autoscaler(autoscaler), autoscaler.metadata.uid.clone().unwrap_or_default())
        } else {
            (references::pod_reference(pod), pod.uid.clone())
        };
        if self.reported.insert(uid, reason) == Some(reason) {
            return;
        }
        let text = format!("not resized in place for VerticalPodAutoscaler {}: {reason}", autoscaler.name());
        recorder.normal(&about, "InPlaceResizeSkipped", text);
    }
}
