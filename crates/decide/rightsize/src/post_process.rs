//! What happens to a recommendation before it is written: whole cores where asked for, and the bounds of the policy.

use pillion_api::names::{VPA_INTEGER_CPU_SUFFIX, VPA_POST_PROCESSOR_PREFIX};
use pillion_api::vpa::{
    ContainerResourcePolicy, PodResourcePolicy, RecommendedContainerResources, RecommendedPodResources, ResourceList,
    VerticalPodAutoscaler,
};
use pillion_quantity::{Quantity, Scale};

/// Rounds CPU up to whole cores for the containers that an annotation of the autoscaler names.
pub fn round_to_whole_cores(recommendation: &mut RecommendedPodResources, autoscaler: &VerticalPodAutoscaler) {
    let Some(annotations) = &autoscaler.metadata.annotations else { return };
    for recommended in &mut recommendation.container_recommendations {
        let key = format!("{VPA_POST_PROCESSOR_PREFIX}{}{VPA_INTEGER_CPU_SUFFIX}", recommended.container_name);
        if annotations.get(&key).is_none_or(|value| value != "true") {
            continue;
        }
        for list in all_lists(recommended) {
            if let Some(cpu) = list.get("cpu") {
                list.set("cpu", cpu.round_up(Scale::One));
            }
        }
    }
}

/// Keeps a recommendation within `minAllowed` and `maxAllowed`; the maximum wins. `global_max` is the maximum of what a policy
/// has none for. The uncapped target stays as it is.
pub fn cap_to_policy(
    recommendation: &mut RecommendedPodResources,
    policy: Option<&PodResourcePolicy>,
    global_max: &ResourceList,
) {
    for recommended in &mut recommendation.container_recommendations {
        let policy = policy.and_then(|policy| policy.of(&recommended.container_name));
        for list in bounded_lists(recommended) {
            for (resource, amount) in list.iter_mut() {
                let (min, max) = policy.map(|policy| policy.bounds(resource)).unwrap_or_default();
                *amount = raise(*amount, min).0;
                *amount = lower(*amount, max.or_else(|| global_max.get(resource))).0;
            }
        }
    }
}

/// Takes out of what was recommended what is not meant any more: containers that are gone or whose policy is off, and resources that
/// their policy does not control.
pub fn retain_controlled(
    recommendation: &mut RecommendedPodResources,
    policy: Option<&PodResourcePolicy>,
    exists: impl Fn(&str) -> bool,
) {
    recommendation.container_recommendations.retain_mut(|recommended| {
        let policy = policy.and_then(|policy| policy.of(&recommended.container_name));
        if policy.is_some_and(ContainerResourcePolicy::is_off) || !exists(&recommended.container_name) {
            return false;
        }
        let is_controlled = |resource: &str| policy.is_none_or(|policy| policy.controls(resource));
        for list in all_lists(recommended) {
            let controlled = list.iter().filter(|(resource, _)| is_controlled(resource));
            *list = controlled.map(|(resource, amount)| (resource.to_owned(), amount)).collect();
        }
        !recommended.target.is_empty()
    });
}

/// A bound from what it is now, what it was before, and the target.
type Keep = fn(Quantity, Quantity, Quantity) -> Quantity;

/// Keeps the bounds at least as close as they were before: after a restart, history lacks what no checkpoint stores until it has
/// caught up. The target stays within its bounds.
pub fn keep_bounds(recommendation: &mut RecommendedPodResources, before: &RecommendedPodResources) {
    for recommended in &mut recommendation.container_recommendations {
        let Some(before) = before.of(&recommended.container_name) else { continue };
        let target = recommended.target.clone();
        let bounds: [(&mut Option<ResourceList>, &Option<ResourceList>, Keep); 2] = [
            (&mut recommended.lower_bound, &before.lower_bound, |new, old, target| new.max(old).min(target.max(new))),
            (&mut recommended.upper_bound, &before.upper_bound, |new, old, target| new.min(old).max(target.min(new))),
        ];
        for (new, old, keep) in bounds {
            for (resource, amount) in new.iter_mut().flat_map(ResourceList::iter_mut) {
                let old = old.as_ref().and_then(|list| list.get(resource));
                if let (Some(old), Some(target)) = (old, target.get(resource)) {
                    *amount = keep(*amount, old, target);
                }
            }
        }
    }
}

/// Takes out of `before` what [`keep_bounds`] need not keep any more: CPU bounds that are at least as close as before, since history has
/// caught up. Bounds of memory stay: the peaks of the windows that were open are lost, and low usage at first says nothing about them.
pub fn release_bounds(before: &mut RecommendedPodResources, recommendation: &RecommendedPodResources) {
    let mut kept = recommendation.clone();
    keep_bounds(&mut kept, before);
    for old in &mut before.container_recommendations {
        let (now, kept) = (recommendation.of(&old.container_name), kept.of(&old.container_name));
        let cpu = |it: Option<&RecommendedContainerResources>| {
            let get = |list: &Option<ResourceList>| list.as_ref().and_then(|list| list.get("cpu"));
            it.map(|it| (get(&it.lower_bound), get(&it.upper_bound)))
        };
        if now.is_some() && cpu(now) == cpu(kept) {
            for list in old.lower_bound.iter_mut().chain(&mut old.upper_bound) {
                list.remove("cpu");
            }
        }
    }
}

/// All amounts, those that were not capped among them.
fn all_lists(recommended: &mut RecommendedContainerResources) -> impl Iterator<Item = &mut ResourceList> {
    let bounds = recommended.lower_bound.iter_mut().chain(&mut recommended.upper_bound);
    std::iter::once(&mut recommended.target).chain(bounds).chain(&mut recommended.uncapped_target)
}

/// The target and its bounds.
pub(crate) fn bounded_lists(
    recommended: &mut RecommendedContainerResources,
) -> impl Iterator<Item = &mut ResourceList> {
    let bounds = recommended.lower_bound.iter_mut().chain(&mut recommended.upper_bound);
    std::iter::once(&mut recommended.target).chain(bounds)
}

/// At least `min`, and whether that changed it. A minimum of zero or less does not count.
pub(crate) fn raise(amount: Quantity, min: Option<Quantity>) -> (Quantity, bool) {
    match min {
        Some(min) if min > Quantity::ZERO && amount < min => (min, true),
        _ => (amount, false),
    }
}

/// At most `max`, and whether that changed it. A maximum of zero or less does not count.
pub(crate) fn lower(amount: Quantity, max: Option<Quantity>) -> (Quantity, bool) {
    match max {
        Some(max) if max > Quantity::ZERO && amount > max => (max, true),
        _ => (amount, false),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn list(value: &Value) -> ResourceList {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn foo() -> RecommendedPodResources {
        serde_json::from_value(json!({"containerRecommendations": [{
            "containerName": "foo",
            "target": {"cpu": "42m", "memory": "42Mi"},
            "lowerBound": {"cpu": "31m", "memory": "31Mi"},
            "upperBound": {"cpu": "53m", "memory": "53Mi"},
            "uncappedTarget": {"cpu": "42m", "memory": "42Mi"}
        }]}))
        .unwrap()
    }

    /// `TestApplyVPAPolicy` in upstream's `pkg/utils/vpa/capping_test.go`: policy, global maximum, target, lower and upper bound.
    #[test]
    fn the_policy_bounds_the_recommendation() {
        let both = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
        for (policy, global, target, lower, upper) in [
            (json!({}), json!({}), both("42m", "42Mi"), both("31m", "31Mi"), both("53m", "53Mi")),
            (
                json!({"minAllowed": both("50m", "50Mi")}),
                json!({}),
                both("50m", "50Mi"),
                both("50m", "50Mi"),
                both("53m", "53Mi"),
            ),
            (
                json!({"maxAllowed": both("40m", "40Mi")}),
                json!({}),
                both("40m", "40Mi"),
                both("31m", "31Mi"),
                both("40m", "40Mi"),
            ),
            (json!({}), both("40m", "40Mi"), both("40m", "40Mi"), both("31m", "31Mi"), both("40m", "40Mi")),
            (
                json!({"minAllowed": both("35m", "35Mi")}),
                both("50m", "50Mi"),
                both("42m", "42Mi"),
                both("35m", "35Mi"),
                both("50m", "50Mi"),
            ),
            // What validation refuses by now, and may have been stored before.
            (
                json!({"maxAllowed": {"cpu": "-1"}}),
                json!({}),
                both("42m", "42Mi"),
                both("31m", "31Mi"),
                both("53m", "53Mi"),
            ),
            (
                json!({"minAllowed": {"cpu": "50m"}, "maxAllowed": {"cpu": "40m"}}),
                json!({"cpu": "-1"}),
                both("40m", "42Mi"),
                both("31m", "31Mi"),
                both("40m", "53Mi"),
            ),
            (
                json!({"maxAllowed": {"cpu": "40m"}}),
                json!({"memory": "40Mi"}),
                both("40m", "40Mi"),
                both("31m", "31Mi"),
                both("40m", "40Mi"),
            ),
            (
                json!({"maxAllowed": {"cpu": "40m"}}),
                both("30m", "30Mi"),
                both("40m", "30Mi"),
                both("31m", "30Mi"),
                both("40m", "30Mi"),
            ),
        ] {
            let mut policy = policy;
            policy["containerName"] = json!("foo");
            let policies: PodResourcePolicy = serde_json::from_value(json!({"containerPolicies": [policy]})).unwrap();
            let mut recommendation = foo();
            cap_to_policy(&mut recommendation, Some(&policies), &list(&global));
            let capped = &recommendation.container_recommendations[0];
            assert_eq!(capped.target, list(&target), "{policy} {global}");
            assert_eq!(capped.lower_bound, Some(list(&lower)), "{policy} {global}");
            assert_eq!(capped.upper_bound, Some(list(&upper)), "{policy} {global}");
            assert_eq!(capped.uncapped_target, foo().container_recommendations[0].uncapped_target);
        }
    }

    #[test]
    fn what_the_policy_does_not_control_any_more_does_not_stay() {
        let both = json!({"cpu": "1", "memory": "1Gi"});
        let of =
            |name: &str| json!({"containerName": name, "target": both, "lowerBound": both, "uncappedTarget": both});
        let left = |policies: Value, exists: &[&str]| {
            let mut it: RecommendedPodResources =
                serde_json::from_value(json!({"containerRecommendations": [of("a"), of("b")]})).unwrap();
            let policy: PodResourcePolicy = serde_json::from_value(json!({"containerPolicies": policies})).unwrap();
            retain_controlled(&mut it, Some(&policy), |name| exists.contains(&name));
            let names =
                |list: &ResourceList| list.iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>().join("+");
            let shown = |it: &RecommendedContainerResources| {
                assert_eq!(it.lower_bound.as_ref(), Some(&it.target));
                assert_eq!(it.uncapped_target.as_ref(), Some(&it.target));
                format!("{} {}", it.container_name, names(&it.target))
            };
            it.container_recommendations.iter().map(shown).collect::<Vec<_>>()
        };
        assert_eq!(left(json!([]), &["a", "b"]), ["a cpu+memory", "b cpu+memory"]);
        assert_eq!(left(json!([]), &["b"]), ["b cpu+memory"], "a is gone from the template");
        assert_eq!(left(json!([{"containerName": "*", "mode": "Off"}]), &["a", "b"]), [""; 0]);
        assert_eq!(left(json!([{"containerName": "*", "controlledResources": []}]), &["a", "b"]), [""; 0]);
        assert_eq!(left(json!([{"containerName": "a", "mode": "Off"}]), &["a", "b"]), ["b cpu+memory"]);
        let memory = json!([{"containerName": "a", "controlledResources": ["memory"]}]);
        assert_eq!(left(memory, &["a", "b"]), ["a memory", "b cpu+memory"]);
    }

    #[test]
    fn bounds_do_not_loosen_until_history_has_caught_up() {
        let of = |lower: &str, target: &str, upper: &str| -> RecommendedPodResources {
            serde_json::from_value(json!({"containerRecommendations": [{
                "containerName": "foo", "lowerBound": {"cpu": lower}, "target": {"cpu": target}, "upperBound": {"cpu": upper}
            }]}))
            .unwrap()
        };
        for (before, new, kept) in [
            (("80m", "100m", "120m"), ("10m", "100m", "1"), ("80m", "100m", "120m")),
            (("80m", "100m", "120m"), ("90m", "100m", "110m"), ("90m", "100m", "110m")),
            // Usage itself has changed: the target is never outside.
            (("80m", "100m", "120m"), ("10m", "200m", "1"), ("80m", "200m", "200m")),
            (("80m", "100m", "120m"), ("10m", "50m", "1"), ("50m", "50m", "120m")),
        ] {
            let mut it = of(new.0, new.1, new.2);
            let mut left = of(before.0, before.1, before.2);
            release_bounds(&mut left, &it);
            let is_released = left.container_recommendations[0].upper_bound == Some(ResourceList::default());
            assert_eq!(is_released, new == kept, "{before:?} {new:?}");
            keep_bounds(&mut it, &of(before.0, before.1, before.2));
            assert_eq!(it, of(kept.0, kept.1, kept.2), "{before:?} {new:?}");
        }
    }

    /// The peak that was lost may come back with the next hour.
    #[test]
    fn bounds_of_memory_are_kept_even_if_they_come_closer() {
        let of = |upper: &str| -> RecommendedPodResources {
            let it = json!({"containerName": "foo", "target": {"memory": "1Gi"}, "upperBound": {"memory": upper}});
            serde_json::from_value(json!({"containerRecommendations": [it]})).unwrap()
        };
        let mut before = of("4Gi");
        release_bounds(&mut before, &of("3Gi"));
        let mut later = of("5Gi");
        keep_bounds(&mut later, &before);
        assert_eq!(later, of("4Gi"));
    }

    /// `cpu_integer_post_processor_test.go`.
    #[test]
    fn whole_cores_are_for_annotated_containers() {
        let autoscaler = pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"annotations": {
                "vpa-post-processor.kubernetes.io/a_integerCPU": "true",
                "vpa-post-processor.kubernetes.io/c_integerCPU": "false"
            }}
        }))
        .unwrap();
        let recommend =
            |name: &str, cpu: &str| json!({"containerName": name, "target": {"cpu": cpu}, "upperBound": {"cpu": cpu}});
        for (name, cpu, rounded) in
            [("a", "8.6", "9"), ("b", "8.2", "8200m"), ("c", "8.2", "8200m"), ("a", "8.1", "9"), ("a", "8", "8")]
        {
            let mut it: RecommendedPodResources =
                serde_json::from_value(json!({"containerRecommendations": [recommend(name, cpu)]})).unwrap();
            round_to_whole_cores(&mut it, &autoscaler);
            let it = &it.container_recommendations[0];
            assert_eq!(it.target.get("cpu").unwrap().to_string(), rounded);
            assert_eq!(it.upper_bound.as_ref().unwrap().get("cpu").unwrap().to_string(), rounded);
        }
    }
}
