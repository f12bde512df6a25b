//! A pod that is deleted while its sidecars are being terminated.

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, WatchEvent, WatchParams};
use pillion_cluster::image::PILLION;
use serde_json::{Value, json};

use super::super::{A_WHILE, IGNORES_TERM, is_running, phase, pre_stop, shell, with};
use super::cases::ended_at;
use super::{create_with_field, with_marks};
use crate::{Namespace, wait};

/// The pod's grace period, which the sidecar uses up.
const GRACE: SignedDuration = SignedDuration::from_secs(12);
/// How long after the end of the work the pod is deleted. A second grace period would end so much later than the first.
const LATER: SignedDuration = SignedDuration::from_secs(8);

/// The grace period of a sidecar begins with the end of the work, in every mode; a deletion does not begin another one, and takes away at
/// once what has ended for the API server.
pub async fn a_pod_deleted_in_mid_termination_gets_no_second_grace_period(namespace: &Namespace) -> anyhow::Result<()> {
    // On the embedded node, which has no images, the phase is written in place of the wrapper.
    let wrap_image = namespace.is_real().then_some(PILLION);
    with_marks(namespace, wrap_image, async |namespace| {
        let mut names = Vec::new();
        for (name, mode) in [("native", "Native"), ("strict", "Strict"), ("hooked", "Strict")] {
            let marks = json!({"pillion.dev/sidecars": "side", "pillion.dev/sidecar-mode": mode});
            let mut pod = pod(name);
            pod["metadata"]["annotations"] = marks;
            if name == "hooked" {
                // The wrapper cannot run hooks: the phase is written.
                let side = pod["spec"]["containers"][1].take();
                pod["spec"]["containers"][1] = with(side, pre_stop("true"));
            }
            create_with_field::<Pod>(namespace, pod).await?;
            names.push(name);
        }
        if !namespace.is_real() {
            let mut pod = pod("field");
            pod["spec"]["containers"][1]["sidecar"] = json!(true);
            create_with_field::<Pod>(namespace, pod).await?;
            names.push("field");
        }
        futures::future::try_join_all(names.iter().map(|name| ends_once(namespace, name))).await.map(drop)
    })
    .await
}

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": GRACE.as_secs(),
        "containers": [shell("main", A_WHILE), shell("side", IGNORES_TERM)],
    }})
}

async fn ends_once(namespace: &Namespace, name: &str) -> anyhow::Result<()> {
    let pods = namespace.api::<Pod>();
    let is_left_over = |pod: &Pod| ended_at(pod, "main").is_some() && is_running(pod, "side");
    let pod = namespace.wait_for_pod(name, "left with its sidecar", is_left_over).await?;
    let work_ended = ended_at(&pod, "main").context("main has ended")?;
    wait::until("some of the grace period has passed", async || {
        Ok((Timestamp::now().duration_since(work_ended) >= LATER).then_some(()))
    })
    .await?;
    let version = pod.metadata.resource_version.unwrap_or_default();
    let only = WatchParams::default().fields(&format!("metadata.name={name}"));
    let mut events = pods.watch(&only, &version).await?.boxed();
    let deleted = pods.delete(name, &DeleteParams::default()).await?.left().context("it is gone at once")?;
    let grace = deleted.metadata.deletion_grace_period_seconds.unwrap_or_default();
    if matches!(phase(&deleted), "Succeeded" | "Failed") {
        // Where the manager writes the phase, the pod has ended for the API server, which deletes such pods at once.
        ensure!(grace == 0, "{name} has ended, and is deleted with a grace period of {grace} seconds");
        return namespace.is_gone::<Pod>(name).await;
    }
    let until = deleted.metadata.deletion_timestamp.context("it is not deleted")?.0;
    ensure!(grace == GRACE.as_secs(), "{name} is deleted with a grace period of {grace} seconds");
    let last = loop {
        match events.try_next().await?.context("the watch has ended")? {
            WatchEvent::Deleted(pod) => break pod,
            WatchEvent::Error(error) => anyhow::bail!("the watch has failed: {error}"),
            _ => {}
        }
    };
    let side_ended = ended_at(&last, "side").with_context(|| format!("{name} went without its sidecar's end"))?;
    let passed = side_ended.duration_since(work_ended).as_secs();
    // Both are whole seconds.
    ensure!(passed >= GRACE.as_secs() - 1, "the sidecar of {name} was killed after {passed} seconds");
    // The deletion's own grace period ends at its deletionTimestamp.
    ensure!(side_ended < until, "the sidecar of {name} had a second grace period: it ended after {passed} seconds");
    Ok(())
}
