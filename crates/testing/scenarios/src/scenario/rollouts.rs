//! Deployments that get a new template.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::ListParams;
use serde_json::{Value, json};

use super::deployments::{SETS, change, settles, template, web};
use crate::{Namespace, wait};

/// A strategy that adds one pod, waits for it, takes one away, and so on: in one order only.
fn one_by_one() -> Value {
    json!({"replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})
}

/// A template whose pods never become ready.
fn bad_template() -> Value {
    let mut bad = template("bad");
    bad["spec"]["containers"][0]["readinessProbe"] =
        json!({"exec": {"command": ["/bin/sh", "-c", "exit 1"]}, "periodSeconds": 1});
    bad
}

/// Step by step, and what is left is the history.
pub async fn a_new_template_is_rolled_out_step_by_step(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<Deployment>(web("one", one_by_one())).await?;
    settles(namespace, 2).await?;
    change(namespace, json!({"template": template("two")})).await?;
    settles(namespace, 2).await?;
    let expected = r#"
        Deployment web, revision 2
          availableReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0, updatedReplicas 2
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-2" has successfully progressed.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 0 to 1
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-1 from 2 to 1
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 1 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-1 from 1 to 0
        ReplicaSet web-1 of Deployment web, revision 1
          replicas 0, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
        ReplicaSet web-2 of Deployment web, revision 2
          availableReplicas 2, fullyLabeledReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
        "#;
    story.matches_for(&SETS, expected).await
}

/// Under `Recreate` all old pods are gone before the first new one comes.
pub async fn recreate_ends_the_old_pods_first(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let spec = json!({"replicas": 2, "strategy": {"type": "Recreate"}});
    namespace.create::<Deployment>(web("one", spec)).await?;
    settles(namespace, 2).await?;
    change(namespace, json!({"template": template("two")})).await?;
    settles(namespace, 2).await?;
    let expected = r#"
        Deployment web, revision 2
          availableReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0, updatedReplicas 2
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-2" has successfully progressed.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-1 from 2 to 0
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 0 to 2
        ReplicaSet web-1 of Deployment web, revision 1
          replicas 0, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-1-?
        ReplicaSet web-2 of Deployment web, revision 2
          availableReplicas 2, fullyLabeledReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
        "#;
    story.matches_for(&SETS, expected).await
}

/// A rollout whose pods do not become ready stops, is reported to be stuck, and can be undone.
pub async fn a_bad_rollout_stops_and_is_undone(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    let mut spec = one_by_one();
    spec["progressDeadlineSeconds"] = json!(8);
    namespace.create::<Deployment>(web("one", spec)).await?;
    settles(namespace, 2).await?;
    change(namespace, json!({"template": bad_template()})).await?;
    let is_stuck = |deployment: &Deployment| {
        let conditions = deployment.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.reason.as_deref() == Some("ProgressDeadlineExceeded"))
    };
    wait::for_object(namespace.api::<Deployment>(), "web", "stuck", is_stuck).await?;
    let expected = r#"
        Deployment web, revision 2
          availableReplicas 2, readyReplicas 2, replicas 3, terminatingReplicas 0, unavailableReplicas 1, updatedReplicas 1
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=False ProgressDeadlineExceeded: ReplicaSet "web-2" has timed out progressing.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 0 to 1
        ReplicaSet web-1 of Deployment web, revision 1
          availableReplicas 2, fullyLabeledReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
        ReplicaSet web-2 of Deployment web, revision 2
          fullyLabeledReplicas 1, replicas 1, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
        "#;
    story.matches_for(&SETS, expected).await?;
    undo(namespace).await?;
    settles(namespace, 2).await?;
    let expected = r#"
        Deployment web, revision 3
          availableReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0, updatedReplicas 2
          Available=True MinimumReplicasAvailable: Deployment has minimum availability.
          Progressing=True NewReplicaSetAvailable: ReplicaSet "web-1" has successfully progressed.
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-1 from 0 to 2
          deployment-controller Normal ScalingReplicaSet: Scaled up replica set web-2 from 0 to 1
          deployment-controller Normal ScalingReplicaSet: Scaled down replica set web-2 from 1 to 0
        ReplicaSet web-1 of Deployment web, revision 3
          availableReplicas 2, fullyLabeledReplicas 2, readyReplicas 2, replicas 2, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
          replicaset-controller Normal SuccessfulCreate: Created pod: web-1-?
        ReplicaSet web-2 of Deployment web, revision 2
          replicas 0, terminatingReplicas 0
          replicaset-controller Normal SuccessfulCreate: Created pod: web-2-?
          replicaset-controller Normal SuccessfulDelete: Deleted pod: web-2-?
        "#;
    story.matches_for(&SETS, expected).await
}

/// As kubectl undoes: the template of the revision before, without the label that is the ReplicaSet's own.
async fn undo(namespace: &Namespace) -> anyhow::Result<()> {
    let sets = namespace.api::<ReplicaSet>().list(&ListParams::default()).await?;
    let is_first = |set: &&ReplicaSet| {
        set.metadata
            .annotations
            .as_ref()
            .is_some_and(|notes| notes.get("deployment.kubernetes.io/revision").is_some_and(|revision| revision == "1"))
    };
    let template = sets.iter().find(is_first).and_then(|set| set.spec.as_ref()?.template.clone());
    let mut template = serde_json::to_value(template)?;
    if let Some(labels) = template["metadata"]["labels"].as_object_mut() {
        labels.remove("pod-template-hash");
    }
    // A merge patch keeps what it does not name: the container list is replaced as a whole.
    change(namespace, json!({"template": template})).await
}
