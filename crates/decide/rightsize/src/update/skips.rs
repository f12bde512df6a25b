//! Which events say why pods are not updated: one for each reason, and no other one while it lasts.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::VerticalPodAutoscaler;

use super::reason::SkipReason;
use crate::pod::PodView;

/// A reason that was not seen for this long is reported again.
const FORGOTTEN: SignedDuration = SignedDuration::from_hours(1);

/// The reasons that were reported, by the UID of a pod or of an autoscaler.
#[derive(Debug, Default)]
pub struct Skips {
    reported: HashMap<String, SkipReason>,
    /// When a reason was seen last, by the UID of the autoscaler.
    held_back: HashMap<String, HashMap<Discriminant<SkipReason>, Timestamp>>,
}

/// An event to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkipEvent {
    /// The place of the pod that it is about; `None` for the autoscaler.
    pub pod: Option<usize>,
    pub reason: &'static str,
    /// What it says.
    pub text: String,
}

impl Skips {
    /// Forgets pods and autoscalers that are gone.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.reported.retain(|uid, _| is_known(uid));
        self.held_back.retain(|uid, _| is_known(uid));
    }

    /// Returns the events to write after a pass that left these pods alone.
    pub fn report(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pods: &[PodView],
        skipped: &[(usize, SkipReason)],
        now: Timestamp,
    ) -> Vec<SkipEvent> {
        let lasting = skipped.iter().filter_map(|(pod, reason)| self.lasting(autoscaler, pods, *pod, reason));
        let mut events: Vec<SkipEvent> = lasting.collect();
        events.extend(self.held_back(autoscaler, pods, skipped, now));
        events
    }

    /// Reports a reason that lasts, where the mode resizes in place.
    fn lasting(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pods: &[PodView],
        pod: usize,
        reason: &SkipReason,
    ) -> Option<SkipEvent> {
        let view = pods.get(pod).filter(|_| is_lasting(autoscaler, reason))?;
        let about = (!reason.concerns_all_pods()).then_some(pod);
        let uid = about.map_or_else(|| uid_of(autoscaler), |_| view.uid.clone());
        if self.reported.insert(uid, reason.clone()).as_ref() == Some(reason) {
            return None;
        }
        let text = format!("not resized in place for VerticalPodAutoscaler {}: {reason}", autoscaler.name());
        Some(SkipEvent { pod: about, reason: "InPlaceResizeSkipped", text })
    }

    /// Reports each reason that holds pods back, with one event about the autoscaler.
    fn held_back(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pods: &[PodView],
        skipped: &[(usize, SkipReason)],
        now: Timestamp,
    ) -> Vec<SkipEvent> {
        // For each reason the first pod, and how many more there are.
        let mut by_reason: Vec<(&PodView, &SkipReason, usize)> = Vec::new();
        for (pod, reason) in skipped {
            // A condition and an event of their own report that evictions are stopped.
            let is_reported = is_lasting(autoscaler, reason) || matches!(reason, SkipReason::Stopped(_));
            let Some(pod) = pods.get(*pod).filter(|_| reason.holds_back() && !is_reported) else { continue };
            match by_reason.iter_mut().find(|(_, known, _)| discriminant(*known) == discriminant(reason)) {
                Some((_, _, others)) => *others += 1,
                None => by_reason.push((pod, reason, 0)),
            }
        }
        let uid = uid_of(autoscaler);
        let mut events = Vec::new();
        for (pod, reason, others) in by_reason {
            let seen = self.held_back.entry(uid.clone()).or_default().insert(discriminant(reason), now);
            if seen.is_some_and(|seen| now.duration_since(seen) < FORGOTTEN) {
                continue;
            }
            let others = if others == 0 { String::new() } else { format!(" and {others} more") };
            let text = format!("pod {}/{}{others}: {reason}", pod.namespace, pod.name);
            events.push(SkipEvent { pod: None, reason: "NotUpdatedByVPA", text });
        }
        events
    }
}

/// Whether a reason is reported about each pod: it lasts, and the mode resizes in place.
fn is_lasting(autoscaler: &VerticalPodAutoscaler, reason: &SkipReason) -> bool {
    reason.is_lasting() && autoscaler.update_mode().is_in_place()
}

fn uid_of(autoscaler: &VerticalPodAutoscaler) -> String {
    autoscaler.metadata.uid.clone().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::super::stop::StopCause;
    use super::*;

    fn autoscaler(mode: &str) -> VerticalPodAutoscaler {
        pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "shop", "uid": "vpa"},
            "spec": {"updatePolicy": {"updateMode": mode}}
        }))
        .unwrap()
    }

    fn pods() -> Vec<PodView> {
        let pod = |name: &str| {
            let metadata = json!({"name": name, "namespace": "shop", "uid": name});
            PodView::new(&Pod::new(json!({"metadata": metadata, "spec": {"containers": [{"name": "a"}]}})).unwrap())
        };
        vec![pod("a"), pod("b")]
    }

    fn report(skips: &mut Skips, mode: &str, skipped: &[(usize, SkipReason)], minute: i64) -> Vec<String> {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute);
        let events = skips.report(&autoscaler(mode), &pods(), skipped, now);
        let about = |pod: Option<usize>| pod.map_or_else(|| "web".to_owned(), |pod| pods()[pod].name.clone());
        events.iter().map(|it| format!("{} {} {}", about(it.pod), it.reason, it.text)).collect()
    }

    #[test]
    fn a_lasting_reason_is_reported_once_about_its_pod() {
        let mut skips = Skips::default();
        let skipped = [(0, SkipReason::QosClass), (1, SkipReason::PodResources), (9, SkipReason::QosClass)];
        let events = report(&mut skips, "InPlace", &skipped, 0);
        assert_eq!(events.len(), 2);
        assert_eq!(
            events[0],
            "a InPlaceResizeSkipped not resized in place for VerticalPodAutoscaler web: the resize would change its QoS class"
        );
        assert!(report(&mut skips, "InPlace", &skipped, 500).is_empty());
        assert_eq!(report(&mut skips, "InPlace", &[(0, SkipReason::PodResources)], 501).len(), 1, "another reason");
        skips.retain(|uid| uid != "a");
        assert_eq!(report(&mut skips, "InPlace", &[(0, SkipReason::PodResources)], 502).len(), 1, "another pod");
    }

    #[test]
    fn what_concerns_all_pods_is_reported_once_about_the_autoscaler() {
        let mut skips = Skips::default();
        let events = report(&mut skips, "InPlace", &[(0, SkipReason::GateOff), (1, SkipReason::GateOff)], 0);
        assert_eq!(
            events,
            [
                "web InPlaceResizeSkipped not resized in place for VerticalPodAutoscaler web: the feature gate InPlace is off"
            ]
        );
    }

    #[test]
    fn a_reason_that_holds_pods_back_is_reported_again_only_after_it_was_away_for_an_hour() {
        let mut skips = Skips::default();
        let skipped = [(0, SkipReason::NoController), (1, SkipReason::NoController)];
        assert_eq!(
            report(&mut skips, "Recreate", &skipped, 0),
            ["web NotUpdatedByVPA pod shop/a and 1 more: it has no controller that would replace it"]
        );
        assert!(report(&mut skips, "Recreate", &skipped, 59).is_empty());
        assert!(report(&mut skips, "Recreate", &skipped, 118).is_empty());
        assert_eq!(report(&mut skips, "Recreate", &skipped, 178).len(), 1);
    }

    #[test]
    fn what_holds_nothing_back_or_is_reported_elsewhere_has_no_event() {
        let skipped = [(0, SkipReason::SmallChange), (1, SkipReason::Stopped(StopCause::NotReady))];
        assert!(report(&mut Skips::default(), "Recreate", &skipped, 0).is_empty());
        let lasting = [(0, SkipReason::PodResources)];
        assert_eq!(report(&mut Skips::default(), "Recreate", &lasting, 0).len(), 1, "held back, in a mode that evicts");
        assert_eq!(report(&mut Skips::default(), "InPlaceOrRecreate", &lasting, 0).len(), 1, "one event, not two");
    }
}
