//! A pod on every node.

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{UNTIL_TERM, shell, with};
use crate::{Namespace, wait};

fn agent(version: &str) -> Value {
    let main = with(shell("main", UNTIL_TERM), json!({"env": [{"name": "VERSION", "value": version}]}));
    let pod = json!({"terminationGracePeriodSeconds": 5, "containers": [main]});
    let labels = json!({"app": "daemon"});
    json!({"metadata": {"name": "daemon"}, "spec": {
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}
    }})
}

async fn settles(namespace: &Namespace) -> anyhow::Result<()> {
    let is_settled = |set: &DaemonSet| {
        let Some(status) = &set.status else { return false };
        status.observed_generation == set.metadata.generation
            && status.updated_number_scheduled == Some(1)
            && status.number_available == Some(1)
    };
    wait::for_object(namespace.api::<DaemonSet>(), "daemon", "settled", is_settled).await.map(drop)
}

/// One node, one pod; a new template takes the old pod's place.
pub async fn a_daemon_set_has_one_pod_on_the_node(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<DaemonSet>(agent("one")).await?;
    settles(namespace).await?;
    let expected = "
        DaemonSet daemon
          currentNumberScheduled 1, desiredNumberScheduled 1, numberAvailable 1, numberMisscheduled 0, numberReady 1, updatedNumberScheduled 1
          daemonset-controller Normal SuccessfulCreate: Created pod: daemon-1
        Pod daemon-1 of DaemonSet daemon, scheduled
          Pending, Running
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
        ";
    story.matches(expected).await?;
    let update = Patch::Merge(json!({"spec": {"template": agent("two")["spec"]["template"]}}));
    namespace.api::<DaemonSet>().patch("daemon", &PatchParams::default(), &update).await?;
    settles(namespace).await?;
    let expected = "
        DaemonSet daemon
          currentNumberScheduled 1, desiredNumberScheduled 1, numberAvailable 1, numberMisscheduled 0, numberReady 1, updatedNumberScheduled 1
          daemonset-controller Normal SuccessfulCreate: Created pod: daemon-1
          daemonset-controller Normal SuccessfulDelete: Deleted pod: daemon-1
          daemonset-controller Normal SuccessfulCreate: Created pod: daemon-2
        ";
    story.matches_for(&["DaemonSet"], expected).await
}
