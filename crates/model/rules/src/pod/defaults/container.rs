//! Defaults of containers of every kind.

use serde_json::{Value, json};

use super::{
    Object, canonical, default_number, default_pointer, default_text, for_each, image, object_at, part,
    round_requirements,
};

/// Completes one container, whatever list it is in.
pub(super) fn apply(container: &mut Object) {
    apply_basic_container_defaults(container);
    for_each(container, "env", apply_to_variable);
    if let Some(resources) = container.get_mut("resources") {
        round_requirements(resources);
    }
    if let Some(probe) = part(container, "startupProbe") {
        apply_to_probe(probe);
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(grpc) = part(container, field).and_then(|probe| part(probe, "grpc")) {
            default_pointer(grpc, "service", json!(""));
        }
    }
}

/// Fills in the defaults of a container that are as old as its fields: image, messages, ports, references to fields, liveness and readiness
/// probes, hooks. OpenKruise sets these and no others in a SidecarSet, whose containers are hashed with them.
///
/// The container need not have been decoded: a value of a wrong type stays as it is.
pub fn apply_basic_container_defaults(container: &mut Object) {
    let reference = container.get("image").and_then(Value::as_str).unwrap_or_default();
    let policy = image::pull_policy(reference);
    default_text(container, "imagePullPolicy", policy);
    default_text(container, "terminationMessagePath", "/dev/termination-log");
    default_text(container, "terminationMessagePolicy", "File");
    for_each(container, "ports", |port| default_text(port, "protocol", "TCP"));
    for_each(container, "env", |variable| {
        if let Some(reference) = part(variable, "valueFrom").and_then(|source| part(source, "fieldRef")) {
            default_text(reference, "apiVersion", "v1");
        }
    });
    for field in ["livenessProbe", "readinessProbe"] {
        if let Some(probe) = part(container, field) {
            apply_to_probe(probe);
        }
    }
    if let Some(lifecycle) = part(container, "lifecycle") {
        for hook in ["postStart", "preStop"] {
            if let Some(http) = part(lifecycle, hook).and_then(|handler| part(handler, "httpGet")) {
                apply_to_http_get(http);
            }
        }
    }
}

fn apply_to_variable(variable: &mut Object) {
    let Some(source) = part(variable, "valueFrom") else { return };
    if let Some(reference) = part(source, "fileKeyRef") {
        default_pointer(reference, "optional", json!(false));
    }
    if let Some(reference) = part(source, "resourceFieldRef") {
        canonical(reference.entry("divisor").or_insert(Value::Null));
    }
}

fn apply_to_probe(probe: &mut Object) {
    default_number(probe, "timeoutSeconds", 1);
    default_number(probe, "periodSeconds", 10);
    default_number(probe, "successThreshold", 1);
    default_number(probe, "failureThreshold", 3);
    if let Some(http) = part(probe, "httpGet") {
        apply_to_http_get(http);
    }
}

fn apply_to_http_get(http: &mut Object) {
    default_text(http, "path", "/");
    default_text(http, "scheme", "HTTP");
}

/// A limit is the request that is absent.
pub(super) fn default_requests(container: &mut Object) {
    let Some(resources) = part(container, "resources") else { return };
    let Some(limits) = resources.get("limits").and_then(Value::as_object).cloned() else { return };
    if limits.is_empty() {
        return;
    }
    let Some(requests) = object_at(resources, "requests") else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// On the host's network a container's port is the host's port.
pub(super) fn default_host_ports(container: &mut Object) {
    for_each(container, "ports", |port| {
        let number = port.get("containerPort").and_then(Value::as_i64).unwrap_or_default();
        if number != 0 {
            default_number(port, "hostPort", number);
        }
    });
}
