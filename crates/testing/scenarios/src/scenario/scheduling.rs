//! Pods that find no place, and find one later.

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{UNTIL_TERM, app, is_ready, shell, with};
use crate::Namespace;

fn is_unschedulable(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.reason.as_deref() == Some("Unschedulable"))
}

fn wanting(spec: Value) -> Value {
    app(with(json!({"containers": [shell("main", UNTIL_TERM)]}), spec))
}

/// More than any node has.
pub async fn a_pod_that_wants_too_much_waits(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let main = with(shell("main", UNTIL_TERM), json!({"resources": {"requests": {"cpu": "1000", "memory": "1Gi"}}}));
    namespace.create::<Pod>(app(json!({"containers": [main]}))).await?;
    namespace.wait_for_pod("app", "unschedulable", is_unschedulable).await?;
    let expected = "
        Pod app
          Pending
          PodScheduled=False Unschedulable: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
          default-scheduler Warning FailedScheduling: 0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        ";
    story.matches(expected).await
}

/// No node has such a label.
pub async fn a_pod_that_wants_another_node_waits(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Pod>(wanting(json!({"nodeSelector": {"place": "elsewhere"}}))).await?;
    namespace.wait_for_pod("app", "unschedulable", is_unschedulable).await?;
    let expected = "
        Pod app
          Pending
          PodScheduled=False Unschedulable: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
          default-scheduler Warning FailedScheduling: 0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.
        ";
    story.matches(expected).await
}

/// A gate holds a pod back until it is taken away.
pub async fn a_gate_holds_a_pod_back(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Pod>(wanting(json!({"schedulingGates": [{"name": "pillion.dev/wait"}]}))).await?;
    let is_gated = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.reason.as_deref() == Some("SchedulingGated"))
    };
    namespace.wait_for_pod("app", "gated", is_gated).await?;
    let expected = "
        Pod app
          Pending
          PodScheduled=False SchedulingGated: Scheduling is blocked due to non-empty scheduling gates
        ";
    story.matches(expected).await?;
    let open = Patch::Merge(json!({"spec": {"schedulingGates": []}}));
    namespace.api::<Pod>().patch("app", &PatchParams::default(), &open).await?;
    namespace.wait_for_pod("app", "ready", is_ready).await?;
    let expected = "
        Pod app, scheduled
          Pending, Running
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await
}

/// Two pods that want the same port of the node: the second waits for the first to go.
pub async fn a_pod_waits_until_there_is_room(namespace: &Namespace) -> anyhow::Result<()> {
    // Others have their pods on the node as well, so the room is one that nobody else wants.
    let port = json!({"ports": [{"containerPort": 80, "hostPort": 31_999}]});
    let pod = |name: &str| {
        let spec =
            json!({"terminationGracePeriodSeconds": 5, "containers": [with(shell("main", UNTIL_TERM), port.clone())]});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    namespace.create::<Pod>(pod("first")).await?;
    namespace.wait_for_pod("first", "ready", is_ready).await?;
    namespace.create::<Pod>(pod("second")).await?;
    namespace.wait_for_pod("second", "unschedulable", is_unschedulable).await?;
    let nodes = Api::<Node>::all(namespace.client()).list(&ListParams::default()).await?.items.len();
    let why =
        format!("0/{nodes} nodes are available: {nodes} node(s) didn't have free ports for the requested pod ports.");
    namespace.has_event("second", "FailedScheduling", &why).await?;
    namespace.api::<Pod>().delete("first", &DeleteParams::default()).await?;
    namespace.wait_for_pod("second", "ready", is_ready).await.map(drop)
}
