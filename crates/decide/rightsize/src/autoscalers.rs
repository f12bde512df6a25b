//! Which autoscaler sizes which container of a pod: the same rule for new pods and for running ones.

use std::collections::BTreeMap;
use std::sync::Arc;

use pillion_api::vpa::{Gates, VerticalPodAutoscaler};
use pillion_quantity::Quantity;

use crate::admission::recommended_targets;
use crate::control::{admits, controlling, is_target, targeted_set};
use crate::limit_range::LimitRanges;
use crate::pod::PodView;
use crate::usage::Workload;

/// The autoscalers that may control pods, and what else they are decided by.
#[derive(Clone, Debug, Default)]
pub struct Autoscalers {
    /// The autoscalers of workloads.
    pub list: Vec<Arc<VerticalPodAutoscaler>>,
    /// The autoscalers of SidecarSets, which reach every namespace.
    pub of_sets: Vec<Arc<VerticalPodAutoscaler>>,
    /// The LimitRanges, by namespace.
    pub ranges: BTreeMap<String, LimitRanges>,
    /// `--max-allowed-cpu-boost`.
    pub max_boost: Option<Quantity>,
}

impl Autoscalers {
    /// Returns the autoscaler that controls the pods of a workload. An autoscaler that does nothing to new pods does not count.
    pub fn controlling(&self, workload: &Workload) -> Option<&VerticalPodAutoscaler> {
        let autoscalers = self.list.iter().map(AsRef::as_ref);
        controlling(autoscalers.filter(|autoscaler| is_target(autoscaler, workload) && admits(autoscaler)))
    }

    /// Returns the autoscaler that controls the sidecars of a SidecarSet, by the same rule.
    pub fn of_set(&self, set: &str) -> Option<&VerticalPodAutoscaler> {
        let autoscalers = self.of_sets.iter().map(AsRef::as_ref);
        controlling(autoscalers.filter(|autoscaler| targeted_set(autoscaler) == Some(set) && admits(autoscaler)))
    }

    /// Returns the containers of a running pod whose resources come from an autoscaler. The autoscaler of a container is that of the
    /// SidecarSet that injected it, if the set has one, and that of the workload otherwise. A boosted container counts too, while its
    /// autoscaler can end the boost.
    pub fn sized(&self, pod: &PodView, workload: Option<&Workload>, gates: Gates) -> Vec<String> {
        let ranges = self.ranges.get(&pod.namespace).copied().unwrap_or_default();
        let with_targets = |autoscaler| (autoscaler, recommended_targets(autoscaler, pod, &ranges, gates));
        let with_own = pod.injected.iter().filter_map(|(set, names)| Some((names, self.of_set(set)?)));
        let of_sets: Vec<_> = with_own.map(|(names, it)| (names, with_targets(it))).collect();
        let of_workload = workload.and_then(|workload| self.controlling(workload)).map(with_targets);
        let is_boosted = |name: &str| gates.cpu_startup_boost && pod.boosted.iter().any(|(boosted, _)| boosted == name);
        let is_sized = |name: &String| {
            let of_set = of_sets.iter().find(|(names, _)| names.contains(name)).map(|(_, it)| it);
            of_set.or(of_workload.as_ref()).is_some_and(|(autoscaler, targets)| {
                targets.iter().any(|target| target.container == *name && !target.is_empty())
                    || (autoscaler.has_cpu_boost() && is_boosted(name))
            })
        };
        pod.sized(gates).map(|container| &container.name).filter(|name| is_sized(name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;

    const GATES: Gates = Gates { native_sidecar: true, sidecar_set_target: true, ..Gates::NONE };

    fn autoscaler(name: &str, kind: &str, spec: Value, recommended: &[&str]) -> Arc<VerticalPodAutoscaler> {
        let (version, target) = match kind {
            "SidecarSet" => ("apps.kruise.io/v1beta1", "mesh"),
            _ => ("apps/v1", "web"),
        };
        let recommended: Vec<Value> =
            recommended.iter().map(|name| json!({"containerName": name, "target": {"cpu": "250m"}})).collect();
        let mut it = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
            "metadata": {"name": name, "namespace": "shop", "creationTimestamp": format!("2026-01-0{}T00:00:00Z", name.len())},
            "spec": {"targetRef": {"apiVersion": version, "kind": kind, "name": target}},
            "status": {"recommendation": {"containerRecommendations": recommended}}
        });
        it["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        Arc::new(pillion_api::vpa::decode(it).unwrap())
    }

    fn of_workload(name: &str, spec: Value, recommended: &[&str]) -> Arc<VerticalPodAutoscaler> {
        autoscaler(name, "Deployment", spec, recommended)
    }

    fn of_set(name: &str, spec: Value, recommended: &[&str]) -> Arc<VerticalPodAutoscaler> {
        autoscaler(name, "SidecarSet", spec, recommended)
    }

    /// A pod of Deployment `web`, into which SidecarSet `mesh` injected `proxy`, and `logs` injected `log`.
    fn pod() -> PodView {
        let pod = json!({
            "metadata": {"namespace": "shop"},
            "spec": {
                "containers": [{"name": "app"}, {"name": "proxy"}, {"name": "log"}],
                "initContainers": [{"name": "native", "restartPolicy": "Always"}]
            }
        });
        let injected = vec![("mesh".to_owned(), vec!["proxy".to_owned()]), ("logs".to_owned(), vec!["log".to_owned()])];
        PodView { injected, ..PodView::new(&Pod::new(pod).unwrap()) }
    }

    fn sized(list: &[Arc<VerticalPodAutoscaler>], of_sets: &[Arc<VerticalPodAutoscaler>]) -> Vec<String> {
        let autoscalers = Autoscalers { list: list.to_vec(), of_sets: of_sets.to_vec(), ..Autoscalers::default() };
        autoscalers.sized(&pod(), Some(&web()), GATES)
    }

    fn web() -> Workload {
        Workload { namespace: "shop".into(), kind: "Deployment".into(), name: "web".into() }
    }

    fn off() -> Value {
        json!({"updatePolicy": {"updateMode": "Off"}})
    }

    #[test]
    fn only_the_oldest_autoscaler_that_admits_sizes_the_containers_of_a_workload() {
        let (old, new) = (of_workload("a", json!({}), &["app"]), of_workload("bb", json!({}), &["app", "proxy"]));
        assert_eq!(sized(&[Arc::clone(&new), Arc::clone(&old)], &[]), ["app"]);
        assert_eq!(sized(&[new, of_workload("a", off(), &["log"])], &[]), ["app", "proxy"]);
        let autoscalers = Autoscalers { list: vec![old], ..Autoscalers::default() };
        assert!(autoscalers.sized(&pod(), None, GATES).is_empty(), "the pod is of no workload that is targeted");
    }

    #[test]
    fn the_autoscaler_of_a_set_sizes_only_what_the_set_injected_and_wins_there() {
        let of_web = || of_workload("a", json!({}), &["app", "proxy", "log"]);
        let all = of_set("a", json!({}), &["app", "proxy", "log"]);
        assert_eq!(sized(&[], &[Arc::clone(&all)]), ["proxy"]);
        assert_eq!(sized(&[of_web()], &[all]), ["app", "proxy", "log"]);
        let nothing = || of_set("a", json!({}), &[]);
        assert_eq!(sized(&[of_web()], &[nothing()]), ["app", "log"], "it recommends nothing yet");
        assert_eq!(sized(&[of_web()], &[nothing(), of_set("bb", json!({}), &["proxy"])]), ["app", "log"], "the oldest");
        assert_eq!(sized(&[of_web()], &[of_set("a", off(), &[])]), ["app", "proxy", "log"], "it does not admit");
    }

    #[test]
    fn native_sidecars_need_their_gate_and_a_policy_can_leave_a_container_out() {
        let policy = json!({"resourcePolicy": {"containerPolicies": [{"containerName": "app", "mode": "Off"}]}});
        let it = || vec![of_workload("a", policy.clone(), &["app", "log", "native"])];
        assert_eq!(sized(&it(), &[]), ["log", "native"]);
        let autoscalers = Autoscalers { list: it(), ..Autoscalers::default() };
        assert_eq!(autoscalers.sized(&pod(), Some(&web()), Gates::NONE), ["log"]);
    }

    #[test]
    fn in_mode_off_only_a_boost_that_can_end_counts() {
        let boost =
            json!({"updatePolicy": {"updateMode": "Off"}, "startupBoost": {"cpu": {"type": "Factor", "factor": 2}}});
        let autoscalers =
            Autoscalers { list: vec![of_workload("a", boost, &["app", "proxy"])], ..Autoscalers::default() };
        let boosted = PodView { boosted: vec![("proxy".to_owned(), json!({}))], ..pod() };
        let boosting = Gates { cpu_startup_boost: true, ..GATES };
        let of = |pod: &PodView, workload: Option<&Workload>, gates| autoscalers.sized(pod, workload, gates);
        assert_eq!(of(&boosted, Some(&web()), boosting), ["proxy"]);
        assert!(of(&pod(), Some(&web()), boosting).is_empty());
        assert!(of(&boosted, Some(&web()), GATES).is_empty(), "without the gate the boost never ends");
        assert!(of(&boosted, None, boosting).is_empty(), "its autoscaler is gone");
    }
}
