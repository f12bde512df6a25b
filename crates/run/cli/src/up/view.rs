//! What a person wants to see of a cluster: SidecarSets, workloads, Jobs, and pods with each container's state.
//!
//! Pure: objects in, rows out. The cells that kubectl shows as well are the cells of kubectl's own tables.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use imbl::OrdMap;
use jiff::Timestamp;
use pillion_api::names;
use serde_json::Value;

/// So many warnings are kept: the newest ones.
const WARNINGS: usize = 100;

/// Namespace and name.
pub(crate) type Key = (String, String);

/// Everything that is shown. A copy costs nothing, however much that is: it shares everything that does not change afterwards.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// When this run began. Events that were seen last before it are those of an earlier run.
    pub(crate) began: Option<Timestamp>,
    /// Whether this run leaves the webhooks out, so that it injects nothing by itself.
    pub(crate) is_without_webhooks: bool,
    pub(crate) sets: OrdMap<String, Set>,
    pub(crate) workloads: OrdMap<(String, Key), Workload>,
    pub(crate) jobs: OrdMap<Key, Job>,
    /// Jobs that have ended, also those that are gone since; `None` for one that was deleted before its end.
    pub(crate) ended: OrdMap<Key, Option<Job>>,
    pub(crate) pods: OrdMap<Key, Pod>,
    pub(crate) warnings: Arc<VecDeque<Warning>>,
}

/// A SidecarSet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Set {
    /// The names of its containers; native sidecars are marked.
    pub(crate) containers: Vec<String>,
}

/// A Deployment, StatefulSet or DaemonSet.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Workload {
    pub(crate) ready: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    /// As kubectl says it: `Running`, `Complete`, `Failed`, `Suspended`, …
    pub(crate) status: String,
    pub(crate) completions: String,
    pub(crate) duration: String,
    /// Why it failed.
    pub(crate) message: String,
}

impl Job {
    pub(crate) fn failed(&self) -> bool {
        self.status == "Failed"
    }

    /// Whether it has ended, for good or bad.
    pub(crate) fn ended(&self) -> bool {
        self.failed() || self.status == "Complete"
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pod {
    /// As kubectl says it: `Running`, `Init:0/1`, `CrashLoopBackOff`, …
    pub(crate) status: String,
    pub(crate) ready: String,
    pub(crate) restarts: String,
    pub(crate) containers: Vec<Container>,
    /// The SidecarSets in it.
    pub(crate) sets: Vec<String>,
    /// When it was made; what its age is counted from.
    pub(crate) created: Option<Timestamp>,
}

/// What a container is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Init,
    Sidecar,
    App,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum State {
    Waiting(String),
    /// Running, and whether it is ready.
    Running(bool),
    /// Ended with this code and reason.
    Ended(i64, String),
}

/// A container of a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) role: Role,
    /// Whether a SidecarSet has put it there.
    pub(crate) injected: bool,
    pub(crate) state: State,
    pub(crate) restarts: i64,
    /// `cpu 100m–200m, memory 64Mi`: requests and limits, empty when it has none.
    pub(crate) resources: String,
}

/// A warning event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Warning {
    pub(crate) object: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) count: i64,
}

impl Warning {
    /// Whether it is the other one again.
    pub(crate) fn says_the_same(&self, other: &Warning) -> bool {
        (&self.object, &self.reason, &self.message) == (&other.object, &other.reason, &other.message)
    }
}

impl View {
    /// Takes an object as it is now.
    pub(crate) fn apply(&mut self, object: &Value, now: Timestamp) {
        let key = key(object);
        match kind(object) {
            names::SIDECARSET_KIND => drop(self.sets.insert(key.1, set(object))),
            "Pod" => drop(self.pods.insert(key, pod(object, now))),
            "Job" => {
                let job = job(object, now);
                if job.ended() {
                    self.ended.insert(key.clone(), Some(job.clone()));
                }
                self.jobs.insert(key, job);
            }
            "Event" => self.warn(object),
            kind @ ("Deployment" | "StatefulSet" | "DaemonSet") => {
                drop(self.workloads.insert((kind.to_owned(), key), workload(object, now)));
            }
            _ => {}
        }
    }

    /// Forgets an object that is gone.
    pub(crate) fn remove(&mut self, object: &Value) {
        let key = key(object);
        match kind(object) {
            names::SIDECARSET_KIND => drop(self.sets.remove(&key.1)),
            "Pod" => drop(self.pods.remove(&key)),
            "Job" => {
                self.jobs.remove(&key);
                self.ended.entry(key).or_default();
            }
            kind => drop(self.workloads.remove(&(kind.to_owned(), key))),
        }
    }

    /// How many pods carry the sidecars of a set.
    pub(crate) fn pods_of(&self, set: &str) -> usize {
        self.pods.values().filter(|pod| pod.sets.iter().any(|name| name == set)).count()
    }

    /// Forgets all objects of a kind but these.
    pub(crate) fn retain(&mut self, kind: &str, listed: &BTreeSet<Key>) {
        match kind {
            names::SIDECARSET_KIND => retain(&mut self.sets, |name| listed.contains(&(String::new(), name.clone()))),
            "Pod" => retain(&mut self.pods, |key| listed.contains(key)),
            "Job" => {
                let gone: Vec<Key> = self.jobs.keys().filter(|key| !listed.contains(*key)).cloned().collect();
                for key in gone {
                    self.jobs.remove(&key);
                    self.ended.entry(key).or_default();
                }
            }
            kind => retain(&mut self.workloads, |(known, key)| known != kind || listed.contains(key)),
        }
    }

    /// Whether these Jobs have ended, and all others that there are.
    pub(crate) fn jobs_have_ended(&self, wanted: &[Key]) -> bool {
        wanted.iter().all(|key| self.ended.contains_key(key)) && self.jobs.values().all(Job::ended)
    }

    fn is_of_an_earlier_run(&self, event: &Value) -> bool {
        let times = ["/lastTimestamp", "/series/lastObservedTime", "/eventTime", "/metadata/creationTimestamp"];
        let seen = times.iter().filter_map(|time| text(event, time).parse::<Timestamp>().ok()).max();
        // Events are exact to the second.
        seen.zip(self.began).is_some_and(|(seen, began)| seen.as_second() < began.as_second())
    }

    fn warn(&mut self, event: &Value) {
        if text(event, "/type") != "Warning" || self.is_of_an_earlier_run(event) {
            return;
        }
        let of = |field: &str| text(&event["involvedObject"], field).to_owned();
        let warning = Warning {
            object: format!("{}/{}", of("/kind"), short(&(of("/namespace"), of("/name")))),
            reason: text(event, "/reason").to_owned(),
            message: text(event, "/message").trim().to_owned(),
            count: event["count"].as_i64().unwrap_or(1),
        };
        // The same words again move to the end.
        let warnings = Arc::make_mut(&mut self.warnings);
        warnings.retain(|other| !other.says_the_same(&warning));
        warnings.push_back(warning);
        while warnings.len() > WARNINGS {
            warnings.pop_front();
        }
    }
}

fn retain<K: Clone + Ord, V: Clone>(map: &mut OrdMap<K, V>, is_kept: impl Fn(&K) -> bool) {
    let gone: Vec<K> = map.keys().filter(|key| !is_kept(key)).cloned().collect();
    for key in gone {
        map.remove(&key);
    }
}

/// `name`, or `namespace/name` where the namespace is not `default`.
pub(crate) fn short((namespace, name): &Key) -> String {
    if namespace.is_empty() || namespace == "default" { name.clone() } else { format!("{namespace}/{name}") }
}

fn kind(object: &Value) -> &str {
    text(object, "/kind")
}

pub(crate) fn key(object: &Value) -> Key {
    (text(object, "/metadata/namespace").to_owned(), text(object, "/metadata/name").to_owned())
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn list<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

/// A cell of kubectl's table, by the column's name.
fn cell(group: &str, object: &Value, column: &str, now: Timestamp) -> String {
    let kind = kind(object);
    let columns = pillion_embedded::table::columns(group, kind);
    let Some(place) = columns.iter().position(|known| known.name == column) else { return String::new() };
    match pillion_embedded::table::row(group, kind, object, now).into_iter().nth(place) {
        Some(Value::String(text)) => text,
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn set(object: &Value) -> Set {
    let native = list(object, "/spec/initContainers").map(|container| {
        let mark = if container["restartPolicy"] == "Always" { " (native)" } else { " (init)" };
        format!("{}{mark}", text(container, "/name"))
    });
    let plain = list(object, "/spec/containers").map(|container| text(container, "/name").to_owned());
    Set { containers: native.chain(plain).collect() }
}

fn workload(object: &Value, now: Timestamp) -> Workload {
    let ready = match kind(object) {
        "DaemonSet" => {
            let of = |column| cell("apps", object, column, now);
            format!("{}/{}", of("Ready"), of("Desired"))
        }
        _ => cell("apps", object, "Ready", now),
    };
    Workload { ready }
}

fn job(object: &Value, now: Timestamp) -> Job {
    let of = |column| cell("batch", object, column, now);
    let failure = list(object, "/status/conditions")
        .find(|condition| condition["type"] == "Failed" && condition["status"] == "True");
    let message = failure.map(|condition| text(condition, "/message").to_owned()).unwrap_or_default();
    let status = match of("Status") {
        // It is about to end, and has not ended.
        status if matches!(status.as_str(), "SuccessCriteriaMet" | "FailureTarget") => "Running".to_owned(),
        status => status,
    };
    Job { status, completions: of("Completions"), duration: of("Duration"), message }
}

fn pod(object: &Value, now: Timestamp) -> Pod {
    let of = |column| cell("", object, column, now);
    let injected = object["metadata"]["annotations"][names::INJECTED_LIST].as_str().unwrap_or_default();
    let init = list(object, "/spec/initContainers").map(|spec| {
        let role = if spec["restartPolicy"] == "Always" { Role::Sidecar } else { Role::Init };
        container(object, spec, role)
    });
    let apps = list(object, "/spec/containers").map(|spec| {
        let role = if is_injected(spec) { Role::Sidecar } else { Role::App };
        container(object, spec, role)
    });
    Pod {
        status: of("Status"),
        ready: of("Ready"),
        restarts: of("Restarts"),
        containers: init.chain(apps).collect(),
        sets: injected.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        created: text(object, "/metadata/creationTimestamp").parse().ok(),
    }
}

fn is_injected(container: &Value) -> bool {
    list(container, "/env").any(|variable| variable["name"] == names::IS_INJECTED && variable["value"] == "true")
}

fn container(pod: &Value, spec: &Value, role: Role) -> Container {
    let name = text(spec, "/name");
    let status = list(pod, "/status/initContainerStatuses")
        .chain(list(pod, "/status/containerStatuses"))
        .find(|status| status["name"] == name);
    let none = Value::Null;
    let status = status.unwrap_or(&none);
    let state = if let Some(ended) = status.pointer("/state/terminated") {
        State::Ended(ended["exitCode"].as_i64().unwrap_or_default(), text(ended, "/reason").to_owned())
    } else if status.pointer("/state/running").is_some() {
        State::Running(status["ready"] == true)
    } else {
        State::Waiting(text(status, "/state/waiting/reason").to_owned())
    };
    Container {
        name: name.to_owned(),
        role,
        injected: is_injected(spec),
        state,
        restarts: status["restartCount"].as_i64().unwrap_or_default(),
        resources: resources(spec),
    }
}

/// Requests and limits of cpu and memory, each as `request–limit`, or one of them.
fn resources(container: &Value) -> String {
    let of = |name: &str| {
        let request = container["resources"]["requests"][name].as_str();
        let limit = container["resources"]["limits"][name].as_str();
        match (request, limit) {
            (Some(request), Some(limit)) if request == limit => Some(format!("{name} {limit}")),
            (Some(request), Some(limit)) => Some(format!("{name} {request}–{limit}")),
            (Some(request), None) => Some(format!("{name} {request}–∞")),
            (None, Some(limit)) => Some(format!("{name} 0–{limit}")),
            (None, None) => None,
        }
    };
    ["cpu", "memory"].into_iter().filter_map(of).collect::<Vec<_>>().join(", ")
}
