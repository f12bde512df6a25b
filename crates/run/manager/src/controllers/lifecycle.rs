//! Ends pods whose work is done and whose sidecars nobody else stops: writes their terminal phase, by which the kubelet stops all that runs.
//!
//! ```text
//!  pods with a record or Kruise's variables ─▶ lifecycle::verdict ─▶ phase and annotation in one patch of pods/status
//!        ▲                                                            │
//!        └── looked at again until the phase holds ◀──────────────────┘
//! ```
//!
//! A kubelet looks at a phase that others write only when something else has changed with it, and otherwise takes it back: hence the annotation.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use pillion_events::{Recorder, reference};
use pillion_gates::Gate;
use pillion_informer::{Backoff, Cache, NamespacedName, Outcome};
use pillion_lifecycle::{Verdict, verdict};
use pillion_pods::{CachedPod, PodPart};
use serde_json::json;

use crate::state::Inner;

/// A phase that was written is looked at again after this time, and not earlier: it may have been taken back.
const AGAIN: Outcome = Outcome::Paused { pause: Duration::from_secs(2), again: Some(Duration::from_secs(2)) };
/// How many pods are ended at the same time.
const AT_ONCE: usize = 16;
/// A pod whose phase could not be written keeps its Job waiting.
const BACKOFF: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(30), is_strict: false };

/// Runs until dropped; without the gate there is nothing to do.
pub(crate) async fn run(inner: &Inner) {
    if !inner.config.gates.is_enabled(Gate::SidecarField) {
        return std::future::pending().await;
    }
    let pods = inner.pods.watched(PodPart::Marked).await;
    let lifecycle = Lifecycle { inner, recorder: inner.config.recorder(), pods: pods.cache() };
    let marked = pods.cache().changes().filter_map(async |change| change.new?.marked.as_ref().map(|_| change.name));
    let reconciler = inner.config.reconciler("lifecycle").on(marked).concurrency(AT_ONCE).backoff(BACKOFF);
    reconciler.run(|pod| lifecycle.reconcile(pod)).await;
}

struct Lifecycle<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    pods: &'a Cache<CachedPod>,
}

impl Lifecycle<'_> {
    /// Ends a pod whose moment has come, until that holds.
    async fn reconcile(&self, NamespacedName { namespace, name }: NamespacedName) -> Outcome {
        let Some(pod) = self.pods.get(&namespace, &name).and_then(|pod| pod.marked.clone()) else {
            return Outcome::Done(None);
        };
        let Verdict::End { phase, reason, message } = verdict(&pod.pod, &pod.record) else {
            return Outcome::Done(None);
        };
        match self.end(&pod.pod, phase, reason, &message).await {
            Ok(()) => {
                self.recorder.normal(&reference(&pod.pod), reason, message);
                AGAIN
            }
            // It is gone, or another pod has its name: the watch says so.
            Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => AGAIN,
            Err(error) => Outcome::failed(&error),
        }
    }

    /// Writes the phase, and an annotation that is another each time.
    async fn end(&self, pod: &Pod, phase: &str, reason: &str, message: &str) -> kube::Result<()> {
        let now = (self.inner.config.now)();
        let client: Client = self.inner.config.client.clone();
        let pods: Api<Pod> = Api::namespaced(client, &pod.namespace().unwrap_or_default());
        let condition = json!({
            "type": names::SIDECAR_TERMINATED, "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
        let patch = json!({
            "metadata": {"uid": pod.metadata.uid, "annotations": {names::WORK_DONE: now.to_string()}},
            "status": {"phase": phase, "conditions": [condition]},
        });
        let parameters = PatchParams { field_manager: Some("pillion-lifecycle".to_owned()), ..PatchParams::default() };
        pods.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(patch)).await.map(drop)
    }
}
