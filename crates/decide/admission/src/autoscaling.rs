//! Rightsizing of a new pod, in two steps: the pod's own containers before `resourcesPolicy` looks at them, and the injected ones after it.

use std::collections::{BTreeMap, BTreeSet};

use pillion_api::names::VPA_UPDATES;
use pillion_api::pod::{Object, Pod};
use pillion_api::vpa::{Gates, VerticalPodAutoscaler};
use pillion_inject::Injected;
use pillion_note::{ContainerKey, ContainerList, Draft, Draw, Note, Reason, Subject};
use pillion_quantity::Quantity;
use pillion_rightsize::{
    Amounts, Autoscalers, ContainerKind, ContainerTarget, LimitRanges, PodContainer, PodView, Sizing, Workload,
    annotations, size,
};
use serde_json::Value;

/// The rightsizing of one pod.
pub(crate) struct Rightsizing<'a> {
    of_workload: Option<&'a VerticalPodAutoscaler>,
    /// Those of the SidecarSets that were injected, each with its containers.
    of_sets: Vec<(&'a VerticalPodAutoscaler, BTreeSet<ContainerKey>)>,
    ranges: LimitRanges,
    max_boost: Option<Quantity>,
    gates: Gates,
    done: Vec<(&'a VerticalPodAutoscaler, Sizing)>,
}

impl<'a> Rightsizing<'a> {
    /// `None` if no autoscaler controls the pod or a part of it.
    pub(crate) fn new(
        draft: &mut Draft<'_>,
        autoscalers: &'a Autoscalers,
        injected: &Injected,
        draw: &Draw,
        gates: Gates,
    ) -> Option<Rightsizing<'a>> {
        let namespace = draft.pod().namespace().to_owned();
        let ranges = autoscalers.ranges.get(&namespace).copied().unwrap_or_default();
        let workload = draw.workload.clone().map(|(kind, name)| Workload { namespace, kind, name });
        let of_workload = workload.and_then(|workload| autoscalers.controlling(&workload));
        let of_sets = of_sets(autoscalers, injected);
        let any = of_workload.or(of_sets.first().map(|(autoscaler, _)| *autoscaler))?;
        if draft.field("resources").and_then(Value::as_object).is_some_and(|resources| !resources.is_empty()) {
            let text = "the pod sets resources for the pod as a whole (spec.resources), which containers must fit into; it is left as it is";
            draft.note(Note::warning(subject(any), Reason::PodResources, text));
            return None;
        }
        Some(Rightsizing { of_workload, of_sets, ranges, max_boost: autoscalers.max_boost, gates, done: Vec::new() })
    }

    /// Sizes the pod's own containers and native sidecars.
    pub(crate) fn size_own(&mut self, draft: &mut Draft<'_>) {
        let own: BTreeSet<ContainerKey> = keys(draft).into_values().filter(|key| draft.is_own(*key)).collect();
        if let Some(autoscaler) = self.of_workload {
            self.step(draft, autoscaler, &own);
        }
    }

    /// Sizes the containers that were injected, over what their `resourcesPolicy` says, and writes the annotations. An autoscaler of
    /// their SidecarSet wins over that of the workload.
    pub(crate) fn size_injected(mut self, draft: &mut Draft<'_>) {
        let of_sets = std::mem::take(&mut self.of_sets);
        if let Some(autoscaler) = self.of_workload {
            let is_rest = |key: &ContainerKey| {
                !draft.is_own(*key) && !of_sets.iter().any(|(_, containers)| containers.contains(key))
            };
            let rest: BTreeSet<ContainerKey> = keys(draft).into_values().filter(is_rest).collect();
            self.step(draft, autoscaler, &rest);
        }
        for (autoscaler, containers) in &of_sets {
            self.step(draft, autoscaler, containers);
        }
        let Some(pod) = view(draft) else { return };
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        for autoscaler in self.of_workload.into_iter().chain(of_sets.iter().map(|(autoscaler, _)| *autoscaler)) {
            let of_this = self.done.iter().filter(|(by, _)| std::ptr::eq(*by, autoscaler));
            let sizings: Vec<Sizing> = of_this.map(|(_, sizing)| sizing.clone()).collect();
            for (key, value) in annotations(autoscaler, &pod, &sizings, self.gates) {
                let before = all.get(&key).filter(|_| key == VPA_UPDATES);
                let value = before.map_or_else(|| value.clone(), |before| format!("{before}; {value}"));
                all.insert(key, value);
            }
        }
        for (key, value) in all {
            draft.set_annotation(key, value);
        }
    }

    fn step(&mut self, draft: &mut Draft<'_>, autoscaler: &'a VerticalPodAutoscaler, wanted: &BTreeSet<ContainerKey>) {
        let Some(pod) = view(draft) else { return };
        let keys = keys(draft);
        let key = |container: &PodContainer| keys.get(&(list(container.kind), container.name.clone())).copied();
        let is_wanted = |container: &PodContainer| key(container).is_some_and(|key| wanted.contains(&key));
        let sizing = size(autoscaler, &pod, &self.ranges, self.max_boost, self.gates, is_wanted);
        for target in &sizing.targets {
            let container = pod.containers.iter().find(|container| container.name == target.container);
            let Some(object) = container.and_then(key).and_then(|key| draft.container_mut(key)) else { continue };
            set(object, target);
            draft.note(Note::info(subject(autoscaler), Reason::Rightsized, text(target)).about(&target.container));
        }
        self.done.push((autoscaler, sizing));
    }
}

/// The autoscalers of the SidecarSets that were injected, in the order of the sets' names.
fn of_sets<'a>(
    autoscalers: &'a Autoscalers,
    injected: &Injected,
) -> Vec<(&'a VerticalPodAutoscaler, BTreeSet<ContainerKey>)> {
    let mut by_set: BTreeMap<&str, BTreeSet<ContainerKey>> = BTreeMap::new();
    if !autoscalers.of_sets.is_empty() {
        for (key, set) in injected.sets() {
            by_set.entry(set).or_default().insert(key);
        }
    }
    by_set.into_iter().filter_map(|(set, containers)| Some((autoscalers.of_set(set)?, containers))).collect()
}

/// The containers of a pod, by their list and name.
fn keys(draft: &Draft<'_>) -> BTreeMap<(ContainerList, String), ContainerKey> {
    let named = |list| draft.containers(list).map(move |(key, it)| ((list, it.name().to_owned()), key));
    LISTS.into_iter().flat_map(named).collect()
}

const LISTS: [ContainerList; 2] = [ContainerList::InitContainers, ContainerList::Containers];

fn list(kind: ContainerKind) -> ContainerList {
    match kind {
        ContainerKind::Regular => ContainerList::Containers,
        ContainerKind::NativeSidecar | ContainerKind::Init => ContainerList::InitContainers,
    }
}

/// `None` for a pod that is malformed, which the API server says.
fn view(draft: &Draft<'_>) -> Option<PodView> {
    Pod::new(draft.to_value()).ok().map(|pod| PodView::new(&pod))
}

fn subject(autoscaler: &VerticalPodAutoscaler) -> Subject {
    Subject::VerticalPodAutoscaler { namespace: autoscaler.namespace().to_owned(), name: autoscaler.name().to_owned() }
}

/// The resources that a target sets, as `requests.cpu` and its amount.
fn amounts(target: &ContainerTarget) -> impl Iterator<Item = (&'static str, &'static str, Quantity)> {
    let lists = [("requests", target.requests), ("limits", target.limits)];
    lists.into_iter().flat_map(|(list, Amounts { cpu, memory })| {
        let named = [("cpu", cpu), ("memory", memory)];
        named.into_iter().filter_map(move |(resource, amount)| Some((list, resource, amount?)))
    })
}

fn set(container: &mut Object, target: &ContainerTarget) {
    for (list, resource, amount) in amounts(target) {
        let resources = container.entry("resources").or_insert(Value::Null);
        let Some(list) = child(resources).map(|resources| resources.entry(list).or_insert(Value::Null)) else {
            continue;
        };
        if let Some(list) = child(list) {
            list.insert(resource.to_owned(), Value::String(amount.to_string()));
        }
    }
}

/// The object, made of null if need be.
fn child(value: &mut Value) -> Option<&mut Object> {
    if value.is_null() {
        *value = Value::Object(Object::new());
    }
    value.as_object_mut()
}

fn text(target: &ContainerTarget) -> String {
    let set: Vec<String> =
        amounts(target).map(|(list, resource, amount)| format!("{list}.{resource} = {amount}")).collect();
    let notes: Vec<String> = target.notes.iter().map(ToString::to_string).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    format!("{} as recommended{notes}", set.join(", "))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillion_gates::Gates as FeatureGates;
    use pillion_inject::Catalog;
    use pillion_testkit::mk_set;
    use serde_json::json;

    use super::*;
    use crate::{Decision, Snapshot, admit};

    fn autoscaler(containers: &[&str]) -> Arc<VerticalPodAutoscaler> {
        let recommended: Vec<Value> = containers
            .iter()
            .map(|name| json!({"containerName": name, "target": {"cpu": "250m", "memory": "200Mi"}}))
            .collect();
        let it = pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
            "status": {"recommendation": {"containerRecommendations": recommended}}
        }));
        Arc::new(it.unwrap())
    }

    fn snapshot(containers: &[&str], sets: Vec<Value>) -> Snapshot {
        let sets =
            sets.into_iter().enumerate().map(|(i, spec)| mk_set(&format!("set-{i}"), json!({"app": "web"}), spec));
        Snapshot {
            catalog: Catalog::new(sets, &[]).unwrap(),
            autoscalers: Autoscalers { list: vec![autoscaler(containers)], ..Autoscalers::default() },
            ..Snapshot::default()
        }
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "web-0", "labels": {"app": "web"}},
            "spec": {
                "containers": [{"name": "app", "resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "200m"}}}],
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}]
            }
        })
    }

    fn admitted(pod: &Value, snapshot: &Snapshot, gates: &str, workload: &str) -> (Value, Vec<Note>) {
        let draw = Draw { workload: Some(("Deployment".to_owned(), workload.to_owned())), ..Draw::default() };
        let gates = FeatureGates::default().with(&gates.parse().unwrap());
        let Decision { outcome, notes } = admit(&Pod::new(pod.clone()).unwrap(), snapshot, gates, &draw, None);
        let mut after = pod.clone();
        json_patch::patch(&mut after, &outcome.unwrap()).unwrap();
        (after, notes)
    }

    #[test]
    fn own_containers_and_native_sidecars_get_what_is_recommended_and_init_containers_nothing() {
        let snapshot = snapshot(&["app", "mesh", "setup"], vec![]);
        let (after, notes) = admitted(&pod(), &snapshot, "NativeSidecar=true", "web");
        let app = json!({"requests": {"cpu": "250m", "memory": "200Mi"}, "limits": {"cpu": "500m"}});
        assert_eq!(after["spec"]["containers"][0]["resources"], app);
        let mesh = json!({"requests": {"cpu": "250m", "memory": "200Mi"}});
        assert_eq!(after["spec"]["initContainers"][1]["resources"], mesh);
        assert_eq!(after["spec"]["initContainers"][0], json!({"name": "setup"}));
        let annotations = &after["metadata"]["annotations"];
        assert_eq!(annotations["vpaObservedContainers"], "app, mesh");
        assert!(annotations["vpaUpdates"].as_str().unwrap().contains("init-sidecar 1: "), "{annotations}");
        assert_eq!(
            notes[0].to_string(),
            r#"VerticalPodAutoscaler "default/web", container "mesh": requests.cpu = 250m, requests.memory = 200Mi as recommended"#
        );
        let (again, _) = admitted(&after, &snapshot, "NativeSidecar=true", "web");
        assert_eq!(again, after, "admitting twice is admitting once");
    }

    #[test]
    fn without_the_gate_a_native_sidecar_is_left_alone() {
        let (after, _) = admitted(&pod(), &snapshot(&["app", "mesh"], vec![]), "", "web");
        assert_eq!(after["spec"]["initContainers"], pod()["spec"]["initContainers"]);
        assert_eq!(after["metadata"]["annotations"]["vpaObservedContainers"], "app");
    }

    #[test]
    fn a_pod_of_another_workload_is_left_alone() {
        let (after, notes) = admitted(&pod(), &snapshot(&["app"], vec![]), "", "api");
        assert_eq!((after, notes.len()), (pod(), 0));
    }

    #[test]
    fn a_resources_policy_sees_what_the_app_was_given_and_an_autoscaler_wins_over_it() {
        let policy = json!({"targetContainersMode": "sum", "resourcesExpr": {"requests": {"cpu": "cpu*50%"}}});
        let proxy = |name: &str| json!({"name": name, "image": "proxy:1", "resourcesPolicy": policy});
        let sets = || vec![json!({"containers": [proxy("proxy"), proxy("log")]})];
        let cpu = |after: &Value, name: &str| {
            let containers = after["spec"]["containers"].as_array().unwrap();
            let container = containers.iter().find(|container| container["name"] == name).unwrap();
            container["resources"]["requests"]["cpu"].as_str().unwrap().to_owned()
        };
        let (after, _) = admitted(&pod(), &snapshot(&["app", "proxy"], sets()), "", "web");
        assert_eq!(cpu(&after, "app"), "250m");
        assert_eq!(cpu(&after, "log"), "125m", "half of what the app has now");
        assert_eq!(cpu(&after, "proxy"), "250m", "the autoscaler controls it");
        assert_eq!(after["metadata"]["annotations"]["vpaObservedContainers"].as_str().unwrap().split(", ").count(), 3);
    }

    #[test]
    fn an_autoscaler_of_the_sidecar_set_wins_over_that_of_the_workload_and_reaches_pods_without_one() {
        let mesh = json!({"containers": [{"name": "proxy", "image": "proxy:1", "resourcesPolicy": {
            "targetContainersMode": "sum", "resourcesExpr": {"requests": {"cpu": "cpu*50%"}}
        }}]});
        let log = json!({"containers": [{"name": "log", "image": "log:1"}]});
        let mut snapshot = snapshot(&["app", "proxy", "log"], vec![mesh, log]);
        let mut of_set = (*autoscaler(&["proxy", "app"])).clone();
        of_set.metadata.name = Some("mesh".to_owned());
        of_set.metadata.namespace = Some("pillion-system".to_owned());
        of_set.spec.target_ref = serde_json::from_value(
            json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "name": "set-0"}),
        )
        .unwrap();
        let recommended = &mut of_set.status.recommendation.as_mut().unwrap().container_recommendations;
        for it in recommended {
            it.target = serde_json::from_value(json!({"cpu": "70m"})).unwrap();
        }
        snapshot.autoscalers.of_sets = vec![Arc::new(of_set)];
        let cpu = |after: &Value| -> Vec<String> {
            let containers = after["spec"]["containers"].as_array().unwrap();
            let text = |it: &Value| format!("{} {}", it["name"].as_str().unwrap(), it["resources"]["requests"]["cpu"]);
            containers.iter().map(text).collect()
        };
        let (after, notes) = admitted(&pod(), &snapshot, "", "web");
        assert_eq!(cpu(&after), [r#"proxy "70m""#, r#"log "250m""#, r#"app "250m""#]);
        assert!(notes.iter().any(|note| note.to_string().contains(r#""pillion-system/mesh", container "proxy""#)));
        let updates = after["metadata"]["annotations"]["vpaUpdates"].as_str().unwrap();
        assert!(
            updates.contains("updated by web: ") && updates.contains("; Pod resources updated by mesh: "),
            "{updates}"
        );
        let (again, _) = admitted(&after, &snapshot, "", "web");
        assert_eq!(again, after, "admitting twice is admitting once");

        let (after, _) = admitted(&pod(), &snapshot, "", "no-autoscaler-of-its-own");
        assert_eq!(cpu(&after), [r#"proxy "70m""#, "log null", r#"app "100m""#]);
    }

    #[test]
    fn resources_of_the_pod_as_a_whole_are_respected_with_a_warning() {
        let mut whole = pod();
        whole["spec"]["resources"] = json!({"limits": {"cpu": "1"}});
        let (after, notes) = admitted(&whole, &snapshot(&["app"], vec![]), "", "web");
        assert_eq!(after, whole);
        assert_eq!((notes.len(), notes[0].severity), (1, pillion_note::Severity::Warning));
    }
}
