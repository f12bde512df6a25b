//! Pods that come and go one after the other.

use k8s_openapi::api::apps::v1::StatefulSet;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{shell, with};
use crate::{Namespace, wait};

fn db(version: &str) -> Value {
    let ready = json!({"exec": {"command": ["/bin/sh", "-c", "test -e /state/up"]}, "periodSeconds": 1, "failureThreshold": 30});
    let line = "sleep 2; : > /state/up; trap 'exit 0' TERM; sleep 3600 & wait $!";
    let main = with(
        shell("main", line),
        json!({
            "startupProbe": ready, "volumeMounts": [{"name": "state", "mountPath": "/state"}], "env": [{"name": "VERSION", "value": version}]
        }),
    );
    let pod = json!({"terminationGracePeriodSeconds": 5, "containers": [main], "volumes": [{"name": "state", "emptyDir": {}}]});
    let labels = json!({"app": "db"});
    json!({"metadata": {"name": "db"}, "spec": {
        "replicas": 2, "serviceName": "db", "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}
    }})
}

async fn settles(namespace: &Namespace) -> anyhow::Result<()> {
    let is_settled = |set: &StatefulSet| {
        let Some(status) = &set.status else { return false };
        status.observed_generation == set.metadata.generation
            && status.updated_replicas == Some(2)
            && status.available_replicas == Some(2)
            && status.current_revision == status.update_revision
    };
    wait::for_object(namespace.api::<StatefulSet>(), "db", "settled", is_settled).await.map(drop)
}

/// The second begins when the first is ready; an update goes the other way.
pub async fn a_stateful_set_goes_one_by_one(namespace: &Namespace) -> anyhow::Result<()> {
    let story = namespace.story().await?;
    namespace.create::<StatefulSet>(db("one")).await?;
    settles(namespace).await?;
    let update = Patch::Merge(json!({"spec": {"template": db("two")["spec"]["template"]}}));
    namespace.api::<StatefulSet>().patch("db", &PatchParams::default(), &update).await?;
    settles(namespace).await?;
    let expected = "
        StatefulSet db
          availableReplicas 2, collisionCount 0, currentReplicas 2, currentRevision db-2, readyReplicas 2, replicas 2, updateRevision db-2, updatedReplicas 2
          statefulset-controller Normal SuccessfulCreate: Create Pod db-0 in StatefulSet db successful ×2
          statefulset-controller Normal SuccessfulCreate: Create Pod db-1 in StatefulSet db successful ×2
          statefulset-controller Normal SuccessfulDelete: Delete Pod db-1 in StatefulSet db successful
          statefulset-controller Normal SuccessfulDelete: Delete Pod db-0 in StatefulSet db successful
        ";
    story.matches_for(&["StatefulSet"], expected).await
}
