//! Which autoscaler controls a pod.

use jiff::Timestamp;
use pillion_api::vpa::{UpdateMode, VerticalPodAutoscaler};

use crate::usage::Workload;

/// Whether an autoscaler targets a workload. As upstream, the API version does not matter: a Deployment is a Deployment.
pub fn is_target(autoscaler: &VerticalPodAutoscaler, workload: &Workload) -> bool {
    let target = autoscaler.spec.target_ref.as_ref();
    autoscaler.namespace() == workload.namespace
        && target.is_some_and(|target| target.kind == workload.kind && target.name == workload.name)
}

/// Whether anything is done to new pods: in mode Off only boosts are.
pub fn admits(autoscaler: &VerticalPodAutoscaler) -> bool {
    *autoscaler.update_mode() != UpdateMode::Off || autoscaler.has_cpu_boost()
}

/// The one of several autoscalers of the same workload that counts: the oldest, and of the same age the first by name.
pub fn controlling<'a>(
    autoscalers: impl IntoIterator<Item = &'a VerticalPodAutoscaler>,
) -> Option<&'a VerticalPodAutoscaler> {
    let age = |autoscaler: &VerticalPodAutoscaler| {
        autoscaler.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0)
    };
    autoscalers.into_iter().min_by(|a, b| age(a).cmp(&age(b)).then_with(|| a.name().cmp(b.name())))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn autoscaler(name: &str, created: &str, spec: Value) -> VerticalPodAutoscaler {
        pillion_api::vpa::decode(json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created}, "spec": spec
        }))
        .unwrap()
    }

    /// `TestStronger` in upstream's `pkg/utils/vpa/api_test.go`.
    #[test]
    fn the_oldest_autoscaler_counts_and_then_the_first_by_name() {
        let of = |name: &str, created: &str| autoscaler(name, created, json!({}));
        let (old, new) = (of("z", "2026-01-01T00:00:00Z"), of("a", "2026-01-02T00:00:00Z"));
        let twin = of("b", "2026-01-01T00:00:00Z");
        assert_eq!(controlling([&new, &old]).unwrap().name(), "z");
        assert_eq!(controlling([&new, &old, &twin]).unwrap().name(), "b");
        assert_eq!(controlling([]), None);
    }

    #[test]
    fn a_target_is_found_by_namespace_kind_and_name() {
        let target = json!({"targetRef": {"apiVersion": "apps/v1beta1", "kind": "Deployment", "name": "web"}});
        let it = autoscaler("v", "2026-01-01T00:00:00Z", target);
        let workload = |namespace: &str, kind: &str, name: &str| Workload {
            namespace: namespace.into(),
            kind: kind.into(),
            name: name.into(),
        };
        assert!(is_target(&it, &workload("shop", "Deployment", "web")));
        assert!(!is_target(&it, &workload("other", "Deployment", "web")));
        assert!(!is_target(&it, &workload("shop", "StatefulSet", "web")));
        assert!(!is_target(&it, &workload("shop", "Deployment", "db")));
    }

    #[test]
    fn in_mode_off_only_boosts_are_for_new_pods() {
        let off = json!({"updatePolicy": {"updateMode": "Off"}});
        assert!(!admits(&autoscaler("v", "2026-01-01T00:00:00Z", off)));
        let boosting =
            json!({"updatePolicy": {"updateMode": "Off"}, "startupBoost": {"cpu": {"type": "Factor", "factor": 2}}});
        assert!(admits(&autoscaler("v", "2026-01-01T00:00:00Z", boosting)));
    }
}
