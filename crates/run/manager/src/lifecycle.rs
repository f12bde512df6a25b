//! Ends pods whose work is done and whose sidecars nobody else stops: writes their terminal phase, by which the kubelet stops all that runs.
//!
//! ```text
//!  pods with a record or Kruise's variables ─▶ lifecycle::verdict ─▶ phase and annotation in one patch of pods/status
//!        ▲                                                            │
//!        └── looked at again until the phase holds ◀──────────────────┘
//! ```
//!
//! A kubelet looks at a phase that others write only when something else has changed with it, and otherwise takes it back: hence the annotation.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use pillion_api::record::sidecars::SidecarRecord;
use pillion_events::{Recorder, reference};
use pillion_gates::Gate;
use pillion_informer::{Cache, Change, NamespacedName};
use pillion_lifecycle::marks::record_of_kruise;
use pillion_lifecycle::{Verdict, verdict};
use serde_json::json;
use tokio::time::Instant;

use crate::state::Inner;

/// A phase that was written, or could not be written, is looked at again after this time.
const AGAIN: Duration = Duration::from_secs(2);

/// Runs until dropped; without the gate there is nothing to do.
pub(crate) async fn run(inner: &Inner) {
    if !inner.config.gates.is_enabled(Gate::SidecarField) {
        return std::future::pending().await;
    }
    let cache: Cache<MarkedPod> = Cache::new();
    let pods: Api<DynamicObject> = Api::all_with(inner.config.client.clone(), &ApiResource::erase::<Pod>(&()));
    let watching = cache.clone().run(pods, watcher::Config::default());
    let ending = async {
        cache.synced().await;
        let now = inner.config.now.clone();
        let recorder = Recorder::new(inner.config.client.clone(), move || now(), "pillion");
        Lifecycle { inner, recorder, next: BTreeMap::new() }.run(&cache).await;
    };
    tokio::join!(watching, ending);
}

/// A pod whose sidecars are ended by the manager.
#[derive(Debug)]
struct MarkedPod {
    pod: Pod,
    record: SidecarRecord,
}

impl pillion_informer::View for MarkedPod {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<MarkedPod> {
        let record = record_of(&object)?;
        let mut pod: Pod = object.try_parse().ok()?;
        pod.metadata.managed_fields = None;
        Some(MarkedPod { pod, record })
    }
}

/// What admission recorded; or what Kruise's variables say of a pod that came in while no webhook was there.
fn record_of(object: &DynamicObject) -> Option<SidecarRecord> {
    let Some(text) = object.annotations().get(names::SIDECAR_RECORD) else {
        return record_of_kruise(&object.data);
    };
    match text.parse::<SidecarRecord>() {
        Ok(record) => Some(record),
        Err(error) => {
            let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
            tracing::warn!(namespace, name, %error, "annotation {} is no record of sidecars; the pod is left alone", names::SIDECAR_RECORD);
            None
        }
    }
}

struct Lifecycle<'a> {
    inner: &'a Inner,
    recorder: Recorder,
    /// When a pod is looked at next; those that were ended are looked at until that holds.
    next: BTreeMap<NamespacedName, Instant>,
}

impl Lifecycle<'_> {
    async fn run(mut self, cache: &Cache<MarkedPod>) {
        let (held, changes) = cache.subscribe();
        let mut changes = changes.ready_chunks(1024).boxed();
        for change in held {
            self.changed(&change);
        }
        loop {
            self.look(cache).await;
            let wake = self.next.values().min().copied();
            tokio::select! {
                more = changes.next() => match more {
                    Some(more) => more.iter().for_each(|change| self.changed(change)),
                    None => return,
                },
                () = async { tokio::time::sleep_until(wake.unwrap_or_else(Instant::now)).await }, if wake.is_some() => {}
            }
        }
    }

    fn changed(&mut self, change: &Change<MarkedPod>) {
        let key = change.name.clone();
        match &change.new {
            Some(pod) if verdict(&pod.pod, &pod.record) != Verdict::Wait => {
                self.next.entry(key).or_insert_with(Instant::now);
            }
            // Nothing to do, or it holds.
            _ => drop(self.next.remove(&key)),
        }
    }

    /// Ends the pods whose moment has come.
    async fn look(&mut self, cache: &Cache<MarkedPod>) {
        let now = Instant::now();
        let due: Vec<NamespacedName> =
            self.next.iter().filter(|(_, at)| **at <= now).map(|(key, _)| key.clone()).collect();
        for key in due {
            let Some(pod) = cache.get(&key.namespace, &key.name) else {
                self.next.remove(&key);
                continue;
            };
            let Verdict::End { phase, reason, message } = verdict(&pod.pod, &pod.record) else {
                self.next.remove(&key);
                continue;
            };
            self.next.insert(key.clone(), Instant::now() + AGAIN);
            match self.end(&pod.pod, phase, reason, &message).await {
                Ok(()) => self.recorder.normal(&reference(&pod.pod), reason, message),
                // It is gone, or another pod has its name: the watch says so.
                Err(kube::Error::Api(answer)) if answer.is_not_found() || answer.is_conflict() => {}
                Err(error) => {
                    let NamespacedName { namespace, name } = key;
                    tracing::warn!(%namespace, %name, %error, "the phase of a pod could not be written; trying again");
                }
            }
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
