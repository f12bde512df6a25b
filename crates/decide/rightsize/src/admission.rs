//! What a new pod gets: resources, and annotations that the updater reads later.

use std::collections::BTreeMap;

use pillion_api::names::{VPA_OBSERVED_CONTAINERS, VPA_UPDATES};
use pillion_api::vpa::{Gates, UpdateMode, VerticalPodAutoscaler};
use pillion_quantity::Quantity;
use serde_json::Value;

use crate::amount::RESOURCES;
use crate::boost::apply_boost;
use crate::limit_range::LimitRanges;
use crate::patch::{annotation_patch, resource_patch};
use crate::pod::{Amounts, ContainerKind, PodContainer, PodView};
use crate::target::{ContainerTarget, container_targets};

/// What a new pod gets.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// What the containers should have; those that stay as they are have none.
    pub targets: Vec<ContainerTarget>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
}

impl Admission {
    /// The JSON patch for a pod that has annotations, or has none.
    pub fn patch(&self, pod: &PodView, has_annotations: bool) -> Vec<Value> {
        let mut patch = resource_patch(pod, &self.targets);
        patch.extend(annotation_patch(&self.annotations, has_annotations));
        patch
    }
}

/// What some containers of a new pod get.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sizing {
    /// What the containers should have; those that stay as they are have none.
    pub targets: Vec<ContainerTarget>,
    /// Annotations that remember what boosted containers had before.
    pub boosts: BTreeMap<String, String>,
    /// What `vpaUpdates` says of each container.
    updates: Vec<String>,
}

/// Decides what some containers of a new pod get from the autoscaler that controls it. `max_boost` is `--max-allowed-cpu-boost`.
/// A container that is boosted already was decided about before, and stays as it is.
pub fn size(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    max_boost: Option<Quantity>,
    gates: Gates,
    is_wanted: impl Fn(&PodContainer) -> bool,
) -> Sizing {
    let mut recommended = recommended_targets(autoscaler, pod, ranges, gates);
    let mut sizing = Sizing::default();
    let is_boosted = |name: &str| pod.boosted.iter().any(|(boosted, _)| boosted == name);
    for container in in_order(pod, gates).filter(|it| is_wanted(it) && !is_boosted(&it.name)) {
        let found = recommended.iter().position(|target| target.container == container.name);
        let new = || ContainerTarget { container: container.name.clone(), ..ContainerTarget::default() };
        let mut target = found.map_or_else(new, |found| recommended.swap_remove(found));
        if gates.cpu_startup_boost {
            sizing.boosts.extend(apply_boost(&mut target, container, autoscaler, max_boost));
        }
        if !target.is_empty() {
            sizing.updates.push(update(container, &target));
            sizing.targets.push(target);
        }
    }
    sizing
}

/// Returns what an autoscaler recommends for the containers of a new pod: nothing in mode Off.
pub(crate) fn recommended_targets(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    gates: Gates,
) -> Vec<ContainerTarget> {
    match autoscaler.update_mode() {
        UpdateMode::Off => Vec::new(),
        _ => container_targets(autoscaler, pod, ranges, gates),
    }
}

/// The annotations of a new pod whose containers were sized, in one step or in several.
pub fn annotations(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    sizings: &[Sizing],
    gates: Gates,
) -> BTreeMap<String, String> {
    let mut annotations: BTreeMap<String, String> = sizings.iter().flat_map(|sizing| sizing.boosts.clone()).collect();
    let updates: Vec<&str> = sizings.iter().flat_map(|sizing| sizing.updates.iter().map(String::as_str)).collect();
    if !updates.is_empty() {
        let text = format!("Pod resources updated by {}: {}", autoscaler.name(), updates.join("; "));
        annotations.insert(VPA_UPDATES.to_owned(), text);
    }
    annotations.insert(VPA_OBSERVED_CONTAINERS.to_owned(), observed(pod, gates));
    annotations
}

/// Decides what a new pod gets from the autoscaler that controls it: [`size`] over all containers, and [`annotations`].
pub fn admit(
    autoscaler: &VerticalPodAutoscaler,
    pod: &PodView,
    ranges: &LimitRanges,
    max_boost: Option<Quantity>,
    gates: Gates,
) -> Admission {
    let sizing = size(autoscaler, pod, ranges, max_boost, gates, |_| true);
    let annotations = annotations(autoscaler, pod, std::slice::from_ref(&sizing), gates);
    Admission { targets: sizing.targets, annotations }
}

/// Native sidecars first: they start first.
fn in_order(pod: &PodView, gates: Gates) -> impl Iterator<Item = &PodContainer> {
    let of = move |kind| pod.sized(gates).filter(move |container| container.kind == kind);
    of(ContainerKind::NativeSidecar).chain(of(ContainerKind::Regular))
}

/// Regular containers, then native sidecars: the updater ignores containers that are not listed.
fn observed(pod: &PodView, gates: Gates) -> String {
    pod.sized(gates).map(|container| container.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// `container 0: cpu capped to minAllowed, cpu request, cpu limit`.
fn update(container: &PodContainer, target: &ContainerTarget) -> String {
    let lists = [(target.requests, "request"), (target.limits, "limit")];
    let set = lists.into_iter().flat_map(|(amounts, name): (Amounts, &str)| {
        let set = RESOURCES.into_iter().filter(move |resource| amounts.get(*resource).is_some());
        set.map(move |resource| format!("{resource} {name}"))
    });
    let words: Vec<String> = target.notes.iter().map(ToString::to_string).chain(set).collect();
    let kind = if container.kind == ContainerKind::Regular { "container" } else { "init-sidecar" };
    format!("{kind} {}: {}", container.index, words.join(", "))
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/admission-controller/resource/pod/patch/resource_updates_test.go`, and of the pull request
    //! for native sidecars (autoscaler 8498).

    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::*;

    const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

    fn autoscaler(mode: &str, recommended: Value) -> VerticalPodAutoscaler {
        pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "name"},
            "spec": {"updatePolicy": {"updateMode": mode}},
            "status": {"recommendation": {"containerRecommendations": recommended}}
        }))
        .unwrap()
    }

    fn view(spec: Value) -> PodView {
        PodView::new(&Pod::new(json!({"spec": spec})).unwrap())
    }

    fn admitted(mode: &str, recommended: Value, spec: Value, gates: Gates) -> Value {
        let pod = view(spec);
        json!(admit(&autoscaler(mode, recommended), &pod, &LimitRanges::default(), None, gates).patch(&pod, false))
    }

    #[test]
    fn missing_objects_are_added_before_values() {
        let cpu = json!([{"containerName": "a", "target": {"cpu": "1"}}]);
        assert_eq!(
            admitted("Recreate", cpu.clone(), json!({"containers": [{"name": "a"}]}), NATIVE),
            json!([
                {"op": "add", "path": "/spec/containers/0/resources", "value": {}},
                {"op": "add", "path": "/spec/containers/0/resources/requests", "value": {}},
                {"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "1"},
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/vpaObservedContainers", "value": "a"},
                {"op": "add", "path": "/metadata/annotations/vpaUpdates", "value": "Pod resources updated by name: container 0: cpu request"}
            ])
        );
        let patch = admitted(
            "Recreate",
            cpu,
            json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "0"}}}]}),
            NATIVE,
        );
        assert_eq!(patch[0], json!({"op": "add", "path": "/spec/containers/0/resources/requests/cpu", "value": "1"}));
    }

    /// Upstream adds an empty `resources` and an entry in `vpaUpdates` here.
    #[test]
    fn nothing_recommended_changes_only_the_list_of_observed_containers() {
        assert_eq!(
            admitted("Recreate", json!([]), json!({"containers": [{"name": "a"}, {"name": "b"}]}), NATIVE),
            json!([
                {"op": "add", "path": "/metadata/annotations", "value": {}},
                {"op": "add", "path": "/metadata/annotations/vpaObservedContainers", "value": "a, b"}
            ])
        );
    }

    #[test]
    fn a_native_sidecar_is_patched_in_its_own_list() {
        let recommended = || json!([{"containerName": "mesh", "target": {"cpu": "1"}}, {"containerName": "setup", "target": {"cpu": "1"}}]);
        let spec = || {
            json!({
                "containers": [{"name": "app"}],
                "initContainers": [{"name": "setup"}, {"name": "mesh", "restartPolicy": "Always"}]
            })
        };
        let on = admitted("Recreate", recommended(), spec(), NATIVE);
        assert_eq!(on[2], json!({"op": "add", "path": "/spec/initContainers/1/resources/requests/cpu", "value": "1"}));
        assert_eq!(on[4]["value"], "app, mesh");
        assert_eq!(on[5]["value"], "Pod resources updated by name: init-sidecar 1: cpu request");
        assert_eq!(on.as_array().unwrap().len(), 6);

        let off = admitted("Recreate", recommended(), spec(), Gates::default());
        assert_eq!(off[1]["value"], "app");
        assert_eq!(off.as_array().unwrap().len(), 2);
    }

    #[test]
    fn mode_off_only_boosts() {
        let recommended = json!([{"containerName": "a", "target": {"cpu": "1"}}]);
        let mut it = autoscaler("Off", recommended);
        it.spec.startup_boost = Some(serde_json::from_value(json!({"cpu": {"type": "Factor", "factor": 2}})).unwrap());
        let pod = view(json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "100m"}}}]}));
        let of = |gates| admit(&it, &pod, &LimitRanges::default(), None, gates);
        assert!(of(NATIVE).targets.is_empty());
        let boosted = of(Gates { cpu_startup_boost: true, ..NATIVE });
        assert_eq!(boosted.targets[0].requests.cpu.unwrap().to_string(), "200m");
        assert!(boosted.annotations.contains_key("vpaCpuStartupBoost/a"));
        let patch = boosted.patch(&pod, true);
        assert!(patch.iter().any(|operation| operation["path"] == "/metadata/annotations/vpaCpuStartupBoost~1a"));
    }

    #[test]
    fn notes_come_before_what_was_set() {
        let mut it = autoscaler("Recreate", json!([{"containerName": "a", "target": {"cpu": "1", "memory": "1Gi"}}]));
        it.spec.resource_policy = Some(
            serde_json::from_value(json!({"containerPolicies": [{"containerName": "a", "minAllowed": {"cpu": "2"}}]}))
                .unwrap(),
        );
        let pod = view(
            json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}}]}),
        );
        let admission = admit(&it, &pod, &LimitRanges::default(), None, NATIVE);
        assert_eq!(
            admission.annotations["vpaUpdates"],
            "Pod resources updated by name: container 0: cpu capped to minAllowed, memory: limit NOT set since originalLimit is \
             nil or 0, cpu request, memory request, cpu limit"
        );
    }
}
