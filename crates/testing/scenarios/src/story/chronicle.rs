//! What the watches saw.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use futures::{StreamExt as _, TryStreamExt as _};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use serde_json::Value;
use tokio::task::JoinSet;

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

/// The kinds that have a part in a story, in the order of their parts.
pub(super) const TOLD: [&str; 7] = ["CronJob", "Job", "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Pod"];

/// An object that was seen.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) kind: &'static str,
    /// As it was seen last.
    pub(super) object: Value,
    /// Its phases, each when it became another.
    pub(super) phases: Vec<String>,
    /// What each container of a pod said of itself, each when it became another.
    pub(super) lives: BTreeMap<String, Vec<String>>,
    pub(super) is_gone: bool,
}

impl Subject {
    /// A field of it as text, by its JSON pointer.
    pub(super) fn text(&self, pointer: &str) -> &str {
        self.object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// Every object of the kinds, in the order in which each kind's were seen.
pub(super) struct Chronicle {
    subjects: Arc<Mutex<Vec<Subject>>>,
    /// Ends when nobody is interested.
    _watches: JoinSet<()>,
}

impl Chronicle {
    /// Begins to watch; whatever is created after this returns is seen from its beginning.
    pub(super) async fn begin(client: &Client, namespace: &str) -> anyhow::Result<Chronicle> {
        let subjects = Arc::<Mutex<Vec<Subject>>>::default();
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
            let seen = Arc::clone(&subjects);
            watches.spawn(async move {
                while let Some(change) = changes.next().await {
                    // A watch that failed begins again by itself.
                    let Ok(change) = change else { continue };
                    see(&mut seen.lock().unwrap_or_else(PoisonError::into_inner), kind, change);
                }
            });
        }
        Ok(Chronicle { subjects, _watches: watches })
    }

    /// All that was seen until now.
    pub(super) fn subjects(&self) -> Vec<Subject> {
        self.subjects.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn see(subjects: &mut Vec<Subject>, kind: &'static str, change: Event<DynamicObject>) {
    let is_gone = matches!(change, Event::Delete(_));
    let (Event::Apply(object) | Event::InitApply(object) | Event::Delete(object)) = change else { return };
    let uid = object.uid();
    let Ok(object) = serde_json::to_value(object) else { return };
    let known = subjects.iter().position(|subject| uid.as_deref() == Some(subject.text("/metadata/uid")));
    let index = known.unwrap_or_else(|| {
        subjects.push(Subject {
            kind,
            object: Value::Null,
            phases: Vec::new(),
            lives: BTreeMap::new(),
            is_gone: false,
        });
        subjects.len() - 1
    });
    let Some(subject) = subjects.get_mut(index) else { return };
    (subject.object, subject.is_gone) = (object, is_gone);
    let phase = subject.text("/status/phase").to_owned();
    if !phase.is_empty() && subject.phases.last() != Some(&phase) {
        subject.phases.push(phase);
    }
    for list in ["initContainerStatuses", "containerStatuses"] {
        for status in subject.object["status"][list].as_array().into_iter().flatten() {
            let life = subject.lives.entry(status["name"].as_str().unwrap_or_default().to_owned()).or_default();
            let said = text::container(status);
            if life.last() != Some(&said) {
                life.push(said);
            }
        }
    }
}
