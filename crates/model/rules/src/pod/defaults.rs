//! What the API server fills in when it decodes a pod or the template of one.

mod container;
mod image;
mod pod_level;
mod volume;

pub use self::container::apply_basic_container_defaults;
pub use self::volume::apply_basic_volume_defaults;
use pillion_quantity::{Quantity, Scale};
use serde_json::{Map, Value, json};

use super::read::{CONTAINER_LISTS, text};
use super::resources::quantity;

type Object = Map<String, Value>;

/// Annotations by which alpha and beta init containers were written. They are dropped wherever they are met.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.beta.kubernetes.io/init-containers",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-container-statuses",
];

/// Completes a pod: what its author left out gets the value that the API server gives it.
///
/// ```
/// let mut pod = serde_json::json!({"spec": {"containers": [{"name": "a", "image": "nginx", "resources": {"limits": {"cpu": "1"}}}]}});
/// pillion_rules::pod::apply_defaults(&mut pod);
/// assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "Always");
/// assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
/// ```
pub fn apply_defaults(pod: &mut Value) {
    drop_init_container_annotations(pod);
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        default_requests_of(spec);
        pod_level::apply(spec);
        default_pointer(spec, "enableServiceLinks", json!(true));
        if spec.get("hostNetwork") == Some(&Value::Bool(true)) {
            for field in ["containers", "initContainers"] {
                for_each(spec, field, container::default_host_ports);
            }
        }
        apply_spec_defaults(spec);
        // A negative time to end was once accepted, and means the shortest.
        if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|seconds| seconds < 0) {
            spec.insert("terminationGracePeriodSeconds".into(), json!(1));
        }
    }
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
        complete_status(status);
    }
}

/// Gives each container of a pod the requests that it leaves out and has limits for: the part of [`apply_defaults`] that a
/// [LimitRange](super::apply_limit_ranges) and admission see.
pub fn default_requests(pod: &mut Value) {
    if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
        default_requests_of(spec);
    }
}

fn default_requests_of(spec: &mut Object) {
    for field in ["containers", "initContainers"] {
        for_each(spec, field, container::default_requests);
    }
}

/// Completes the template of a workload. It differs from a pod: a limit does not become the request, and nothing is filled in that only a
/// pod shows, so that old templates do not change under a newer server.
pub fn apply_template_defaults(template: &mut Value) {
    drop_init_container_annotations(template);
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        apply_spec_defaults(spec);
    }
}

fn apply_spec_defaults(spec: &mut Object) {
    default_text(spec, "dnsPolicy", "ClusterFirst");
    default_text(spec, "restartPolicy", "Always");
    default_pointer(spec, "securityContext", json!({}));
    default_pointer(spec, "terminationGracePeriodSeconds", json!(30));
    default_text(spec, "schedulerName", "default-scheduler");
    for_each(spec, "volumes", volume::apply);
    for field in CONTAINER_LISTS {
        for_each(spec, field, container::apply);
    }
    round_up(spec.get_mut("overhead"));
    if let Some(resources) = spec.get_mut("resources") {
        round_requirements(resources);
    }
    mirror_service_account(spec);
}

/// The account has an old name and a new one; both are always shown.
fn mirror_service_account(spec: &mut Object) {
    let account = |field: &str| spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty());
    if let Some(name) = account("serviceAccountName").or(account("serviceAccount")).map(str::to_owned) {
        spec.insert("serviceAccountName".into(), Value::String(name.clone()));
        spec.insert("serviceAccount".into(), Value::String(name));
    } else {
        spec.shift_remove("serviceAccountName");
        spec.shift_remove("serviceAccount");
    }
}

fn drop_init_container_annotations(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    let before = annotations.len();
    annotations.retain(|key, _| !INIT_CONTAINER_ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() && before > 0 {
        metadata.shift_remove("annotations");
    }
}

fn complete_status(status: &mut Object) {
    for field in ["initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses"] {
        for_each(status, field, |container| {
            round_up(container.get_mut("allocatedResources"));
            if let Some(resources) = container.get_mut("resources") {
                round_requirements(resources);
            }
        });
    }
    // One address has an old field and a new one, and the old one decides.
    let address = status.get("podIP").and_then(Value::as_str).unwrap_or_default().to_owned();
    let first = status.get("podIPs").and_then(|ips| ips.get(0)).map(|ip| text(ip, "ip").to_owned());
    match first {
        Some(first) if address.is_empty() => {
            status.insert("podIP".into(), Value::String(first));
        }
        Some(first) if first == address => {}
        _ if !address.is_empty() => {
            status.insert("podIPs".into(), json!([{"ip": address}]));
        }
        _ => {}
    }
}

/// Resources are no finer than thousandths.
fn round_up(amounts: Option<&mut Value>) {
    for amount in amounts.and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
        *amount = Value::String(quantity(amount).round_up(Scale::Milli).to_string());
    }
}

fn round_requirements(requirements: &mut Value) {
    for which in ["limits", "requests"] {
        round_up(requirements.get_mut(which));
    }
}

/// A quantity as it is always shown.
fn canonical(value: &mut Value) {
    let amount: Quantity = quantity(value);
    *value = Value::String(amount.to_string());
}

fn for_each(object: &mut Object, field: &str, mut change: impl FnMut(&mut Object)) {
    let elements = object.get_mut(field).and_then(Value::as_array_mut);
    elements.into_iter().flatten().filter_map(Value::as_object_mut).for_each(&mut change);
}

fn part<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    object.get_mut(field).and_then(Value::as_object_mut)
}

/// Sets a field that is absent or the empty text. A value of another type stays, for validation to refuse.
fn default_text(object: &mut Object, field: &str, value: &str) {
    if object.get(field).is_none_or(|text| text.is_null() || text.as_str() == Some("")) {
        object.insert(field.into(), Value::String(value.into()));
    }
}

/// Sets a number that is absent or zero. A value of another type stays, for validation to refuse.
fn default_number(object: &mut Object, field: &str, value: i64) {
    if object.get(field).is_none_or(|number| number.is_null() || number.as_i64() == Some(0)) {
        object.insert(field.into(), json!(value));
    }
}

/// The object at a field, which is made if it is absent.
pub fn object_at<'a>(object: &'a mut Object, field: &str) -> Option<&'a mut Object> {
    default_pointer(object, field, json!({}));
    part(object, field)
}

/// Sets a field that is absent.
fn default_pointer(object: &mut Object, field: &str, value: Value) {
    if object.get(field).is_none_or(Value::is_null) {
        object.insert(field.into(), value);
    }
}
