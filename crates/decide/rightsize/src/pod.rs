//! What is read of a pod: its containers with their resources, and how it is doing.

use std::sync::Arc;

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::pod::{Container as ContainerJson, Pod};
use pillion_api::record::Records;
use pillion_api::vpa::Gates;
use serde_json::Value;

pub use crate::amounts::{Amounts, SpecResources};

/// Which sort of container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ContainerKind {
    /// In `spec.containers`.
    Regular,
    /// In `spec.initContainers`, with `restartPolicy: Always`.
    NativeSidecar,
    /// In `spec.initContainers`, and run to its end. It is never sized.
    Init,
}

impl ContainerKind {
    /// Whether such a container is sampled, recommended for and updated.
    pub fn is_sized(self, gates: Gates) -> bool {
        match self {
            ContainerKind::Regular => true,
            ContainerKind::NativeSidecar => gates.native_sidecar,
            ContainerKind::Init => false,
        }
    }

    /// The list of the pod's spec that it is in.
    pub fn list(self) -> &'static str {
        match self {
            ContainerKind::Regular => "containers",
            ContainerKind::NativeSidecar | ContainerKind::Init => "initContainers",
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PodContainer {
    pub name: String,
    /// Which sort of container.
    pub kind: ContainerKind,
    /// Its place in its list of the spec.
    pub index: usize,
    /// What it requests: what the kubelet reports, else what the spec says.
    pub requests: Amounts,
    /// Its limits, likewise.
    pub limits: Amounts,
    /// What the spec says, for patches of the spec.
    pub spec: SpecResources,
    /// Whether any resize restarts it.
    pub restarts_on_resize: bool,
    /// How often it was restarted.
    pub restarts: i64,
    /// Whether it has ended, was not restarted yet, and no reason is given.
    pub has_ended_without_reason: bool,
    /// When it last started and was OOM killed, if it has been restarted since.
    pub last_oom: Option<OomKill>,
    /// The same, if it was not restarted.
    pub ended_by_oom: Option<OomKill>,
}

impl PodContainer {
    /// The newest OOM kill that is known.
    pub fn newest_oom(&self) -> Option<OomKill> {
        self.ended_by_oom.or(self.last_oom)
    }
}

/// A container that was OOM killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OomKill {
    /// When it had started; long ago if that is not reported.
    pub started: Timestamp,
    /// When it was killed.
    pub finished: Timestamp,
}

/// How far a resize in place is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeState {
    /// No resize is under way.
    None,
    /// The node has no room at the moment.
    Deferred,
    /// The node can never do it.
    Infeasible,
    /// It is being done.
    InProgress,
    /// It failed, and will be tried again.
    Error,
    /// A reason that is not known.
    Unknown,
}

/// The controller that owns a pod directly.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Owner {
    /// Its kind, such as ReplicaSet.
    pub kind: String,
    pub name: String,
}

/// A plain init container: it is never sized, but the API server counts it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InitContainer {
    /// Its place in `spec.initContainers`. Native sidecars before it run beside it.
    pub index: usize,
    /// What the spec says.
    pub spec: SpecResources,
}

/// What is read of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodView {
    pub uid: String,
    pub namespace: String,
    pub name: String,
    /// Its controller. A pod without one is never updated: nothing would replace it.
    pub owner: Option<Owner>,
    pub created: Option<Timestamp>,
    /// Whether it has not started yet.
    pub is_pending: bool,
    /// When the kubelet accepted it.
    pub start_time: Option<Timestamp>,
    /// Since when it is Ready; since long ago if that is not reported.
    pub ready_since: Option<Timestamp>,
    /// How far a resize is.
    pub resize: ResizeState,
    /// Since when it is in that state.
    pub resize_since: Option<Timestamp>,
    /// Whether resources are set for the pod as a whole (`spec.resources`).
    pub has_pod_resources: bool,
    /// Its plain init containers.
    pub init: Box<[InitContainer]>,
    /// Regular containers, then native sidecars. Plain init containers are not listed. Pods that are alike may share the list.
    pub containers: Arc<[PodContainer]>,
    /// The annotation `vpaObservedContainers`, if it can be read.
    pub observed: Option<Vec<String>>,
    /// The boosted containers, and the resources they had before.
    pub boosted: Vec<(String, Value)>,
    /// The SidecarSets that were injected, and their containers that run beside the app.
    pub injected: Vec<(String, Vec<String>)>,
}

impl PodView {
    /// Reads a pod.
    pub fn new(pod: &Pod) -> PodView {
        let value = pod.as_value();
        let (metadata, status) = (&value["metadata"], &value["status"]);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let containers = pod.containers().enumerate().map(|(i, container)| (ContainerKind::Regular, i, container));
        let plain = pod.init_containers().enumerate().filter(|(_, container)| !container.is_native_sidecar());
        let init = plain.map(|(index, json)| InitContainer { index, spec: spec_resources(json) }).collect();
        let sidecars = pod.init_containers().enumerate();
        let sidecars = sidecars.filter(|(_, container)| container.is_native_sidecar());
        let sidecars = sidecars.map(|(i, container)| (ContainerKind::NativeSidecar, i, container));
        let (resize, resize_since) = resize_state(status);
        let containers = containers.chain(sidecars).map(|(kind, i, json)| container(kind, i, json, status)).collect();
        PodView {
            uid: text(&metadata["uid"]),
            namespace: pod.namespace().to_owned(),
            name: pod.name().to_owned(),
            owner: owner(metadata),
            created: time(&metadata["creationTimestamp"]),
            is_pending: status["phase"] == "Pending",
            start_time: time(&status["startTime"]),
            ready_since: condition(status, "Ready")
                .map(|ready| time(&ready["lastTransitionTime"]).unwrap_or(Timestamp::MIN)),
            resize,
            resize_since,
            has_pod_resources: value["spec"]["resources"].as_object().is_some_and(|resources| !resources.is_empty()),
            init,
            containers,
            observed: pod.annotation(names::VPA_OBSERVED_CONTAINERS).and_then(parse_observed),
            boosted: boosted(metadata),
            injected: injected(pod),
        }
    }

    /// The containers that a SidecarSet injected.
    pub fn injected_by(&self, set: &str) -> &[String] {
        self.injected.iter().find(|(name, _)| name == set).map_or(&[], |(_, containers)| containers)
    }

    pub fn sized(&self, gates: Gates) -> impl Iterator<Item = &PodContainer> {
        self.containers.iter().filter(move |container| container.kind.is_sized(gates))
    }

    /// Whether its app cannot start because a native sidecar was OOM killed. Only more memory helps such a pod.
    pub fn waits_for_killed_sidecar(&self, gates: Gates) -> bool {
        let is_killed = |container: &PodContainer| {
            container.kind == ContainerKind::NativeSidecar && container.newest_oom().is_some()
        };
        self.is_pending && self.sized(gates).any(is_killed)
    }

    /// Whether a container counts for updates. An annotation that lists none of the pod's native sidecars was written by an
    /// admission that does not know them, and says nothing about them.
    pub fn is_observed(&self, container: &PodContainer) -> bool {
        let Some(observed) = &self.observed else { return true };
        let lists = |name: &str| observed.iter().any(|observed| observed == name);
        if lists(&container.name) {
            return true;
        }
        let is_sidecar = |container: &PodContainer| container.kind == ContainerKind::NativeSidecar;
        let knows_sidecars = self.containers.iter().any(|other| is_sidecar(other) && lists(&other.name));
        is_sidecar(container) && !knows_sidecars
    }
}

/// The names in `vpaObservedContainers`; `None` if one of them cannot be the name of a container.
pub(crate) fn parse_observed(annotation: &str) -> Option<Vec<String>> {
    if annotation.is_empty() {
        return Some(Vec::new());
    }
    let is_label = |name: &str| {
        let is_edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        name.len() <= 63
            && is_edge(name.chars().next())
            && is_edge(name.chars().last())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let names: Vec<String> = annotation.split(", ").map(str::to_owned).collect();
    names.iter().all(|name| is_label(name)).then_some(names)
}

fn container(kind: ContainerKind, index: usize, json: ContainerJson<'_>, status: &Value) -> PodContainer {
    let list = if kind == ContainerKind::Regular { "containerStatuses" } else { "initContainerStatuses" };
    let statuses = status[list].as_array().into_iter().flatten();
    let status = statuses.into_iter().find(|status| status["name"] == json.name()).unwrap_or(&Value::Null);
    let spec = json.0.get("resources").unwrap_or(&Value::Null);
    let actual = if status["resources"].is_object() { &status["resources"] } else { spec };
    let ended = &status["state"]["terminated"];
    let mut policies = json.0.get("resizePolicy").and_then(Value::as_array).into_iter().flatten();
    PodContainer {
        name: json.name().to_owned(),
        kind,
        index,
        requests: Amounts::of(&actual["requests"]),
        limits: Amounts::of(&actual["limits"]),
        spec: spec_resources(json),
        restarts_on_resize: policies.any(|policy| policy["restartPolicy"] == "RestartContainer"),
        restarts: status["restartCount"].as_i64().unwrap_or_default(),
        has_ended_without_reason: ended.is_object() && ended["reason"].as_str().is_none_or(str::is_empty),
        last_oom: oom_kill(&status["lastState"]["terminated"]),
        ended_by_oom: oom_kill(ended),
    }
}

fn spec_resources(container: ContainerJson<'_>) -> SpecResources {
    let resources = container.0.get("resources").unwrap_or(&Value::Null);
    let present = |list: &str| resources[list].is_object().then(|| Amounts::of(&resources[list]));
    SpecResources { requests: present("requests"), limits: present("limits") }
}

fn oom_kill(terminated: &Value) -> Option<OomKill> {
    (terminated["reason"] == "OOMKilled").then_some(())?;
    let started = time(&terminated["startedAt"]).unwrap_or(Timestamp::MIN);
    Some(OomKill { started, finished: time(&terminated["finishedAt"])? })
}

fn owner(metadata: &Value) -> Option<Owner> {
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    Some(Owner { kind: owner["kind"].as_str()?.to_owned(), name: owner["name"].as_str()?.to_owned() })
}

/// A condition that is True.
fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind && condition["status"] == "True")
}

fn resize_state(status: &Value) -> (ResizeState, Option<Timestamp>) {
    if let Some(pending) = condition(status, "PodResizePending") {
        let state = match pending["reason"].as_str() {
            Some("Deferred") => ResizeState::Deferred,
            Some("Infeasible") => ResizeState::Infeasible,
            _ => ResizeState::Unknown,
        };
        return (state, time(&pending["lastTransitionTime"]));
    }
    let Some(progress) = condition(status, "PodResizeInProgress") else { return (ResizeState::None, None) };
    let text = |field: &str| progress[field].as_str().unwrap_or_default();
    let state = match (text("reason"), text("message")) {
        ("", "") => ResizeState::InProgress,
        ("Error", _) => ResizeState::Error,
        _ => ResizeState::Unknown,
    };
    (state, time(&progress["lastTransitionTime"]))
}

fn boosted(metadata: &Value) -> Vec<(String, Value)> {
    let annotations = metadata["annotations"].as_object().into_iter().flatten();
    annotations
        .filter_map(|(key, value)| {
            let container = key.strip_prefix(names::VPA_CPU_STARTUP_BOOST_PREFIX)?;
            Some((container.to_owned(), serde_json::from_str(value.as_str()?).unwrap_or_default()))
        })
        .collect()
}

/// What cannot be read was written by somebody else, and says nothing.
fn injected(pod: &Pod) -> Vec<(String, Vec<String>)> {
    let records = pod.annotation(names::HASH).and_then(|text| Records::parse(text).ok()).unwrap_or_default();
    let containers = |set: &str| -> Vec<String> {
        records.get(set).map(|record| record.sidecars().map(str::to_owned).collect()).unwrap_or_default()
    };
    records.sets().map(|set| (set.to_owned(), containers(set))).collect()
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn view(pod: Value) -> PodView {
        PodView::new(&Pod::new(pod).unwrap())
    }

    /// `observed_containers_test.go`.
    #[test]
    fn observed_containers_are_names_joined_by_commas() {
        assert_eq!(parse_observed("test1, test2, test3").unwrap(), ["test1", "test2", "test3"]);
        assert_eq!(parse_observed("").unwrap(), [""; 0]);
        assert_eq!(parse_observed("test1,test2"), None);
        assert_eq!(parse_observed("Test"), None);
    }

    #[test]
    fn an_annotation_that_lists_no_sidecar_says_nothing_about_sidecars() {
        let of = |annotation: &str| {
            let pod = view(json!({
                "metadata": {"annotations": {"vpaObservedContainers": annotation}},
                "spec": {
                    "containers": [{"name": "app"}, {"name": "late"}],
                    "initContainers": [{"name": "mesh", "restartPolicy": "Always"}, {"name": "log", "restartPolicy": "Always"}]
                }
            }));
            let observed = pod.containers.iter().filter(|container| pod.is_observed(container));
            observed.map(|container| container.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(of("app"), ["app", "mesh", "log"]);
        assert_eq!(of("app, mesh"), ["app", "mesh"]);
        assert_eq!(of("not a name!"), ["app", "late", "mesh", "log"]);
        assert_eq!(of(""), ["mesh", "log"]);
    }

    #[test]
    fn what_the_kubelet_reports_wins_over_the_spec() {
        let pod = view(json!({
            "spec": {
                "containers": [{"name": "app", "resources": {"requests": {"cpu": "1"}}}],
                "initContainers": [
                    {"name": "setup"},
                    {"name": "mesh", "restartPolicy": "Always", "resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]}
                ]
            },
            "status": {
                "containerStatuses": [{"name": "app", "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}}],
                "initContainerStatuses": [{"name": "mesh", "lastState": {"terminated": {
                    "reason": "OOMKilled", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:02:00Z"
                }}}]
            }
        }));
        let [app, mesh] = &*pod.containers else { panic!("{pod:?}") };
        assert_eq!(app.requests.cpu.unwrap().to_string(), "2");
        assert_eq!(app.limits.memory.unwrap().to_string(), "1Gi");
        assert_eq!(app.spec.requests.unwrap().cpu.unwrap().to_string(), "1");
        assert_eq!(app.spec.limits, None);
        assert_eq!((mesh.kind, mesh.index), (ContainerKind::NativeSidecar, 1));
        assert!(mesh.restarts_on_resize && mesh.last_oom.is_some());
    }

    #[test]
    fn a_pod_without_a_node_has_no_start_time_but_was_created() {
        let pod =
            view(json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"phase": "Pending"}}));
        assert_eq!((pod.start_time, pod.created), (None, Some("2026-01-01T00:00:00Z".parse().unwrap())));
    }

    #[test]
    fn what_sidecar_sets_injected_is_read_from_their_record() {
        let of = |record: &str| {
            let pod = view(json!({"metadata": {"annotations": {"kruise.io/sidecarset-hash": record}}, "spec": {}}));
            (pod.injected_by("mesh").join(" "), pod.injected.len())
        };
        assert_eq!(of(r#"{"mesh": {"sidecarList": ["a", "b"]}, "log": {"sidecarList": null}}"#), ("a b".to_owned(), 2));
        assert_eq!(of("torn {"), (String::new(), 0));
    }

    /// The table of `pods_inplace_restriction_test.go`; `PodResizePending` wins over `PodResizeInProgress`.
    #[test]
    fn the_state_of_a_resize_comes_from_conditions() {
        let pending = |reason: &str| json!({"type": "PodResizePending", "status": "True", "reason": reason});
        let progress = |reason: &str, message: &str| json!({"type": "PodResizeInProgress", "status": "True", "reason": reason, "message": message});
        for (conditions, state) in [
            (json!([]), ResizeState::None),
            (json!([pending("Deferred")]), ResizeState::Deferred),
            (json!([pending("Infeasible")]), ResizeState::Infeasible),
            (json!([pending("Weather")]), ResizeState::Unknown),
            (json!([progress("", "")]), ResizeState::InProgress),
            (json!([progress("Error", "no")]), ResizeState::Error),
            (json!([progress("", "no")]), ResizeState::Unknown),
            (json!([progress("", ""), pending("Deferred")]), ResizeState::Deferred),
            (json!([{"type": "PodResizePending", "status": "False", "reason": "Deferred"}]), ResizeState::None),
        ] {
            assert_eq!(view(json!({"status": {"conditions": conditions}})).resize, state, "{conditions}");
        }
    }

    /// Upstream panics on an owner reference without `controller`.
    #[test]
    fn the_owner_is_the_reference_that_says_it_is_the_controller() {
        let owner = |references: Value| view(json!({"metadata": {"ownerReferences": references}})).owner;
        assert_eq!(owner(json!([{"kind": "Deployment", "name": "a"}])), None);
        assert_eq!(
            owner(json!([{"kind": "A", "name": "a"}, {"kind": "ReplicaSet", "name": "b", "controller": true}])),
            Some(Owner { kind: "ReplicaSet".into(), name: "b".into() })
        );
    }
}
