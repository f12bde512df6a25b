//! Follows a rollout until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::api::{Api, DynamicObject};
use kube::core::ApiResource;
use kube::runtime::watcher::Event;
use kube::runtime::{WatchStreamExt as _, watcher};
use pillion_api::sidecarset::SidecarSet;
use pillion_rollout::{PodView, Target, Texts};
use serde_json::Value;
use tokio::time::MissedTickBehavior;

use super::fleet::{Scope, explain, pod_resource, pod_selector, revisions, view};
use super::found::{Found, decode};
use super::status::Status;
use crate::cluster::read::{Reader, qualified};
use crate::{Failure, chain};

/// The least time between two statuses that are computed and shown.
const BEAT: Duration = Duration::from_millis(200);
/// How often events are read to find out why a sidecar does not start. The status of its pod does not change when they come.
const ASK: Duration = Duration::from_secs(3);

/// How a rollout ended.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) status: Status,
    /// Why it did not end well.
    pub(crate) failure: Option<String>,
}

/// Shows the status whenever it may look different, until the rollout has ended or `timeout` has passed.
pub(crate) async fn follow(
    reader: &Reader,
    found: &Found,
    revisions_namespace: &str,
    timeout: Option<Duration>,
    mut show: impl FnMut(&Status) -> io::Result<()>,
) -> Result<End, Failure> {
    let mut live = Live::new(reader, found).await?;
    let mut history = revisions(reader, &found.set, revisions_namespace).await?;
    let sets = watcher::Config::default().fields(&format!("metadata.name={}", found.set.name()));
    let pods =
        watcher::Config { label_selector: pod_selector(&found.set).label_selector, ..watcher::Config::default() };
    let watched = [(Kind::Set, found.resource.clone(), sets), (Kind::Pod, pod_resource(), pods)];
    let streams = watched.map(|(kind, resource, config)| {
        let api: Api<DynamicObject> = Api::all_with(reader.client(), &resource);
        watcher(api, config)
            .default_backoff()
            .map_ok(move |event| (kind, event))
            .map_err(move |error| (kind, error))
            .boxed()
    });
    let mut events = stream::select_all(streams);
    let mut beat = tokio::time::interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut ask = tokio::time::interval(ASK);
    ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut status = None;
    let deadline = async {
        match timeout {
            Some(timeout) => tokio::time::sleep(timeout).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(deadline);
    loop {
        tokio::select! {
            event = events.next() => match event {
                Some(Ok((kind, event))) => live.apply(kind, event)?,
                Some(Err((kind, error))) => live.fail(kind, &error)?,
                None => return Err(Failure::no("the watches have ended by themselves")),
            },
            _ = beat.tick() => {
                if let Some(set) = live.changed() {
                    let is_known = |name: &str| history.iter().any(|it| it["metadata"]["name"] == name);
                    let latest = set.status.as_ref().and_then(|status| status.latest_revision.as_deref());
                    if latest.is_some_and(|latest| !is_known(latest)) {
                        history = revisions(reader, &set, revisions_namespace).await?;
                    }
                    status = Some(Status::of(&Target::new(set), &history, live.pods.values()));
                }
                let Some(shown) = &status else { continue };
                show(shown)?;
                if shown.outcome.end().is_some() {
                    break;
                }
            }
            _ = ask.tick() => {
                if let Some(set) = live.set.clone() {
                    live.is_changed |= explain(reader, &Target::new(set), live.pods.values_mut()).await;
                }
            }
            () = &mut deadline => {
                let waited = timeout.unwrap_or_default().as_secs();
                let Some(status) = status else {
                    return Err(Failure::no(format!("nothing could be read within {waited}s")));
                };
                let failure = format!("the rollout has not ended within {waited}s: {}", status.message);
                return Ok(End { status, failure: Some(failure) });
            }
        }
    }
    let status = status.ok_or_else(|| Failure::no("nothing could be read"))?;
    let failure = (status.outcome.end() == Some(false)).then(|| stopped(&status));
    Ok(End { status, failure })
}

/// What to do about a rollout that has stopped.
fn stopped(status: &Status) -> String {
    let name = &status.sidecar_set;
    if status.has_paused_itself {
        return format!(
            "the rollout has stopped: `pillion rollout undo {name}` goes back, `pillion rollout resume {name}` goes on"
        );
    }
    format!("the rollout has stopped: {}", status.message)
}

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Set,
    Pod,
}

/// The set and its pods as the watches have them.
struct Live {
    name: String,
    resource: ApiResource,
    scope: Scope,
    set: Option<Arc<SidecarSet>>,
    pods: BTreeMap<(String, String), PodView>,
    texts: Texts,
    /// What a list that is under way has given.
    listed: BTreeSet<(String, String)>,
    has_pods: bool,
    is_changed: bool,
}

impl Live {
    async fn new(reader: &Reader, found: &Found) -> Result<Live, Failure> {
        Ok(Live {
            name: found.set.name().to_owned(),
            resource: found.resource.clone(),
            scope: Scope::read(reader, &found.set).await?,
            set: None,
            pods: BTreeMap::new(),
            texts: Texts::default(),
            listed: BTreeSet::new(),
            has_pods: false,
            is_changed: false,
        })
    }

    /// The set, if something has changed since the last time and all has been read.
    fn changed(&mut self) -> Option<Arc<SidecarSet>> {
        let set = self.set.clone().filter(|_| self.has_pods && self.is_changed)?;
        self.is_changed = false;
        Some(set)
    }

    fn apply(&mut self, kind: Kind, event: Event<DynamicObject>) -> Result<(), Failure> {
        self.is_changed = true;
        match (kind, event) {
            (Kind::Set, Event::Apply(object) | Event::InitApply(object)) => {
                self.set = Some(decode(value(object, &self.resource))?);
            }
            (Kind::Set, Event::Delete(_)) => {
                return Err(Failure::no(format!("SidecarSet {:?} was deleted", self.name)));
            }
            (Kind::Set, Event::InitDone) if self.set.is_none() => {
                return Err(Failure::no(format!("SidecarSet {:?} was deleted", self.name)));
            }
            (Kind::Set, Event::Init | Event::InitDone) => {}
            (Kind::Pod, Event::Apply(object)) => drop(self.put(object)),
            (Kind::Pod, Event::Delete(object)) => drop(self.pods.remove(&key(&object))),
            (Kind::Pod, Event::Init) => self.listed.clear(),
            (Kind::Pod, Event::InitApply(object)) => {
                let key = self.put(object);
                self.listed.insert(key);
            }
            (Kind::Pod, Event::InitDone) => {
                let listed = std::mem::take(&mut self.listed);
                self.pods.retain(|key, _| listed.contains(key));
                self.has_pods = true;
            }
        }
        Ok(())
    }

    fn put(&mut self, object: DynamicObject) -> (String, String) {
        let key = key(&object);
        match view(value(object, &pod_resource()), &self.name, &self.scope, &mut self.texts) {
            Some(view) => drop(self.pods.insert(key.clone(), view)),
            None => drop(self.pods.remove(&key)),
        }
        key
    }

    /// A watch that was interrupted begins again by itself; one that has never worked is an error.
    fn fail(&self, kind: Kind, error: &watcher::Error) -> Result<(), Failure> {
        let (has_begun, resource) = match kind {
            Kind::Set => (self.set.is_some(), qualified(&self.resource)),
            Kind::Pod => (self.has_pods, qualified(&pod_resource())),
        };
        if has_begun { Ok(()) } else { Err(Failure::no(format!("cannot watch {resource}: {}", chain(error)))) }
    }
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.metadata.namespace.clone().unwrap_or_default(), object.metadata.name.clone().unwrap_or_default())
}

/// Items of a list do not repeat the type of the list.
fn value(object: DynamicObject, resource: &ApiResource) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    value["apiVersion"] = resource.api_version.clone().into();
    value["kind"] = resource.kind.clone().into();
    value
}
