//! Says why pods that should be updated are not, once for each reason.

use std::collections::{BTreeMap, HashMap};

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::Recorder;
use pillion_rightsize::PodView;
use pillion_rightsize::update::SkipReason;

use crate::references;

/// What was reported last, by the UID of a pod or of an autoscaler.
#[derive(Default)]
pub(super) struct Skips {
    reported: HashMap<String, SkipReason>,
    /// When a reason was seen last, by the UID of the autoscaler.
    held_back: HashMap<String, BTreeMap<&'static str, Timestamp>>,
}

/// A reason that was not seen for so long is said again.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

impl Skips {
    /// Forgets what is gone.
    pub(super) fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.reported.retain(|uid, _| is_known(uid));
        self.held_back.retain(|uid, _| is_known(uid));
    }

    /// Writes an event where the mode resizes in place and the reason lasts; everything else is for the log.
    pub(super) fn report(
        &mut self,
        recorder: &Recorder,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        reason: &SkipReason,
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
        if self.reported.insert(uid, reason.clone()).as_ref() == Some(reason) {
            return;
        }
        let text = format!("not resized in place for VerticalPodAutoscaler {}: {reason}", autoscaler.name());
        recorder.normal(&about, "InPlaceResizeSkipped", text);
    }

    /// Writes one event about the autoscaler for each reason that holds pods back, and no other one while it does.
    pub(super) fn report_held_back(
        &mut self,
        recorder: &Recorder,
        autoscaler: &VerticalPodAutoscaler,
        pods: &[PodView],
        skipped: &[(usize, SkipReason)],
        now: Timestamp,
    ) {
        let mut by_reason: BTreeMap<&'static str, Vec<(&PodView, &SkipReason)>> = BTreeMap::new();
        for (pod, reason) in skipped {
            // What is said about each pod, or has an event of its own, is not said again.
            let is_said = (reason.is_lasting() && autoscaler.update_mode().is_in_place())
                || matches!(reason, SkipReason::Stopped(_));
            if let Some(pod) = pods.get(*pod).filter(|_| reason.holds_back() && !is_said) {
                by_reason.entry(reason.name()).or_default().push((pod, reason));
            }
        }
        let uid = autoscaler.metadata.uid.clone().unwrap_or_default();
        for (name, pods) in by_reason {
            let seen = self.held_back.entry(uid.clone()).or_default().insert(name, now);
            let Some((pod, reason)) = pods.first() else { continue };
            if seen.is_some_and(|seen| now.duration_since(seen) < FORGOTTEN) {
                continue;
            }
            let others = match pods.len() - 1 {
                0 => String::new(),
                others => format!(" and {others} more"),
            };
            let text = format!("pod {}/{}{others}: {reason}", pod.namespace, pod.name);
            recorder.normal(&references::of_autoscaler(autoscaler), "NotUpdatedByVPA", text);
        }
    }
}
