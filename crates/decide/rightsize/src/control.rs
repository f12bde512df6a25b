//! Which autoscaler controls a pod.

use std::borrow::Cow;

use jiff::Timestamp;
use pillion_api::names;
use pillion_api::vpa::{ConditionType, Gates, UpdateMode, VerticalPodAutoscaler};

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

/// The SidecarSet that an autoscaler targets.
pub fn targeted_set(autoscaler: &VerticalPodAutoscaler) -> Option<&str> {
    let target = autoscaler.spec.target_ref.as_ref()?;
    let group = target.api_version.as_deref().and_then(|version| version.split('/').next()).unwrap_or(names::GROUP);
    (target.kind == names::SIDECARSET_KIND && group == names::GROUP).then_some(target.name.as_str())
}

/// What stands for all pods that a SidecarSet is injected into, in `home`, the manager's namespace.
pub fn workload_of_set(home: &str, set: &str) -> Workload {
    Workload { namespace: home.to_owned(), kind: names::SIDECARSET_KIND.to_owned(), name: set.to_owned() }
}

/// Why an autoscaler may not target a SidecarSet. It reaches pods of every namespace, so that only those may write one who may write in
/// `home`, the manager's namespace.
pub fn refuse_set_target(autoscaler: &VerticalPodAutoscaler, home: &str, gates: Gates) -> Option<String> {
    let set = targeted_set(autoscaler)?;
    if !gates.sidecar_set_target {
        return Some(format!("the target is SidecarSet {set}, which needs the feature gate SidecarSetTarget"));
    }
    (autoscaler.namespace() != home).then(|| {
        format!("the target is SidecarSet {set}, which reaches every namespace: such an autoscaler must be in namespace {home}")
    })
}

/// The SidecarSet whose sidecars an autoscaler sizes, in all pods that they are injected into.
pub fn sized_set<'a>(autoscaler: &'a VerticalPodAutoscaler, home: &str, gates: Gates) -> Option<&'a str> {
    targeted_set(autoscaler).filter(|_| refuse_set_target(autoscaler, home, gates).is_none())
}

/// The same autoscaler without what it recommends for some containers: an autoscaler of their SidecarSet wins.
pub fn without_containers(
    autoscaler: &VerticalPodAutoscaler,
    is_left_out: impl Fn(&str) -> bool,
) -> Cow<'_, VerticalPodAutoscaler> {
    let recommended = autoscaler.status.recommendation.iter().flat_map(|it| &it.container_recommendations);
    if !recommended.into_iter().any(|it| is_left_out(&it.container_name)) {
        return Cow::Borrowed(autoscaler);
    }
    let mut rest = autoscaler.clone();
    if let Some(recommendation) = &mut rest.status.recommendation {
        recommendation.container_recommendations.retain(|it| !is_left_out(&it.container_name));
    }
    Cow::Owned(rest)
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

/// Whether an autoscaler targets a custom resource: not a controller that Kubernetes itself brings, nor a SidecarSet.
pub fn targets_custom_resource(autoscaler: &VerticalPodAutoscaler) -> bool {
    let target = autoscaler.spec.target_ref.as_ref();
    target.is_some_and(|target| !WELL_KNOWN_CONTROLLERS.contains(&target.kind.as_str()))
        && targeted_set(autoscaler).is_none()
}

/// What the conditions say of a configuration that cannot be served.
pub fn unsupported(autoscaler: &VerticalPodAutoscaler) -> Option<&str> {
    let mut conditions = autoscaler.status.conditions.iter();
    let found = conditions.find(|it| it.condition_type == ConditionType::ConfigUnsupported && it.status == "True");
    found.map(|condition| condition.message.as_str())
}

/// Whether an autoscaler changes no pod because the recommender has found that its custom resource cannot be served. What the condition
/// says of other targets may be a minute old: whether they exist is seen when a pod comes.
pub fn is_refused(autoscaler: &VerticalPodAutoscaler) -> bool {
    targets_custom_resource(autoscaler) && unsupported(autoscaler).is_some()
}

/// Whether anything is done to new pods: in mode Off only boosts are.
pub fn admits(autoscaler: &VerticalPodAutoscaler) -> bool {
    (*autoscaler.update_mode() != UpdateMode::Off || autoscaler.has_cpu_boost()) && !is_refused(autoscaler)
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
    fn a_sidecar_set_is_a_target_only_with_the_gate_and_only_in_the_namespace_of_the_manager() {
        let of = |version: &str| {
            let target = json!({"targetRef": {"apiVersion": version, "kind": "SidecarSet", "name": "mesh"}});
            autoscaler("v", "2026-01-01T00:00:00Z", target)
        };
        let it = of("apps.kruise.io/v1alpha1");
        let on = Gates { sidecar_set_target: true, ..Gates::NONE };
        assert_eq!(sized_set(&it, "shop", on), Some("mesh"));
        assert_eq!(sized_set(&of("apps.kruise.io/v1beta1"), "shop", on), Some("mesh"));
        assert_eq!((sized_set(&it, "shop", Gates::NONE), sized_set(&it, "pillion-system", on)), (None, None));
        assert_eq!(targeted_set(&of("example.com/v1")), None);
        assert!(refuse_set_target(&it, "shop", Gates::NONE).unwrap().contains("gate SidecarSetTarget"));
        assert!(refuse_set_target(&it, "pillion-system", on).unwrap().ends_with("must be in namespace pillion-system"));
        assert_eq!(refuse_set_target(&of("example.com/v1"), "x", on), None);
        assert!(is_target(&it, &workload_of_set("shop", "mesh")));
    }

    #[test]
    fn what_an_autoscaler_of_the_set_sizes_is_left_out() {
        let mut it = autoscaler("v", "2026-01-01T00:00:00Z", json!({}));
        it.status = serde_json::from_value(json!({"recommendation": {"containerRecommendations": [
            {"containerName": "app", "target": {}}, {"containerName": "mesh", "target": {}}
        ]}}))
        .unwrap();
        let names = |it: &VerticalPodAutoscaler| -> Vec<String> {
            let all = it.status.recommendation.iter().flat_map(|it| &it.container_recommendations);
            all.map(|it| it.container_name.clone()).collect()
        };
        assert_eq!(names(&without_containers(&it, |name| name == "mesh")), ["app"]);
        assert!(matches!(without_containers(&it, |name| name == "other"), Cow::Borrowed(_)));
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
    fn only_a_custom_resource_that_cannot_be_served_is_refused() {
        let of = |version: &str, kind: &str, status: &str| {
            let target = json!({"targetRef": {"apiVersion": version, "kind": kind, "name": "web"}});
            let mut it = autoscaler("v", "2026-01-01T00:00:00Z", target);
            let conditions = json!([{"type": "ConfigUnsupported", "status": status, "message": "no"}]);
            it.status = serde_json::from_value(json!({"conditions": conditions})).unwrap();
            (is_refused(&it), admits(&it))
        };
        assert_eq!(of("argoproj.io/v1alpha1", "Rollout", "True"), (true, false));
        assert_eq!(of("argoproj.io/v1alpha1", "Rollout", "False"), (false, true));
        assert_eq!(of("apps/v1", "Deployment", "True"), (false, true));
        assert_eq!(of("apps.kruise.io/v1beta1", "SidecarSet", "True"), (false, true));
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
