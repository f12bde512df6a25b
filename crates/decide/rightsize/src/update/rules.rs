//! What the API server asks of a new pod, beyond its form: LimitRanges and `ResourceQuotas` of the namespace.

use pillion_api::vpa::ResourceList;
use pillion_quantity::Quantity;
use pillion_rules::pod::{aggregate, apply_limit_ranges, default_requests, validate_limit_ranges};
use serde_json::{Map, Value, json};

use crate::amount::RESOURCES;
use crate::pod::{Amounts, ContainerKind, PodView, SpecResources};
use crate::target::ContainerTarget;

/// The rules of a namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    ranges: Vec<Value>,
    quotas: Vec<Quota>,
}

/// A `ResourceQuota` that counts every pod.
#[derive(Clone, Debug, PartialEq)]
struct Quota {
    name: String,
    /// Resource, the most of it, and how much is used.
    counted: Vec<(String, Quantity, Quantity)>,
}

impl Rules {
    /// The rules that the LimitRange and `ResourceQuota` objects of a namespace make. Only CPU and memory are looked at, and of quotas only those
    /// without a scope: nothing else changes when a pod is sized.
    pub fn new<'a>(ranges: impl IntoIterator<Item = &'a Value>, quotas: impl IntoIterator<Item = &'a Value>) -> Rules {
        Rules {
            ranges: ranges.into_iter().map(sized_only).collect(),
            quotas: quotas.into_iter().filter_map(quota).collect(),
        }
    }

    /// Also asks of new pods what the `ResourceQuotas` said at an earlier time, before the pods were evicted that `planned` counts.
    ///
    /// What is used changes for a while after an eviction: the evicted pod counts until it is gone, and its successor only once it is
    /// created. A reading in between can be too low, and one from before knows nothing of other pods that have come since. A successor has to
    /// fit by both.
    #[must_use]
    pub fn with_earlier<'a>(mut self, quotas: impl IntoIterator<Item = &'a Value>, planned: &Planned) -> Rules {
        let after = |mut quota: Quota| {
            for (name, _, used) in &mut quota.counted {
                *used = Quantity::from_nanos(used.nanos() + planned.get(name), used.format());
            }
            quota
        };
        self.quotas.extend(quotas.into_iter().filter_map(quota).map(after));
        self
    }

    /// What the API server would say of a pod in the place of `pod` with these resources. `None` if it accepts the pod.
    ///
    /// `planned` is what the successors of other pods that were evicted in this pass request more, and their limits.
    pub(super) fn refusal(&self, pod: &PodView, targets: &[ContainerTarget], planned: &Planned) -> Option<String> {
        let ranges: Vec<&Value> = self.ranges.iter().collect();
        let mut successor = as_object(pod, targets);
        apply_limit_ranges(&mut successor, &ranges);
        default_requests(&mut successor);
        let broken = impossible(&successor);
        let broken = if broken.is_empty() { validate_limit_ranges(&successor, &ranges) } else { broken };
        if !broken.is_empty() {
            return Some(broken.join("; "));
        }
        let more = Planned::of(pod, targets);
        self.quotas.iter().find_map(|quota| quota.refusal(&successor, |name| planned.get(name) + more.get(name)))
    }
}

/// What successors request more than the pods before them, in billionths; less where it is negative.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Planned {
    requests: [i128; 2],
    limits: [i128; 2],
}

impl Planned {
    /// What the successor of a pod requests more.
    pub fn of(pod: &PodView, targets: &[ContainerTarget]) -> Planned {
        let (before, after) = (as_object(pod, &[]), as_object(pod, targets));
        let more = |which: &str| {
            let (before, after) = (aggregate(&before["spec"], which), aggregate(&after["spec"], which));
            let amount = |list: &std::collections::BTreeMap<String, Quantity>, name: &str| {
                list.get(name).map_or(0, |it| it.nanos())
            };
            RESOURCES.map(|resource| amount(&after, resource.name()) - amount(&before, resource.name()))
        };
        Planned { requests: more("requests"), limits: more("limits") }
    }

    /// Adds what the successors of other pods request more, or with the sign -1 takes it away.
    pub fn add(&mut self, other: &Planned, sign: i128) {
        for (sum, more) in self.requests.iter_mut().zip(other.requests).chain(self.limits.iter_mut().zip(other.limits))
        {
            *sum += sign * more;
        }
    }

    /// Of a resource as quotas name it.
    fn get(&self, name: &str) -> i128 {
        let (of, name) = match name.strip_prefix("limits.") {
            Some(name) => (&self.limits, name),
            None => (&self.requests, name.strip_prefix("requests.").unwrap_or(name)),
        };
        RESOURCES.iter().zip(of).find(|(resource, _)| resource.name() == name).map_or(0, |(_, more)| *more)
    }
}

impl Quota {
    fn refusal(&self, pod: &Value, more: impl Fn(&str) -> i128) -> Option<String> {
        self.counted.iter().find_map(|(name, hard, used)| {
            if let Some(container) = missing(pod, name) {
                return Some(format!("ResourceQuota {:?}: must specify {name} for container {container:?}", self.name));
            }
            let after = used.nanos() + more(name);
            let is_exceeded = after > hard.nanos();
            is_exceeded.then(|| {
                let after = Quantity::from_nanos(after, hard.format());
                format!("ResourceQuota {:?} would be exceeded: {name} {after} of {hard}", self.name)
            })
        })
    }
}

/// The first container that does not say how much it takes of a resource that a quota counts.
fn missing(pod: &Value, name: &str) -> Option<String> {
    let (which, resource) = match name.strip_prefix("limits.") {
        Some(resource) => ("limits", resource),
        None => ("requests", name.strip_prefix("requests.").unwrap_or(name)),
    };
    if !RESOURCES.iter().any(|known| known.name() == resource) {
        return None;
    }
    let container = containers(pod).find(|container| container["resources"][which][resource].is_null())?;
    container["name"].as_str().map(str::to_owned)
}

fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    ["containers", "initContainers"].into_iter().flat_map(|list| pod["spec"][list].as_array().into_iter().flatten())
}

/// What no pod may have: negative amounts, and requests above their limits.
fn impossible(pod: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for container in containers(pod) {
        let name = &container["name"];
        let (requests, limits) =
            (Amounts::of(&container["resources"]["requests"]), Amounts::of(&container["resources"]["limits"]));
        for resource in RESOURCES {
            let (request, limit) = (requests.get(resource), limits.get(resource));
            for (which, amount) in [("request", request), ("limit", limit)] {
                let negative = amount.filter(|amount| amount.is_negative());
                found.extend(negative.map(|amount| {
                    format!("the {resource} {which} of container {name} would be {amount}, which is negative")
                }));
            }
            if let (Some(request), Some(limit)) = (request, limit)
                && request > limit
            {
                found.push(format!(
                    "container {name} would request {request} of {resource}, which is above its limit {limit}"
                ));
            }
        }
    }
    found
}

/// A pod with these resources, as far as it is known.
fn as_object(pod: &PodView, targets: &[ContainerTarget]) -> Value {
    let (mut regular, mut initial) = (Vec::new(), Vec::new());
    for container in pod.containers.iter() {
        let target = targets.iter().find(|target| target.container == container.name);
        let mut spec = container.spec;
        if let Some(target) = target {
            spec.requests = Some(over(spec.requests, target.requests));
            spec.limits = Some(over(spec.limits, target.limits));
        }
        let mut object = json!({"name": container.name, "resources": resources(spec)});
        if container.kind == ContainerKind::Regular {
            regular.push(object);
        } else {
            object["restartPolicy"] = "Always".into();
            initial.push((container.index, object));
        }
    }
    for container in &pod.init {
        let name = format!("init container {}", container.index);
        initial.push((container.index, json!({"name": name, "resources": resources(container.spec)})));
    }
    initial.sort_by_key(|(index, _)| *index);
    let initial: Vec<Value> = initial.into_iter().map(|(_, object)| object).collect();
    json!({"metadata": {}, "spec": {"containers": regular, "initContainers": initial}})
}

fn over(current: Option<Amounts>, target: Amounts) -> Amounts {
    let current = current.unwrap_or_default();
    Amounts { cpu: target.cpu.or(current.cpu), memory: target.memory.or(current.memory) }
}

fn resources(spec: SpecResources) -> Value {
    let list = |amounts: Option<Amounts>| ResourceList::from(amounts.unwrap_or_default());
    json!({"requests": list(spec.requests), "limits": list(spec.limits)})
}

/// A LimitRange without what is not sized.
fn sized_only(range: &Value) -> Value {
    let is_sized = |name: &str| RESOURCES.iter().any(|resource| resource.name() == name);
    let items = range["spec"]["limits"].as_array().into_iter().flatten().map(|item| {
        let mut kept = Map::new();
        kept.insert("type".to_owned(), item["type"].clone());
        for field in ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"] {
            let amounts = item[field].as_object().into_iter().flatten().filter(|(name, _)| is_sized(name));
            let amounts: Map<String, Value> = amounts.map(|(name, amount)| (name.clone(), amount.clone())).collect();
            kept.insert(field.to_owned(), amounts.into());
        }
        Value::Object(kept)
    });
    json!({"spec": {"limits": items.collect::<Vec<_>>()}})
}

/// `None` if it counts some pods only: which, is not known here.
fn quota(object: &Value) -> Option<Quota> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has_scope =
        spec["scopes"].as_array().is_some_and(|scopes| !scopes.is_empty()) || spec["scopeSelector"].is_object();
    if has_scope {
        return None;
    }
    let amount = |value: &Value| serde_json::from_value::<Quantity>(value.clone()).ok();
    let counted = status["hard"].as_object()?.iter().filter_map(|(name, hard)| {
        let is_of_pods = matches!(
            name.as_str(),
            "pods"
                | "count/pods"
                | "cpu"
                | "memory"
                | "requests.cpu"
                | "requests.memory"
                | "limits.cpu"
                | "limits.memory"
        );
        let used = amount(&status["used"][name]).unwrap_or(Quantity::ZERO);
        is_of_pods.then_some((name.clone(), amount(hard)?, used))
    });
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    Some(Quota { name, counted: counted.collect() })
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;

    use super::*;

    fn pod(spec: Value) -> PodView {
        PodView::new(&Pod::new(json!({"spec": spec})).unwrap())
    }

    fn app() -> PodView {
        let amounts = json!({"cpu": "100m", "memory": "100Mi"});
        pod(json!({"containers": [{"name": "app", "resources": {"requests": amounts, "limits": amounts}}]}))
    }

    fn target(cpu: &str, limit: &str) -> Vec<ContainerTarget> {
        let list = |cpu: &str| Amounts::of(&json!({"cpu": cpu}));
        vec![ContainerTarget {
            container: "app".to_owned(),
            requests: list(cpu),
            limits: list(limit),
            notes: Vec::new(),
        }]
    }

    fn refusal(ranges: &[Value], quotas: &[Value], pod: &PodView, targets: &[ContainerTarget]) -> String {
        Rules::new(ranges, quotas).refusal(pod, targets, &Planned::default()).unwrap_or_default()
    }

    #[test]
    fn impossible_amounts_are_refused_without_any_rule() {
        assert_eq!(refusal(&[], &[], &app(), &target("1", "1")), "");
        assert_eq!(
            refusal(&[], &[], &app(), &target("-1", "1")),
            "the cpu request of container \"app\" would be -1, which is negative"
        );
        assert_eq!(
            refusal(&[], &[], &app(), &target("2", "1")),
            "container \"app\" would request 2 of cpu, which is above its limit 1"
        );
    }

    #[test]
    fn limit_ranges_count_every_container_and_only_what_is_sized() {
        let range = |item: Value| json!({"spec": {"limits": [item]}});
        let of_pod = range(json!({"type": "Pod", "max": {"cpu": "1", "ephemeral-storage": "1Gi"}}));
        assert_eq!(refusal(std::slice::from_ref(&of_pod), &[], &app(), &target("1", "1")), "");
        let one = json!({"requests": {"cpu": "1"}, "limits": {"cpu": "1"}});
        let beside =
            |init: Value| pod(json!({"containers": [{"name": "app", "resources": one}], "initContainers": init}));
        let sidecar = beside(json!([{"name": "mesh", "restartPolicy": "Always", "resources": one}]));
        assert_eq!(
            refusal(std::slice::from_ref(&of_pod), &[], &sidecar, &target("500m", "500m")),
            "maximum cpu usage per Pod is 1, but limit is 1500m"
        );
        let init = beside(json!([{"name": "setup", "resources": {"limits": {"cpu": "2"}}}]));
        assert_eq!(
            refusal(&[of_pod], &[], &init, &target("500m", "500m")),
            "maximum cpu usage per Pod is 1, but limit is 2"
        );
        let ratio = range(json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}}));
        assert!(refusal(&[ratio], &[], &app(), &target("1", "3")).contains("provided ratio is 3"));
    }

    #[test]
    fn quotas_count_the_difference_to_the_pod_before() {
        let quota =
            |hard: Value, used: Value| json!({"metadata": {"name": "team"}, "status": {"hard": hard, "used": used}});
        let cpu = |hard: &str| quota(json!({"requests.cpu": hard}), json!({"requests.cpu": "2"}));
        let of = |quota: Value, cpu: &str| refusal(&[], &[quota], &app(), &target(cpu, "4"));
        assert_eq!(of(cpu("2500m"), "600m"), "");
        assert_eq!(of(cpu("2500m"), "700m"), "ResourceQuota \"team\" would be exceeded: requests.cpu 2600m of 2500m");
        assert_eq!(of(cpu("1900m"), "10m"), "ResourceQuota \"team\" would be exceeded: requests.cpu 1910m of 1900m");
        let limits = quota(json!({"limits.cpu": "4"}), json!({"limits.cpu": "1"}));
        assert!(of(limits, "1").contains("limits.cpu 4900m of 4"));
        let mut scoped = cpu("0");
        scoped["spec"] = json!({"scopes": ["Terminating"]});
        assert_eq!(of(scoped, "1"), "", "which pods it counts is not known");
        assert_eq!(
            of(json!({"spec": {"hard": {"requests.cpu": "0"}}}), "1"),
            "",
            "nothing is enforced before its first status"
        );

        let bare = pod(json!({"containers": [{"name": "app"}, {"name": "log"}]}));
        let unspecified = refusal(&[], &[cpu("9")], &bare, &target("1", "1"));
        assert_eq!(unspecified, "ResourceQuota \"team\": must specify requests.cpu for container \"log\"");
        let mut planned = Planned::of(&app(), &target("500m", "4"));
        let rules = Rules::new(&[], &[cpu("2500m")]);
        assert!(rules.refusal(&app(), &target("500m", "4"), &planned).is_some(), "another was evicted in this pass");
        planned.add(&Planned::of(&app(), &target("500m", "4")), -1);
        assert_eq!(rules.refusal(&app(), &target("500m", "4"), &planned), None);
    }

    #[test]
    fn a_successor_has_to_fit_by_what_quotas_say_now_and_by_what_they_said_before_other_evictions() {
        let quota = |used: &str| json!({"status": {"hard": {"requests.cpu": "1800m"}, "used": {"requests.cpu": used}}});
        let planned = Planned::of(&app(), &target("300m", "4"));
        for (before, now, fits) in [
            ("1600m", "1600m", false),
            // The evicted pod is gone, and its successor is not there yet.
            ("1600m", "1500m", false),
            ("1400m", "1800m", false),
            ("1400m", "1600m", true),
        ] {
            let rules = Rules::new([], [&quota(now)]).with_earlier([&quota(before)], &planned);
            let refusal = rules.refusal(&app(), &target("300m", "4"), &Planned::default());
            assert_eq!(refusal.is_none(), fits, "{before} {now}: {refusal:?}");
        }
    }
}
