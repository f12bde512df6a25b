//! A pod as the controllers see it: a hundred thousand of them are held, so only what is looked at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerState, PodCondition, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use serde::{Deserialize, Serialize};

/// A pod with the fields that a controller decides by.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodView {
    pub(crate) metadata: ObjectMeta,
    pub(crate) spec: Spec,
    pub(crate) status: Status,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    pub(crate) node_name: Option<String>,
    pub(crate) restart_policy: Option<String>,
    pub(crate) scheduler_name: Option<String>,
    pub(crate) scheduling_gates: Vec<serde_json::Value>,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<serde_json::Value>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) containers: Vec<Container>,
    pub(crate) overhead: BTreeMap<String, Quantity>,
    pub(crate) resources: Resources,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) restart_policy: Option<String>,
    pub(crate) resources: Resources,
    pub(crate) ports: Vec<Port>,
}

/// A port, as far as it concerns the node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the names of the API")]
pub(crate) struct Port {
    pub(crate) host_port: Option<i32>,
    #[serde(rename = "hostIP")]
    pub(crate) host_ip: Option<String>,
    pub(crate) protocol: Option<String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Resources {
    pub(crate) requests: BTreeMap<String, Quantity>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) phase: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) start_time: Option<Time>,
    pub(crate) conditions: Vec<PodCondition>,
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
    pub(crate) container_statuses: Vec<ContainerStatus>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) restart_count: i32,
    pub(crate) state: Option<ContainerState>,
    /// What it was given, and what the node has granted it: other than what it wants while a resize is under way.
    pub(crate) resources: Option<Resources>,
    pub(crate) allocated_resources: BTreeMap<String, Quantity>,
}

impl PodView {
    pub(crate) fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or_default()
    }

    /// Whether all work of the pod is done, for good or bad.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.phase(), "Succeeded" | "Failed")
    }

    /// Whether it counts for its workload: it has not ended, and nobody wants it to.
    pub(crate) fn is_active(&self) -> bool {
        !self.is_terminal() && self.metadata.deletion_timestamp.is_none()
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == kind)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready().is_some()
    }

    fn ready(&self) -> Option<&PodCondition> {
        self.condition("Ready").filter(|ready| ready.status == "True")
    }

    /// Since when it is ready; a ready pod need not say.
    pub(crate) fn ready_since(&self) -> Option<Timestamp> {
        self.ready()?.last_transition_time.as_ref().map(|time| time.0)
    }

    /// Whether it has been ready for long enough.
    pub(crate) fn is_available(&self, min_ready_seconds: i32, now: Timestamp) -> bool {
        self.is_ready()
            && (min_ready_seconds == 0
                || self.available_at(min_ready_seconds).is_some_and(|available| available <= now))
    }

    /// When it is, or was, available, if it stays ready.
    pub(crate) fn available_at(&self, min_ready_seconds: i32) -> Option<Timestamp> {
        self.ready_since()?.checked_add(SignedDuration::from_secs(min_ready_seconds.into())).ok()
    }

    pub(crate) fn created(&self) -> Option<Timestamp> {
        self.metadata.creation_timestamp.as_ref().map(|time| time.0)
    }

    /// How far it has come, as controllers see it that must give some pods up: whether it has a node, its phase, and whether it is ready.
    pub(crate) fn progress(&self) -> (bool, u8, bool) {
        let is_assigned = self.spec.node_name.as_deref().is_some_and(|node| !node.is_empty());
        let phase = match self.phase() {
            "Running" => 2,
            "Unknown" => 1,
            _ => 0,
        };
        (is_assigned, phase, self.is_ready())
    }

    /// The most restarts of a container, and of a native sidecar.
    pub(crate) fn restarts(&self) -> (i32, i32) {
        let is_sidecar = |name: &str| {
            let container = self.spec.init_containers.iter().find(|container| container.name == name);
            container.is_some_and(|container| container.restart_policy.as_deref() == Some("Always"))
        };
        let containers = self.status.container_statuses.iter().map(|status| status.restart_count);
        let sidecars = self.status.init_container_statuses.iter().filter(|status| is_sidecar(&status.name));
        (containers.max().unwrap_or(0), sidecars.map(|status| status.restart_count).max().unwrap_or(0))
    }

    /// Whether it is asked to end and has not yet.
    pub(crate) fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.metadata.deletion_timestamp.is_some()
    }
}

/// How long until one more of the pods has been ready for long enough.
pub(crate) fn next_available<'a>(
    pods: impl IntoIterator<Item = &'a PodView>,
    min_ready_seconds: i32,
    now: Timestamp,
) -> Option<Duration> {
    if min_ready_seconds == 0 {
        return None;
    }
    let times = pods.into_iter().filter_map(|pod| pod.available_at(min_ready_seconds));
    let next = times.filter(|available| *available > now).min()?;
    Duration::try_from(next.duration_since(now)).ok()
}

/// The same resource as `Pod`.
impl kube::Resource for PodView {
    type DynamicType = ();
    type Scope = k8s_openapi::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "Pod".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "pods".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}
