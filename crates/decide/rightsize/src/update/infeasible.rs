//! The resizes that nodes cannot do. They are not tried again until something is lower.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::RecommendedPodResources;

use crate::pod::{PodView, ResizeState};

/// A kubelet reports within this time whether it can do a resize.
const ANSWER: SignedDuration = SignedDuration::from_mins(10);

/// What was tried and what nodes cannot do, by the UID of a pod.
#[derive(Debug, Default)]
pub struct Infeasible {
    tried: HashMap<String, (Arc<RecommendedPodResources>, Timestamp)>,
    infeasible: HashMap<String, RecommendedPodResources>,
}

impl Infeasible {
    /// Returns the recommendations that the nodes of these pods cannot do.
    pub fn of(&self, pods: &[PodView]) -> HashMap<String, RecommendedPodResources> {
        let known = |pod: &PodView| Some((pod.uid.clone(), self.infeasible.get(&pod.uid)?.clone()));
        pods.iter().filter_map(known).collect()
    }

    /// Forgets pods that are gone, and resizes that are done.
    pub fn retain(&mut self, pods: &HashMap<&str, &PodView>, now: Timestamp) {
        self.infeasible.retain(|uid, _| pods.contains_key(uid.as_str()));
        self.tried.retain(|uid, (_, at)| {
            pods.get(uid.as_str())
                .is_some_and(|pod| pod.resize != ResizeState::None || now.duration_since(*at) < ANSWER)
        });
    }

    /// Records that a pod was resized to what is recommended.
    pub fn sent(&mut self, pod: &PodView, recommendation: &Arc<RecommendedPodResources>, now: Timestamp) {
        self.tried.insert(pod.uid.clone(), (Arc::clone(recommendation), now));
    }

    /// Records that the node of a pod can never do what is recommended: the API server has refused the resize.
    pub fn refused(&mut self, pod: &PodView, recommendation: &RecommendedPodResources) {
        self.infeasible.insert(pod.uid.clone(), recommendation.clone());
    }

    /// Reads what kubelets report about resizes. The recommendation that was sent is infeasible, which need not be the current one. What an
    /// earlier process sent is not known: then the current recommendation counts as infeasible.
    pub fn look(&mut self, pods: &[PodView], recommendation: &RecommendedPodResources) {
        for pod in pods.iter().filter(|pod| pod.resize == ResizeState::Infeasible) {
            match self.tried.remove(&pod.uid) {
                Some((tried, _)) => drop(self.infeasible.insert(pod.uid.clone(), (*tried).clone())),
                None => drop(self.infeasible.entry(pod.uid.clone()).or_insert_with(|| recommendation.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::*;

    fn recommend(cpu: &str) -> RecommendedPodResources {
        serde_json::from_value(json!({"containerRecommendations": [{"containerName": "a", "target": {"cpu": cpu}}]}))
            .unwrap()
    }

    fn pod(resize: ResizeState) -> PodView {
        let pod = Pod::new(json!({"metadata": {"uid": "1"}, "spec": {"containers": [{"name": "a"}]}})).unwrap();
        PodView { resize, ..PodView::new(&pod) }
    }

    #[test]
    fn what_was_sent_is_infeasible_and_not_what_is_recommended_by_now() {
        let pod = [pod(ResizeState::Infeasible)];
        let mut it = Infeasible::default();
        it.sent(&pod[0], &Arc::new(recommend("8")), Timestamp::UNIX_EPOCH);
        it.look(&pod, &recommend("4"));
        assert_eq!(it.of(&pod)["1"], recommend("8"));
        it.look(&pod, &recommend("4"));
        assert_eq!(it.of(&pod)["1"], recommend("8"), "it says the same in every pass");
        it.sent(&pod[0], &Arc::new(recommend("4")), Timestamp::UNIX_EPOCH);
        it.look(&pod, &recommend("2"));
        assert_eq!(it.of(&pod)["1"], recommend("4"));
        it.retain(&HashMap::new(), Timestamp::UNIX_EPOCH);
        assert!(it.infeasible.is_empty() && it.tried.is_empty());
    }

    #[test]
    fn a_resize_that_is_not_known_counts_as_the_current_recommendation() {
        let pod = [pod(ResizeState::Infeasible)];
        let mut it = Infeasible::default();
        it.look(&pod, &recommend("4"));
        it.look(&pod, &recommend("2"));
        assert_eq!(it.of(&pod)["1"], recommend("4"));
        it.refused(&pod[0], &recommend("3"));
        assert_eq!(it.of(&pod)["1"], recommend("3"));
    }

    #[test]
    fn a_resize_is_forgotten_when_it_is_done() {
        let start = Timestamp::UNIX_EPOCH;
        for (resize, after, is_known) in [
            (ResizeState::None, SignedDuration::from_mins(9), true),
            (ResizeState::None, ANSWER, false),
            (ResizeState::Deferred, SignedDuration::from_hours(9), true),
        ] {
            let pod = pod(resize);
            let mut it = Infeasible::default();
            it.sent(&pod, &Arc::new(recommend("8")), start);
            it.retain(&HashMap::from([("1", &pod)]), start + after);
            assert_eq!(it.tried.contains_key("1"), is_known, "{resize:?} after {after}");
        }
    }
}
