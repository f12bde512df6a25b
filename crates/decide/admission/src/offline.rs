//! Admission outside of the webhook: what a manifest, or an object of a cluster, would become.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use json_patch::Patch;
use pillion_api::field;
use pillion_api::pod::{Object, Pod};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_api::workload::pod_template;
use pillion_gates::Gates;
use pillion_inject::{MatchReason, Verdict};
use pillion_note::{Denied, Draw, Note};
use pillion_rightsize::{Workload, admits, is_refused, is_target, target_of, targeted_set, unsupported};
use pillion_rules::pod::validate_limit_ranges;
use serde::Serialize;
use serde_json::{Value, json};

use crate::api_server::before_webhooks;
use crate::{Decision, Snapshot, admit};

/// What admission needs to know, from manifests or read from a cluster.
#[derive(Clone, Debug, Default)]
pub struct Offline {
    /// SidecarSets and namespaces.
    pub snapshot: Snapshot,
    /// LimitRange objects, by namespace.
    pub limit_ranges: BTreeMap<String, Vec<Value>>,
    /// Namespaces for whose pods the API server does not call the webhook.
    pub excluded_namespaces: BTreeSet<String>,
    /// The feature gates.
    pub gates: Gates,
    /// The random number and the quota grants.
    pub draw: Draw,
    /// The namespace of objects that name none.
    pub namespace: String,
}

/// A manifest after admission.
#[derive(Clone, Debug)]
pub struct Injected {
    /// The object, with its pod or pod template injected and everything else as it came.
    pub object: Value,
    /// What was done to the pod or the template.
    pub patch: Patch,
    /// What was decided and why.
    pub notes: Vec<Note>,
}

/// Why every set is or is not injected, and what the pod's values come from.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Why {
    /// Of every SidecarSet, by name.
    pub sidecar_sets: Vec<Verdict>,
    /// Of every VerticalPodAutoscaler that could size the pod, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vertical_pod_autoscalers: Vec<AutoscalerVerdict>,
    /// What admission decided.
    pub notes: Vec<Note>,
    /// Why the pod is refused, if it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
    /// The init containers of the admitted pod, in the order in which they start.
    pub init_containers: Vec<String>,
    /// The containers of the admitted pod, in order.
    pub containers: Vec<String>,
}

/// Whether an autoscaler sizes a new pod, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerVerdict {
    pub namespace: String,
    pub name: String,
    /// Whether it sizes the pod or a part of it.
    pub matched: bool,
    /// Why.
    pub message: String,
}

/// Why a manifest cannot be admitted.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The pod or the template is malformed.
    #[error(transparent)]
    Field(#[from] field::Error),
    /// The pod is refused.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// The API server refuses what the webhook has let through: it is beyond a LimitRange.
    #[error("LimitRange: {0}")]
    LimitRange(String),
    /// The patch did not fit the manifest.
    #[error("the decision cannot be written into the manifest")]
    Patch(#[from] json_patch::PatchError),
}

impl OfflineError {
    /// Whether the pod is well formed, and refused.
    pub fn is_refusal(&self) -> bool {
        matches!(self, OfflineError::Denied(_) | OfflineError::LimitRange(_))
    }
}

impl Offline {
    /// Injects into a pod or a workload. `None` if the object has no pod in it.
    ///
    /// # Errors
    /// The pod is malformed or refused.
    pub fn inject(&self, object: &Value, now: Timestamp) -> Result<Option<Injected>, OfflineError> {
        let Some((pod, path)) = self.pod(object)? else { return Ok(None) };
        let Decision { outcome, notes } = self.decide(&pod, time_of(path, now));
        let patch = outcome?;
        // What the API server would fill in is not for a manifest: only whether it refuses the pod is asked.
        if self.limit_ranges.contains_key(pod.namespace()) {
            self.apply(&mut pod.into_value(), &patch)?;
        }
        let mut object = object.clone();
        if let Some(template) = object.pointer_mut(path) {
            json_patch::patch(template, &patch)?;
        }
        Ok(Some(Injected { object, patch, notes }))
    }

    /// Explains a pod or a workload. `None` if the object has no pod in it.
    ///
    /// # Errors
    /// The pod is malformed.
    pub fn why(&self, object: &Value, now: Timestamp) -> Result<Option<Why>, OfflineError> {
        let Some((pod, path)) = self.pod(object)? else { return Ok(None) };
        let sidecar_sets = self.explain(&pod);
        let vertical_pod_autoscalers = self.explain_autoscalers(&pod, &sidecar_sets);
        let Decision { outcome, notes } = self.decide(&pod, time_of(path, now));
        let (denied, after) = match outcome {
            Ok(patch) => {
                let mut after = pod.into_value();
                let denied = match self.apply(&mut after, &patch) {
                    Ok(()) => None,
                    Err(error) if error.is_refusal() => Some(error.to_string()),
                    Err(error) => return Err(error),
                };
                (denied, Pod::new(after)?)
            }
            Err(denied) => (Some(denied.to_string()), pod),
        };
        let init_containers = after.init_containers().map(|container| container.name().to_owned()).collect();
        let containers = after.containers().map(|container| container.name().to_owned()).collect();
        Ok(Some(Why { sidecar_sets, vertical_pod_autoscalers, notes, denied, init_containers, containers }))
    }

    /// The pod that the API server would show to the webhook, and where it is in the object. `None` if the object has no pod in it.
    ///
    /// # Errors
    /// The pod is malformed.
    pub fn pod(&self, object: &Value) -> Result<Option<(Pod, &'static str)>, OfflineError> {
        let Some(path) = pod_template(object) else { return Ok(None) };
        let template = object.pointer(path).unwrap_or(&Value::Null);
        let mut pod = template.clone();
        if let Some(pod) = pod.as_object_mut() {
            complete_metadata(pod, object, self.namespace_of(object));
        }
        // Checked first, so that defaulting meets only what has the right form.
        let mut pod = Pod::new(pod).map_err(|error| below(path, error))?.into_value();
        self.complete_resources(&mut pod);
        Ok(Some((Pod::new(pod).map_err(|error| below(path, error))?, path)))
    }

    /// What the webhook would decide about a pod; nothing if it is not called for pods of that namespace.
    pub fn decide(&self, pod: &Pod, now: Option<Timestamp>) -> Decision {
        if self.excluded_namespaces.contains(pod.namespace()) {
            return Decision { outcome: Ok(Patch::default()), notes: Vec::new() };
        }
        let workload = workload(pod).map(|workload| (workload.kind, workload.name));
        let draw = Draw { workload: self.draw.workload.clone().or(workload), ..self.draw.clone() };
        admit(pod, &self.snapshot, self.gates, &draw, now)
    }

    /// Makes of a pod what the API server makes of it after the webhook's decision: it applies the patch, fills in the resources of what came with
    /// it, and checks the outcome against LimitRanges. On a cluster the webhook has no part in that.
    ///
    /// # Errors
    /// The patch does not fit the pod, or a LimitRange refuses the outcome.
    pub fn apply(&self, pod: &mut Value, patch: &Patch) -> Result<(), OfflineError> {
        json_patch::patch(pod, patch)?;
        self.complete_resources(pod);
        let beyond = validate_limit_ranges(pod, &self.limit_ranges_of(self.namespace_of(pod)));
        if beyond.is_empty() { Ok(()) } else { Err(OfflineError::LimitRange(beyond.join("; "))) }
    }

    fn explain_autoscalers(&self, pod: &Pod, sets: &[Verdict]) -> Vec<AutoscalerVerdict> {
        let autoscalers = &self.snapshot.autoscalers;
        let workload = workload(pod);
        let controlling = workload.as_ref().and_then(|workload| autoscalers.controlling(workload));
        let is_injected = |set: &str| sets.iter().any(|verdict| verdict.matched && verdict.sidecar_set == set);
        let of_workloads = autoscalers.list.iter().filter(|it| it.namespace() == pod.namespace()).map(|it| {
            let target = target_of(it).map_or("nothing".to_owned(), |it| format!("{}/{}", it.kind, it.name));
            if workload.as_ref().is_some_and(|workload| is_target(it, workload)) {
                verdict_on(it, controlling, &target)
            } else {
                (it, false, format!("it targets {target}, and the pod is of another workload"))
            }
        });
        let of_sets = autoscalers.of_sets.iter().map(|it| {
            let set = targeted_set(it).unwrap_or_default();
            if is_injected(set) {
                let (it, matched, message) = verdict_on(it, autoscalers.of_set(set), &format!("SidecarSet/{set}"));
                (it, matched, if matched { format!("{message}, which is injected") } else { message })
            } else {
                (it, false, format!("it targets SidecarSet/{set}, which is not injected"))
            }
        });
        let verdict = |(it, matched, mut message): (&Arc<VerticalPodAutoscaler>, bool, String)| {
            if matched && it.status.recommendation.is_none() {
                message.push_str("; it recommends nothing yet");
            }
            AutoscalerVerdict { namespace: it.namespace().to_owned(), name: it.name().to_owned(), matched, message }
        };
        of_workloads.chain(of_sets).map(verdict).collect()
    }

    pub fn limit_ranges_of(&self, namespace: &str) -> Vec<&Value> {
        self.limit_ranges.get(namespace).into_iter().flatten().collect()
    }

    /// Fills in the resources that the API server fills in: before it calls the webhook, and again after the webhook has changed the pod.
    fn complete_resources(&self, pod: &mut Value) {
        let ranges = self.limit_ranges_of(self.namespace_of(pod));
        before_webhooks(pod, &ranges);
    }

    fn explain(&self, pod: &Pod) -> Vec<Verdict> {
        let namespace = self.snapshot.namespace(pod.namespace());
        let mut verdicts = pillion_inject::explain(pod, &namespace, &self.snapshot.catalog);
        if self.excluded_namespaces.contains(pod.namespace()) {
            for verdict in verdicts.iter_mut().filter(|verdict| verdict.matched) {
                verdict.matched = false;
                verdict.reason = MatchReason::NamespaceExcluded;
                verdict.message = format!("the webhook is not called for pods of namespace {:?}", pod.namespace());
            }
        }
        verdicts
    }

    fn namespace_of<'a>(&'a self, object: &'a Value) -> &'a str {
        object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty()).unwrap_or(&self.namespace)
    }
}

/// Whether an autoscaler of the right target sizes a new pod, and why. `controlling` is the one that does.
fn verdict_on<'a>(
    it: &'a Arc<VerticalPodAutoscaler>,
    controlling: Option<&VerticalPodAutoscaler>,
    target: &str,
) -> (&'a Arc<VerticalPodAutoscaler>, bool, String) {
    if is_refused(it) {
        let reason = unsupported(it).unwrap_or_default();
        return (it, false, format!("it targets {target}, which is not supported: {reason}"));
    }
    if !admits(it) {
        return (it, false, "its mode is Off: new pods are left alone".to_owned());
    }
    match controlling {
        Some(other) if !std::ptr::eq(other, it.as_ref()) => {
            (it, false, format!("{} is older, and targets {target} as well", other.name()))
        }
        _ => (it, true, format!("it targets {target}")),
    }
}

/// The workload of a pod, as far as its own reference says: the Deployment of a ReplicaSet is known by its name.
fn workload(pod: &Pod) -> Option<Workload> {
    let metadata = &pod.as_value()["metadata"];
    let mut owners = metadata["ownerReferences"].as_array().into_iter().flatten();
    let owner = owners.find(|owner| owner["controller"] == true)?;
    let (kind, name) = (owner["kind"].as_str()?, owner["name"].as_str()?);
    let of = |kind: &str, name: &str| Workload {
        namespace: pod.namespace().to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
    };
    let hash = metadata["labels"]["pod-template-hash"].as_str().unwrap_or_default();
    let deployment = name.strip_suffix(hash).and_then(|name| name.strip_suffix('-'));
    match deployment.filter(|_| kind == "ReplicaSet" && !hash.is_empty()) {
        Some(deployment) => Some(of("Deployment", deployment)),
        None => Some(of(kind, name)),
    }
}

/// A template is not admitted yet: its output must not depend on when it was asked for, or each run of a pipeline would
/// roll every workload out anew.
fn time_of(template: &str, now: Timestamp) -> Option<Timestamp> {
    template.is_empty().then_some(now)
}

/// What a workload's controller adds to the pods that it makes.
fn complete_metadata(pod: &mut Object, owner: &Value, namespace: &str) {
    let metadata = pod.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Object::new());
    }
    let Some(metadata) = metadata.as_object_mut() else { return };
    metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
    let owner_name = owner["metadata"]["name"].as_str();
    if let (None, Some(name)) = (metadata.get("name"), owner_name) {
        metadata.insert("generateName".to_owned(), Value::String(format!("{name}-")));
        let reference = json!([{"kind": owner["kind"], "name": name, "controller": true}]);
        metadata.insert("ownerReferences".to_owned(), reference);
    }
}

/// The same error, where the object has it.
fn below(template: &str, error: field::Error) -> field::Error {
    let mut path =
        template.split('/').filter(|part| !part.is_empty()).fold(field::Path::root(), |path, part| path.child(part));
    for segment in error.path.segments() {
        path = match segment {
            field::Segment::Field(name) => path.child(name),
            field::Segment::Index(index) => path.index(*index),
            field::Segment::Key(key) => path.key(key),
        };
    }
    field::Error { path, ..error }
}

#[cfg(test)]
mod tests {
    use pillion_inject::Catalog;
    use pillion_testkit::{mk_set, mk_sized};

    use super::*;

    /// A namespace with pods of 1 cpu at most, and a sidecar of 200m.
    fn offline() -> Offline {
        let proxy = mk_sized("proxy", ("200m", ""), ("100m", ""));
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [proxy]}));
        let range = json!({"spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}]}});
        Offline {
            snapshot: Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() },
            limit_ranges: [("lab".to_owned(), vec![range])].into(),
            namespace: "default".to_owned(),
            ..Offline::default()
        }
    }

    fn deployment(namespace: &str, cpu: &str) -> Value {
        let spec = json!({"containers": [mk_sized("app", (cpu, ""), ("100m", ""))]});
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": namespace},
            "spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": spec}},
        })
    }

    #[test]
    fn what_the_webhook_lets_through_is_refused_beyond_a_limit_range() {
        let said = "LimitRange: maximum cpu usage per Pod is 1, but limit is 1200m";
        let (offline, too_large) = (offline(), deployment("lab", "1"));
        let refused = offline.inject(&too_large, Timestamp::UNIX_EPOCH).unwrap_err();
        assert_eq!((refused.to_string().as_str(), refused.is_refusal()), (said, true));
        let why = offline.why(&too_large, Timestamp::UNIX_EPOCH).unwrap().unwrap();
        assert_eq!(why.denied.as_deref(), Some(said));
        assert!(why.sidecar_sets[0].matched && !why.notes.is_empty(), "{why:?}");
    }

    #[test]
    fn of_the_autoscalers_of_a_set_only_the_one_that_sizes_is_said_to() {
        let of_set = |name: &str, created: &str, set: &str, mode: &str| {
            let autoscaler = pillion_api::vpa::decode(json!({
                "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
                "metadata": {"name": name, "namespace": "default", "creationTimestamp": created},
                "spec": {
                    "targetRef": {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "name": set},
                    "updatePolicy": {"updateMode": mode},
                },
            }));
            Arc::new(autoscaler.unwrap())
        };
        let mut offline = offline();
        offline.snapshot.autoscalers.of_sets = vec![
            of_set("off", "2026-01-01T00:00:00Z", "mesh", "Off"),
            of_set("old", "2026-01-02T00:00:00Z", "mesh", "Recreate"),
            of_set("new", "2026-01-03T00:00:00Z", "mesh", "Recreate"),
            of_set("other", "2026-01-01T00:00:00Z", "logs", "Recreate"),
        ];
        let why = offline.why(&deployment("shop", "1"), Timestamp::UNIX_EPOCH).unwrap().unwrap();
        let said = why.vertical_pod_autoscalers.iter().map(|it| format!("{} {} {}", it.name, it.matched, it.message));
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                "off false its mode is Off: new pods are left alone",
                "old true it targets SidecarSet/mesh, which is injected; it recommends nothing yet",
                "new false old is older, and targets SidecarSet/mesh as well",
                "other false it targets SidecarSet/logs, which is not injected",
            ]
        );
    }

    #[test]
    fn a_limit_range_that_is_kept_or_of_another_namespace_refuses_nothing() {
        for object in [deployment("lab", "800m"), deployment("shop", "1")] {
            let injected = offline().inject(&object, Timestamp::UNIX_EPOCH).unwrap().unwrap().object;
            let containers = injected["spec"]["template"]["spec"]["containers"].as_array().unwrap();
            assert_eq!(containers.len(), 2, "{injected:#}");
            let why = offline().why(&object, Timestamp::UNIX_EPOCH).unwrap().unwrap();
            assert_eq!(why.denied, None);
        }
    }
}
