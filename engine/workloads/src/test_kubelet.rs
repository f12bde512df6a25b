//! A kubelet for tests: every pod runs and is ready a second after it was created, and is gone a second after its deletion.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use pillion_clock::Clock;
use serde_json::json;

use crate::pod::PodView;

/// How long everything takes.
const PACE: Duration = Duration::from_secs(1);

/// Runs the pods whose labels are not `broken`.
pub(crate) fn start(client: Client, clock: Clock) {
    tokio::spawn(async move {
        let pods: Api<PodView> = Api::all(client.clone());
        let mut touched = watcher(pods, watcher::Config::default()).touched_objects().boxed();
        while let Some(Ok(pod)) = touched.next().await {
            let new = pod.phase() == "Pending" && !pod.labels().contains_key("broken");
            if pod.metadata.deletion_timestamp.is_some() || new {
                tokio::spawn(act(client.clone(), clock, pod));
            }
        }
    });
}

async fn act(client: Client, clock: Clock, pod: PodView) {
    tokio::time::sleep(PACE).await;
    let pods: Api<PodView> = Api::namespaced(client, &pod.namespace().unwrap());
    let name = pod.name_any();
    // It may be gone meanwhile; that is the controllers' right.
    if pod.metadata.deletion_timestamp.is_some() {
        let only_this = Preconditions { uid: pod.uid(), resource_version: None };
        let _ = pods.delete(&name, &DeleteParams::default().grace_period(0).preconditions(only_this)).await;
    } else {
        let now = clock.now().strftime("%FT%TZ").to_string();
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": now});
        let status = Patch::Merge(json!({"status": {"phase": "Running", "conditions": [ready]}}));
        let _ = pods.patch_status(&name, &PatchParams::default(), &status).await;
    }
}

/// How many pods there are of each value of a label.
pub(crate) async fn count_by_label(client: &Client, label: &str) -> BTreeMap<String, usize> {
    let pods: Api<PodView> = Api::all(client.clone());
    let mut counts = BTreeMap::new();
    for pod in pods.list(&kube::api::ListParams::default()).await.unwrap() {
        *counts.entry(pod.labels().get(label).cloned().unwrap_or_default()).or_default() += 1;
    }
    counts
}
