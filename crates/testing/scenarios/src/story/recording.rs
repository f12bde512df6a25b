//! Records what watches report.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use tokio::task::JoinSet;

use super::record::Record;
use super::text;

/// What is watched: group, version, kind.
const WATCHED: [(&str, &str, &str); 8] = [
    ("batch", "v1", "CronJob"),
    ("batch", "v1", "Job"),
    ("apps", "v1", "Deployment"),
    ("apps", "v1", "ReplicaSet"),
    ("apps", "v1", "StatefulSet"),
    ("apps", "v1", "DaemonSet"),
    ("", "v1", "Pod"),
    ("apps", "v1", "ControllerRevision"),
];

/// The kinds that have a part in a story, in the order of these parts.
pub(super) const KINDS: [&str; 7] = ["CronJob", "Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Pod"];

/// All objects of the watched kinds, those of each kind in the order in which they were reported.
pub(super) struct Recording {
    records: Arc<Mutex<Vec<Record>>>,
    /// The watches end with the recording.
    _watches: JoinSet<()>,
}

impl Recording {
    /// Begins to watch. Objects that are created after this returns are recorded from the beginning.
    pub(super) async fn begin(client: &Client, namespace: &str) -> anyhow::Result<Recording> {
        let records = Arc::<Mutex<Vec<Record>>>::default();
        let mut watches = JoinSet::new();
        for (group, version, kind) in WATCHED {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let mut changes = watcher::watcher(objects, watcher::Config::default()).default_backoff().boxed();
            while let Some(change) = changes.try_next().await.with_context(|| format!("cannot watch {kind}"))? {
                if matches!(change, Event::InitDone) {
                    break;
                }
            }
            let seen = Arc::clone(&records);
            watches.spawn(async move {
                while let Some(change) = changes.next().await {
                    // The watcher retries by itself.
                    let Ok(change) = change else { continue };
                    record(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), kind, change);
                }
            });
        }
        Ok(Recording { records, _watches: watches })
    }

    /// Returns all objects that were reported until now.
    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn record(records: &mut Vec<Record>, kind: &'static str, change: Event<DynamicObject>) {
    let is_gone = matches!(change, Event::Delete(_));
    let (Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = change else { return };
    let uid = object.uid();
    let Ok(object) = serde_json::to_value(object) else { return };
    let known = records.iter().position(|record| uid.as_deref() == Some(record.text("/metadata/uid")));
    let index = known.unwrap_or_else(|| {
        records.push(Record { kind, ..Record::default() });
        records.len() - 1
    });
    let Some(record) = records.get_mut(index) else { return };
    (record.object, record.is_gone) = (object, is_gone);
    let phase = record.text("/status/phase").to_owned();
    if !phase.is_empty() && record.phases.last() != Some(&phase) {
        record.phases.push(phase);
    }
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in record.object["status"][list].as_array().into_iter().flatten() {
            let states =
                record.container_states.entry(status["name"].as_str().unwrap_or_default().to_owned()).or_default();
            let state = text::container(status);
            if states.last() != Some(&state) {
                states.push(state);
            }
        }
    }
}
