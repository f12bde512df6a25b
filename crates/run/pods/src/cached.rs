//! What is kept of a pod.

use std::sync::Arc;

use pillion_informer::{Change, View, Watched};
use pillion_rollout::PodView;

use crate::agent::AgentPod;
use crate::marked::MarkedPod;
use crate::parts::PodPart;
use crate::sized::SizedPod;
use crate::text::PodText;

/// What the controllers of this process need of a pod.
#[derive(Debug)]
pub struct CachedPod {
    /// What rollouts read.
    pub rollout: Option<Arc<PodView>>,
    /// What is read of a pod whose containers are sized; `None` for a pod without a controller.
    pub sized: Option<Arc<SizedPod>>,
    /// What the manager reads of a pod whose sidecars it ends; `None` for all others.
    pub marked: Option<Arc<MarkedPod>>,
    /// What the manager reads of a pod with an in-pod agent; `None` for all others.
    pub agent: Option<Arc<AgentPod>>,
}

impl CachedPod {
    /// Returns what a change says about sizes: what they were, and what they are.
    pub fn sized_before_and_after(change: &Change<CachedPod>) -> (Option<Arc<SizedPod>>, Option<Arc<SizedPod>>) {
        let of = |pod: &Option<Arc<CachedPod>>| pod.as_ref().and_then(|pod| pod.sized.clone());
        (of(&change.old), of(&change.new))
    }
}

impl View for CachedPod {
    type Object = Watched<PodText>;

    fn of(object: Watched<PodText>) -> Option<CachedPod> {
        CachedPod::with_parts(object, u32::MAX)
    }

    fn with_parts(object: Watched<PodText>, parts: u32) -> Option<CachedPod> {
        let PodText { rollout, text } = object.into_read();
        let text = text.get();
        let sized = PodPart::Sized.is_in(parts).then(|| SizedPod::read(text)).flatten();
        let marked = PodPart::Marked.is_in(parts).then(|| MarkedPod::read(text)).flatten();
        let agent = PodPart::Agent.is_in(parts).then(|| AgentPod::read(text, &rollout)).flatten();
        let rollout = PodPart::Rollout.is_in(parts).then_some(rollout);
        let is_needed = rollout.is_some() || sized.is_some() || marked.is_some() || agent.is_some();
        is_needed.then(|| CachedPod {
            rollout: rollout.map(Arc::new),
            sized: sized.map(Arc::new),
            marked: marked.map(Arc::new),
            agent: agent.map(Arc::new),
        })
    }

    /// The SidecarSets that were injected.
    fn groups(&self) -> Vec<Arc<str>> {
        let injected = self.rollout.iter().flat_map(|pod| pod.injected.iter());
        injected.map(|injected| Arc::clone(&injected.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use pillion_api::pod::Pod;
    use pillion_informer::View as _;
    use pillion_rollout::Texts;
    use serde_json::{Value, json};

    use super::*;

    /// A pod in which everything that a rollout looks at is there, and much more.
    fn rich() -> Value {
        let status = |name: &str| {
            json!({
                "name": name, "image": "proxy:1", "imageID": "proxy@1", "ready": true, "restartCount": 3, "started": true,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "lastState": {},
            })
        };
        let record = r#"{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"h","sidecarSetName":"mesh","sidecarList":["proxy","agent"],"controllerRevision":"mesh-1"}}"#;
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "1", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": "web", "tier": "front"}, "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true}],
                "annotations": {
                    names::INJECT: "false", names::HASH: record, names::HASH_WITHOUT_IMAGE: record, names::INJECTED_LIST: "mesh",
                    names::QUOTA_PLACE: "p", names::WORKING_HOT_UPGRADE_CONTAINER: r#"{"proxy":"proxy-1"}"#,
                    names::IN_PLACE_UPDATE_STATE: r#"{"mesh":{"revision":"h","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":{"proxy":{"imageID":"proxy@0"}}}}"#,
                },
            },
            "spec": {
                "nodeName": "node-1", "volumes": [{"name": "v"}],
                "initContainers": [{"name": "agent", "image": "agent:1", "restartPolicy": "Always", "env": [{"name": "IS_INJECTED", "value": "true"}]}],
                "containers": [
                    {"name": "app", "image": "web:1", "resources": {"limits": {"cpu": "1"}}},
                    {"name": "proxy", "image": "proxy:1", "env": [{"name": "IS_INJECTED", "value": "true"}]},
                ],
            },
            "status": {
                "phase": "Running", "observedGeneration": 1, "initContainerStatuses": [status("agent")],
                "containerStatuses": [status("app"), status("proxy")],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                    {"type": names::UPGRADABLE_CONDITION, "status": "True", "message": r#"{"mesh":true}"#},
                ],
            },
        })
    }

    #[test]
    fn a_rollout_reads_the_same_from_text_as_from_a_whole_pod() {
        let whole = PodView::new(&Pod::new(rich()).unwrap(), &mut Texts::default());
        let seen = CachedPod::of(serde_json::from_str(&rich().to_string()).unwrap()).unwrap();
        assert_eq!(*seen.rollout.unwrap(), whole);
    }
}
