//! The admission plugin `LimitRanger`: limits of a namespace become defaults and bounds of its pods.
//!
//! It sets defaults when a pod is created (first of the plugins that change pods), and checks bounds when a pod is created or resized.

use pillion_quantity::Quantity;
use serde_json::{Value, json};

use super::defaults::object_at;
use super::read::{list, text};
use super::resources::{ResourceList, aggregate, amounts};

/// The annotation that says what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Quantities above this many units cannot be counted in thousandths.
const MOST_IN_THOUSANDTHS: i128 = (i64::MAX / 1000) as i128;

/// Fills in the resources that the containers of a new pod leave out, and says so in an annotation.
///
/// ```
/// let mut pod = serde_json::json!({"metadata": {}, "spec": {"containers": [{"name": "a", "resources": {}}]}});
/// let range = serde_json::json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}});
/// pillion_rules::pod::apply_limit_ranges(&mut pod, &[&range]);
/// assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
/// assert_eq!(
///     pod["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
///     "LimitRanger plugin set: cpu request for container a; cpu limit for container a"
/// );
/// ```
pub fn apply_limit_ranges(pod: &mut Value, ranges: &[&Value]) {
    for range in ranges {
        let notes = apply_limit_range(pod, range);
        if !notes.is_empty() {
            annotate(pod, format!("LimitRanger plugin set: {}", notes.join("; ")));
        }
    }
}

/// Fills in the resources that the containers of a new pod leave out, and returns what was set: `cpu request for container a`.
pub fn apply_limit_range(pod: &mut Value, range: &Value) -> Vec<String> {
    let (limits, requests) = defaults(range);
    let mut notes = Vec::new();
    for (field, what) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.pointer_mut(&format!("/spec/{field}")).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = format!("{what} {}", text(container, "name"));
            let set_limits = fill(container, "limits", &limits);
            let set_requests = fill(container, "requests", &requests);
            for (which, set) in [("request", set_requests), ("limit", set_limits)] {
                if !set.is_empty() {
                    notes.push(format!("{} {which} for {name}", set.join(", ")));
                }
            }
        }
    }
    notes
}

/// What one LimitRange gives containers. A bound is a default where there is none, and a limit is the request: ranges are stored completed
/// like that, and completing one again changes nothing.
fn defaults(range: &Value) -> (ResourceList, ResourceList) {
    let (mut limits, mut requests) = (ResourceList::new(), ResourceList::new());
    for item in list(&range["spec"], "limits").iter().filter(|item| item["type"] == "Container") {
        let mut own_limits = amounts(item, "default");
        let mut own_requests = amounts(item, "defaultRequest");
        add_missing(&mut own_limits, amounts(item, "max"));
        add_missing(&mut own_requests, own_limits.clone());
        add_missing(&mut own_requests, amounts(item, "min"));
        limits.extend(own_limits);
        requests.extend(own_requests);
    }
    (limits, requests)
}

fn add_missing(amounts: &mut ResourceList, more: ResourceList) {
    for (name, amount) in more {
        amounts.entry(name).or_insert(amount);
    }
}

/// Adds what is missing, and returns the names of it in their order.
fn fill(container: &mut Value, which: &str, defaults: &ResourceList) -> Vec<String> {
    let Some(container) = container.as_object_mut().filter(|_| !defaults.is_empty()) else { return Vec::new() };
    let amounts = object_at(container, "resources").and_then(|resources| object_at(resources, which));
    let Some(amounts) = amounts else { return Vec::new() };
    let missing: Vec<String> = defaults.keys().filter(|name| !amounts.contains_key(*name)).cloned().collect();
    for (name, amount) in defaults {
        amounts.entry(name.clone()).or_insert_with(|| json!(amount.to_string()));
    }
    missing
}

fn annotate(pod: &mut Value, note: String) {
    let Some(metadata) = pod.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(ANNOTATION.to_owned(), Value::String(note));
    }
}

/// Checks a new or resized pod against the bounds, and returns what is wrong by the first LimitRange that is not kept.
pub fn validate_limit_ranges(pod: &Value, ranges: &[&Value]) -> Vec<String> {
    ranges.iter().map(|range| violations(&pod["spec"], range)).find(|found| !found.is_empty()).unwrap_or_default()
}

fn violations(spec: &Value, range: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for item in list(&range["spec"], "limits") {
        match text(item, "type") {
            "Container" => {
                for container in list(spec, "containers").iter().chain(list(spec, "initContainers")) {
                    let resources = &container["resources"];
                    check(&mut found, item, &amounts(resources, "requests"), &amounts(resources, "limits"));
                }
            }
            "Pod" => check(&mut found, item, &of_pod(spec, "requests"), &of_pod(spec, "limits")),
            _ => {}
        }
    }
    found
}

fn of_pod(spec: &Value, which: &str) -> ResourceList {
    let mut total = aggregate(spec, which);
    let own = amounts(&spec["resources"], which);
    total.extend(own.into_iter().filter(|(name, _)| matches!(name.as_str(), "cpu" | "memory")));
    total
}

/// One bound, and what is compared with it.
struct Bound<'a> {
    what: &'a str,
    resource: &'a str,
    amount: Quantity,
    request: Option<Quantity>,
    limit: Option<Quantity>,
}

fn check(found: &mut Vec<String>, item: &Value, requests: &ResourceList, limits: &ResourceList) {
    for (field, violation) in [
        ("min", below_minimum as fn(&Bound) -> Option<String>),
        ("max", above_maximum),
        ("maxLimitRequestRatio", above_ratio),
    ] {
        for (resource, bound) in amounts(item, field) {
            let (request, limit) = (requests.get(&resource).copied(), limits.get(&resource).copied());
            found.extend(violation(&Bound {
                what: text(item, "type"),
                resource: &resource,
                amount: bound,
                request,
                limit,
            }));
        }
    }
}

/// Request, limit and bound as numbers that can be compared: thousandths if all of them can be counted so.
fn comparable(bound: &Bound) -> (i128, i128, i128) {
    let all = [bound.request.unwrap_or(Quantity::ZERO), bound.limit.unwrap_or(Quantity::ZERO), bound.amount];
    let in_thousandths = all.iter().all(|amount| amount.value() <= MOST_IN_THOUSANDTHS);
    let [request, limit, bound] = all.map(|amount| if in_thousandths { amount.milli_value() } else { amount.value() });
    (request, limit, bound)
}

fn below_minimum(bound: &Bound) -> Option<String> {
    let (request, limit, least) = comparable(bound);
    let rule = format!("minimum {} usage per {} is {}", bound.resource, bound.what, bound.amount);
    match (bound.request, bound.limit) {
        (None, _) => Some(format!("{rule}.  No request is specified")),
        (Some(own), _) if request < least => Some(format!("{rule}, but request is {own}")),
        (_, Some(own)) if limit < least => Some(format!("{rule}, but limit is {own}")),
        _ => None,
    }
}

fn above_maximum(bound: &Bound) -> Option<String> {
    let (request, limit, most) = comparable(bound);
    let rule = format!("maximum {} usage per {} is {}", bound.resource, bound.what, bound.amount);
    match (bound.limit, bound.request) {
        (None, _) => Some(format!("{rule}.  No limit is specified")),
        (Some(own), _) if limit > most => Some(format!("{rule}, but limit is {own}")),
        (_, Some(own)) if request > most => Some(format!("{rule}, but request is {own}")),
        _ => None,
    }
}

fn above_ratio(bound: &Bound) -> Option<String> {
    let (request, limit, _) = comparable(bound);
    let rule = format!("{} max limit to request ratio per {} is {}", bound.resource, bound.what, bound.amount);
    if request == 0 {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    }
    if limit == 0 {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    }
    // Only what is shown is rounded; the comparison is exact.
    let exceeds = limit.saturating_mul(1000) > bound.amount.milli_value().saturating_mul(request);
    #[allow(clippy::cast_precision_loss, reason = "six digits of it are shown")]
    let ratio = limit as f64 / request as f64;
    exceeds.then(|| format!("{rule}, but provided ratio is {ratio:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "a", "resources": resources}], "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}}}]}})
    }

    fn range(item: Value) -> Value {
        json!({"spec": {"limits": [item]}})
    }

    #[test]
    fn a_range_fills_what_is_missing_and_says_so() {
        let mut it = pod(json!({"requests": {"cpu": "200m"}}));
        let range = range(
            json!({"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"memory": "1Gi"}, "min": {"memory": "1Mi"}}),
        );
        apply_limit_ranges(&mut it, &[&range]);
        assert_eq!(
            it["spec"]["containers"][0]["resources"],
            json!({"requests": {"cpu": "200m", "memory": "1Gi"}, "limits": {"cpu": "500m", "memory": "1Gi"}})
        );
        assert_eq!(
            it["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: memory request for container a; cpu, memory limit for container a; memory request for init container i; memory limit for init container i"
        );
    }

    /// Inputs of `TestPodLimitFunc` in kubernetes `plugin/pkg/admission/limitranger/admission_test.go`.
    #[test]
    fn bounds_are_said_in_the_words_of_the_plugin() {
        let both = |request: &str, limit: &str| json!({"requests": {"memory": request}, "limits": {"memory": limit}});
        for (item, resources, message) in [
            (
                json!({"min": {"cpu": "50m"}}),
                json!({}),
                "minimum cpu usage per Container is 50m.  No request is specified",
            ),
            (
                json!({"min": {"memory": "50Mi"}}),
                both("40Mi", "1Gi"),
                "minimum memory usage per Container is 50Mi, but request is 40Mi",
            ),
            (
                json!({"min": {"memory": "50Mi"}}),
                both("50Mi", "30Mi"),
                "minimum memory usage per Container is 50Mi, but limit is 30Mi",
            ),
            (
                json!({"max": {"memory": "1Gi"}}),
                json!({}),
                "maximum memory usage per Container is 1Gi.  No limit is specified",
            ),
            (
                json!({"max": {"memory": "1Gi"}}),
                both("1Gi", "2Gi"),
                "maximum memory usage per Container is 1Gi, but limit is 2Gi",
            ),
            (
                json!({"maxLimitRequestRatio": {"memory": "2"}}),
                json!({}),
                "memory max limit to request ratio per Container is 2, but no request is specified or request is 0",
            ),
            (
                json!({"maxLimitRequestRatio": {"memory": "1500m"}}),
                both("1Gi", "2Gi"),
                "memory max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
            ),
        ] {
            let mut item = item;
            item["type"] = json!("Container");
            let mut it = pod(resources);
            it["spec"].as_object_mut().unwrap().remove("initContainers");
            assert_eq!(validate_limit_ranges(&it, &[&range(item)]), [message]);
        }
        let of_pod = range(json!({"type": "Pod", "max": {"cpu": "500m"}}));
        assert_eq!(
            validate_limit_ranges(&pod(json!({})), &[&of_pod]),
            ["maximum cpu usage per Pod is 500m, but limit is 1"]
        );
        assert!(
            validate_limit_ranges(
                &pod(both("1Gi", "1Gi")),
                &[&range(json!({"type": "Container", "max": {"example": "1"}}))]
            )
            .len()
                == 2
        );
    }

    /// Answers of kube-apiserver 1.35 to these requests.
    #[test]
    fn all_that_is_wrong_is_said_at_once() {
        let range = json!({"spec": {"limits": [
            {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "2", "memory": "1Gi"}, "min": {"memory": "1Mi"}, "maxLimitRequestRatio": {"cpu": "3"}},
            {"type": "Pod", "max": {"cpu": "3"}}
        ]}});
        let answer = |resources: Value| {
            let mut it = pod(resources);
            it["spec"]["initContainers"] = json!([{"name": "i", "resources": {"limits": {"memory": "2Mi"}}}]);
            crate::pod::apply_defaults(&mut it);
            apply_limit_ranges(&mut it, &[&range]);
            validate_limit_ranges(&it, &[&range])
        };
        let of_init_container = "cpu max limit to request ratio per Container is 3, but provided ratio is 5.000000";
        assert_eq!(answer(json!({"limits": {"cpu": "1"}})), [of_init_container]);
        assert_eq!(
            answer(json!({"limits": {"cpu": "4"}, "requests": {"cpu": "1"}})),
            [
                "maximum cpu usage per Container is 2, but limit is 4",
                "cpu max limit to request ratio per Container is 3, but provided ratio is 4.000000",
                of_init_container,
                "maximum cpu usage per Pod is 3, but limit is 4",
            ]
        );
        assert_eq!(
            answer(json!({"requests": {"cpu": "200m", "memory": "1"}})),
            ["minimum memory usage per Container is 1Mi, but request is 1", of_init_container]
        );
    }
}
