//! Deployments: made, scaled, paused.

use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{UNTIL_TERM, shell, with};
use crate::{Namespace, wait};

/// What a Deployment's pods do not say for themselves: `Pod` is left out, since it is not said which of equal pods goes.
pub(super) const SETS: [&str; 2] = ["Deployment", "ReplicaSet"];

/// A Deployment called `web`, whose pods have a template of this version.
pub(super) fn web(version: &str, spec: Value) -> Value {
    let labels = json!({"app": "web"});
    json!({"metadata": {"name": "web"}, "spec": with(json!({"selector": {"matchLabels": labels}, "template": template(version)}), spec)})
}

/// A template that differs by its version.
pub(super) fn template(version: &str) -> Value {
    let main = with(shell("main", UNTIL_TERM), json!({"env": [{"name": "VERSION", "value": version}]}));
    json!({"metadata": {"labels": {"app": "web"}}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [main]}})
}

pub(super) async fn change(namespace: &Namespace, spec: Value) -> anyhow::Result<()> {
    let patch = Patch::Merge(json!({"spec": spec}));
    namespace.api::<Deployment>().patch("web", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Waits until all that was asked for is there and nothing else.
pub(super) async fn settles(namespace: &Namespace, replicas: i32) -> anyhow::Result<()> {
    let is_settled = |deployment: &Deployment| {
        let Some(status) = &deployment.status else { return false };
        status.observed_generation == deployment.metadata.generation
            && [status.replicas, status.updated_replicas, status.available_replicas]
                .iter()
                .all(|count| count.unwrap_or(0) == replicas)
            && status.terminating_replicas.unwrap_or(0) == 0
    };
    wait::for_object(namespace.api::<Deployment>(), "web", "settled", is_settled).await.map(drop)
}

/// It makes a ReplicaSet, which makes pods; more and fewer of them as it is scaled.
pub async fn a_deployment_is_scaled_up_and_down(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Deployment>(web("one", json!({"replicas": 2}))).await?;
    settles(namespace, 2).await?;
    let expected = r#"
        Deployment web, revision 1
          availableReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0, updatedReplicas 2
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-1" has successfully progressed.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
        ReplicaSet web-1 of Deployment web, revision 1
          availableReplicas 2, fullyLabeledReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
        Pod web-1-? of ReplicaSet web-1, scheduled
          Pending, Running
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
        Pod web-1-? of ReplicaSet web-1, scheduled
          Pending, Running
          container main running, ready
          PodReadyToStartContainers, Initialized, Ready, ContainersReady, PodScheduled=True
          kubelet Normal Pulled, Created, Started spec.containers{main}
        "#;
    story.matches(expected).await?;
    change(namespace, json!({"replicas": 3})).await?;
    settles(namespace, 3).await?;
    change(namespace, json!({"replicas": 1})).await?;
    settles(namespace, 1).await?;
    let expected = r#"
        Deployment web, revision 1
          availableReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0, updatedReplicas 1
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-1" has successfully progressed.
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 2 to 3
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-1 from 3 to 1
        ReplicaSet web-1 of Deployment web, revision 1
          availableReplicas 1, fullyLabeledReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
        "#;
    story.matches_for(&SETS, expected).await
}

/// While it is paused a new template changes nothing.
pub async fn a_paused_deployment_waits(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Deployment>(web("one", json!({"replicas": 1}))).await?;
    settles(namespace, 1).await?;
    change(namespace, json!({"paused": true, "template": template("two")})).await?;
    let expected = "
        Deployment web, revision 1
          availableReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=Unknown DeploymentPaused: Deployment is paused
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 1
        ReplicaSet web-1 of Deployment web, revision 1
          availableReplicas 1, fullyLabeledReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
        ";
    story.matches_for(&SETS, expected).await?;
    change(namespace, json!({"paused": false})).await?;
    settles(namespace, 1).await?;
    let expected = r#"
        Deployment web, revision 2
          availableReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0, updatedReplicas 1
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-2" has successfully progressed.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 1
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 0 to 1
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-1 from 1 to 0
        ReplicaSet web-1 of Deployment web, revision 1
          replicas 0, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
        ReplicaSet web-2 of Deployment web, revision 2
          availableReplicas 1, fullyLabeledReplicas 1, readyReplicas 1, replicas 1, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
        "#;
    story.matches_for(&SETS, expected).await
}
