//! What nodes could not do: a resize that was infeasible is not tried again until something is lower.

use std::collections::HashMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::RecommendedPodResources;
use pillion_rightsize::{PodView, ResizeState};

/// The kubelet says by then whether it can do a resize.
const ANSWER: SignedDuration = SignedDuration::from_mins(10);

/// By the UID of a pod, what was tried and what its node could not do.
#[derive(Default)]
pub(super) struct Infeasible {
    tried: HashMap<String, (Arc<RecommendedPodResources>, Timestamp)>,
    infeasible: HashMap<String, RecommendedPodResources>,
}

impl Infeasible {
    /// The recommendations that the nodes of these pods could not do.
    pub(super) fn of(&self, pods: &[PodView]) -> HashMap<String, RecommendedPodResources> {
        let known = |pod: &PodView| Some((pod.uid.clone(), self.infeasible.get(&pod.uid)?.clone()));
        pods.iter().filter_map(known).collect()
    }

    /// Forgets pods that are gone, and resizes that were done.
    pub(super) fn retain(&mut self, pods: &HashMap<&str, &PodView>, now: Timestamp) {
        self.infeasible.retain(|uid, _| pods.contains_key(uid.as_str()));
        self.tried.retain(|uid, (_, at)| {
            pods.get(uid.as_str())
                .is_some_and(|pod| pod.resize != ResizeState::None || now.duration_since(*at) < ANSWER)
        });
    }

    /// A pod was sent what is recommended.
    pub(super) fn sent(&mut self, pod: &PodView, recommendation: &Arc<RecommendedPodResources>, now: Timestamp) {
        self.tried.insert(pod.uid.clone(), (Arc::clone(recommendation), now));
    }

    /// The API server says that the node can never do what is recommended.
    pub(super) fn refused(&mut self, pod: &PodView, recommendation: &RecommendedPodResources) {
        self.infeasible.insert(pod.uid.clone(), recommendation.clone());
    }

    /// Looks at what kubelets say of resizes: what was sent is infeasible, not what is recommended by now. Of a resize from before this
    /// start it is not known what was sent.
    pub(super) fn look(&mut self, pods: &[PodView], recommendation: &RecommendedPodResources) {
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

    #[test]
    fn what_was_sent_is_infeasible_and_not_what_is_recommended_by_now() {
        let pod = Pod::new(json!({"metadata": {"uid": "1"}, "spec": {"containers": [{"name": "a"}]}})).unwrap();
        let mut pod = PodView::new(&pod);
        let mut it = Infeasible::default();
        it.sent(&pod, &Arc::new(recommend("8")), Timestamp::UNIX_EPOCH);
        pod.resize = ResizeState::Infeasible;
        it.look(std::slice::from_ref(&pod), &recommend("4"));
        assert_eq!(it.infeasible["1"], recommend("8"));
        it.look(std::slice::from_ref(&pod), &recommend("4"));
        assert_eq!(it.infeasible["1"], recommend("8"), "it says the same in every pass");
        it.sent(&pod, &Arc::new(recommend("4")), Timestamp::UNIX_EPOCH);
        it.look(std::slice::from_ref(&pod), &recommend("2"));
        assert_eq!(it.of(std::slice::from_ref(&pod))["1"], recommend("4"));
        it.retain(&HashMap::new(), Timestamp::UNIX_EPOCH);
        assert!(it.infeasible.is_empty() && it.tried.is_empty());
    }
}
