//! Which autoscaler controls a pod.

use jiff::Timestamp;
use pillion_api::vpa::{UpdateMode, VerticalPodAutoscaler};

use crate::pod::Owner;
use crate::usage::Workload;

/// The kinds of controllers that Kubernetes itself brings.
pub const WELL_KNOWN_CONTROLLERS: [&str; 7] =
    ["CronJob", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"];

/// The workload that an autoscaler targets. As upstream, the API version does not matter: a Deployment is a Deployment.
pub fn target_of(autoscaler: &VerticalPodAutoscaler) -> Option<Workload> {
    let target = autoscaler.spec.target_ref.as_ref()?;
    let (kind, name) = (target.kind.clone(), target.name.clone());
    Some(Workload { namespace: autoscaler.namespace().to_owned(), kind, name })
}

/// Whether an autoscaler targets a workload.
pub fn is_target(autoscaler: &VerticalPodAutoscaler, workload: &Workload) -> bool {
    target_of(autoscaler).is_some_and(|target| target == *workload)
}

/// The workload of a pod: the topmost of its controllers that Kubernetes itself brings, or the one above it if an autoscaler
/// targets that. `controllers` are the pod's controller, the controller of that one, and so on.
pub fn workload_of(
    namespace: &str,
    controllers: &[Owner],
    is_targeted: impl Fn(&Workload) -> bool,
) -> Option<Workload> {
    let workload = |owner: &Owner| Workload {
        namespace: namespace.to_owned(),
        kind: owner.kind.clone(),
        name: owner.name.clone(),
    };
    let is_well_known = |owner: &Owner| WELL_KNOWN_CONTROLLERS.contains(&owner.kind.as_str());
    let custom = controllers.iter().rev().filter(|owner| !is_well_known(owner)).map(workload);
    let mut targeted = custom.filter(is_targeted);
    targeted.next().or_else(|| controllers.iter().rev().find(|owner| is_well_known(owner)).map(workload))
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
    fn a_workload_is_the_topmost_controller_that_is_known_or_targeted() {
        let owner = |kind: &str, name: &str| Owner { kind: kind.into(), name: name.into() };
        let of = |controllers: &[Owner], targeted: &str| {
            let workload = workload_of("shop", controllers, |workload| workload.kind == targeted);
            workload.map(|workload| format!("{}/{}", workload.kind, workload.name))
        };
        let deployment = [owner("ReplicaSet", "web-1"), owner("Deployment", "web")];
        assert_eq!(of(&deployment, "").as_deref(), Some("Deployment/web"));
        let cron_job = [owner("Job", "report-1"), owner("CronJob", "report")];
        assert_eq!(of(&cron_job, "").as_deref(), Some("CronJob/report"));
        let rollout = [owner("ReplicaSet", "web-1"), owner("Rollout", "web")];
        assert_eq!(of(&rollout, "Rollout").as_deref(), Some("Rollout/web"));
        assert_eq!(of(&rollout, "").as_deref(), Some("ReplicaSet/web-1"), "nobody targets the Rollout");
        assert_eq!(of(&[owner("Runner", "r")], ""), None);
        assert_eq!(of(&[], ""), None);
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
