//! `evictionRequirements`: in which direction a pod may be changed.

use pillion_api::vpa::{
    EvictionChangeRequirement, EvictionRequirement, Gates, RecommendedContainerResources, RecommendedPodResources,
};
use pillion_expr::Resource;

use crate::amount::RESOURCES;
use crate::pod::{PodContainer, PodView};

/// Whether the requirements allow an update: without requirements always, else if some container with a recommendation
/// satisfies all of them, or lacks a request.
pub(super) fn are_met(
    requirements: &[EvictionRequirement],
    pod: &PodView,
    recommendation: &RecommendedPodResources,
    gates: Gates,
) -> bool {
    requirements.is_empty()
        || pod.sized(gates).any(|container| {
            recommendation.of(&container.name).is_some_and(|recommended| allows(requirements, container, recommended))
        })
}

fn allows(
    requirements: &[EvictionRequirement],
    container: &PodContainer,
    recommended: &RecommendedContainerResources,
) -> bool {
    let lacks_request = RESOURCES.into_iter().any(|resource| container.requests.get(resource).is_none());
    lacks_request || requirements.iter().all(|requirement| is_met(requirement, container, recommended))
}

/// One resource is enough.
fn is_met(
    requirement: &EvictionRequirement,
    container: &PodContainer,
    recommended: &RecommendedContainerResources,
) -> bool {
    let changes = |resource: Resource| {
        let request = container.requests.get(resource)?;
        let target = recommended.target.get(resource.name())?;
        Some(match requirement.change_requirement {
            EvictionChangeRequirement::TargetHigherThanRequests => target > request,
            EvictionChangeRequirement::TargetLowerThanRequests => target < request,
            EvictionChangeRequirement::Unknown(_) => false,
        })
    };
    let named = |resource: &Resource| requirement.resources.iter().any(|name| name == resource.name());
    RESOURCES.into_iter().filter(named).any(|resource| changes(resource).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    //! The tables of upstream's `pkg/updater/priority/scaling_direction_pod_eviction_admission_test.go`.

    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;

    const NATIVE: Gates = Gates { native_sidecar: true, ..Gates::NONE };

    fn up(resources: &[&str]) -> Value {
        json!({"resources": resources, "changeRequirement": "TargetHigherThanRequests"})
    }

    fn down(resources: &[&str]) -> Value {
        json!({"resources": resources, "changeRequirement": "TargetLowerThanRequests"})
    }

    fn requirements(values: Vec<Value>) -> Vec<EvictionRequirement> {
        values.into_iter().map(|value| serde_json::from_value(value).unwrap()).collect()
    }

    fn pod() -> PodView {
        let resources = json!({"requests": {"cpu": "500m", "memory": "10Gi"}});
        let container = |name: &str| json!({"name": name, "resources": resources});
        let mut sidecar = container("mesh");
        sidecar["restartPolicy"] = json!("Always");
        let spec =
            json!({"containers": [container("a"), container("b")], "initContainers": [container("setup"), sidecar]});
        PodView::new(&Pod::new(json!({"spec": spec})).unwrap())
    }

    fn recommend(targets: &[(&str, &str, &str)]) -> RecommendedPodResources {
        let of = |(name, cpu, memory): &(&str, &str, &str)| json!({"containerName": name, "target": {"cpu": cpu, "memory": memory}});
        serde_json::from_value(json!({"containerRecommendations": targets.iter().map(of).collect::<Vec<_>>()})).unwrap()
    }

    #[test]
    fn the_direction_of_the_change_decides() {
        for (values, cpu, memory, met) in [
            (vec![], "500m", "10Gi", true),
            (vec![up(&["cpu"])], "600m", "10Gi", true),
            (vec![up(&["cpu"])], "500m", "10Gi", false),
            (vec![down(&["cpu"])], "400m", "10Gi", true),
            (vec![up(&["cpu", "memory"])], "500m", "11Gi", true),
            (vec![up(&["cpu", "memory"])], "500m", "9Gi", false),
            (vec![down(&["memory"])], "500m", "9Gi", true),
            (vec![up(&["cpu"]), down(&["memory"])], "600m", "9Gi", true),
            (vec![down(&["cpu"])], "1000m", "9Gi", false),
            (vec![up(&["cpu"]), up(&["memory"])], "600m", "9Gi", false),
        ] {
            let recommended = recommend(&[("a", cpu, memory)]);
            assert_eq!(
                are_met(&requirements(values.clone()), &pod(), &recommended, NATIVE),
                met,
                "{values:?} {cpu} {memory}"
            );
        }
    }

    #[test]
    fn one_container_that_satisfies_all_is_enough() {
        let up = || requirements(vec![up(&["cpu"])]);
        let met = |targets: &[(&str, &str, &str)]| are_met(&up(), &pod(), &recommend(targets), NATIVE);
        assert!(met(&[("a", "600m", "10Gi"), ("b", "700m", "10Gi")]));
        assert!(met(&[("a", "200m", "10Gi"), ("b", "700m", "10Gi")]));
        assert!(!met(&[("a", "200m", "10Gi"), ("b", "300m", "10Gi")]));
        assert!(!met(&[("b", "300m", "10Gi")]));
        assert!(!met(&[]));
    }

    #[test]
    fn a_container_without_requests_may_always_be_changed() {
        let bare = PodView::new(&Pod::new(json!({"spec": {"containers": [{"name": "a"}]}})).unwrap());
        assert!(are_met(&requirements(vec![up(&["cpu"])]), &bare, &recommend(&[("a", "600m", "10Gi")]), NATIVE));
    }

    #[test]
    fn native_sidecars_count_only_with_the_gate_and_init_containers_never() {
        let up = || requirements(vec![up(&["cpu"])]);
        let targets = [("a", "500m", "10Gi"), ("mesh", "600m", "10Gi"), ("setup", "600m", "10Gi")];
        assert!(are_met(&up(), &pod(), &recommend(&targets), NATIVE));
        assert!(!are_met(&up(), &pod(), &recommend(&targets), Gates::default()));
        assert!(!are_met(&up(), &pod(), &recommend(&[targets[0], targets[2]]), NATIVE));
    }
}
