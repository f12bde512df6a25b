//! Which traffic reaches a Service, and which endpoints it may take.

use serde_json::Value;

use crate::field::{Error, Path};
use crate::format::port_number;
use crate::value::{has, int, is_empty, text};

/// Whether traffic comes from outside the cluster.
pub(super) fn is_external(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !is_empty(spec, "externalIPs"),
        _ => false,
    }
}

/// Whether the load balancer asks nodes for their health.
pub(super) fn needs_health_check(spec: &Value) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

pub(super) fn validate(spec: &Value, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    let external = text(spec, "externalTrafficPolicy");
    let policy_path = path.child("externalTrafficPolicy");
    match (is_external(spec), external) {
        (false, "") | (true, "Cluster" | "Local") => {}
        (false, _) => {
            let detail = "may only be set for externally-accessible services";
            errors.push(Error::invalid(&policy_path, external, detail));
        }
        (true, "") => errors.push(Error::required(&policy_path, "")),
        (true, _) => errors.push(Error::not_supported(&policy_path, external, &["Cluster", "Local"])),
    }
    validate_health_check(spec, &path.child("healthCheckNodePort"), errors);
    let internal_path = path.child("internalTrafficPolicy");
    match spec["internalTrafficPolicy"].as_str() {
        None if ["NodePort", "LoadBalancer", "ClusterIP"].contains(&text(spec, "type")) => {
            errors.push(Error::required(&internal_path, ""));
        }
        Some(policy) if !["Cluster", "Local"].contains(&policy) => {
            errors.push(Error::not_supported(&internal_path, policy, &["Cluster", "Local"]));
        }
        _ => {}
    }
    let supported = ["PreferClose", "PreferSameZone", "PreferSameNode"];
    if let Some(distribution) = spec["trafficDistribution"].as_str().filter(|value| !supported.contains(value)) {
        errors.push(Error::not_supported(&path.child("trafficDistribution"), distribution, &supported));
    }
}

fn validate_health_check(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let port = int(spec, "healthCheckNodePort");
    match (needs_health_check(spec), port) {
        (false, 0) => {}
        (false, _) => {
            let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.push(Error::invalid(path, port, detail));
        }
        (true, 0) => errors.push(Error::required(path, "")),
        (true, _) => {
            errors.extend(port_number(port).into_iter().map(|complaint| Error::invalid(path, port, complaint)));
        }
    }
}

pub(super) fn validate_update(spec: &Value, old: &Value, errors: &mut Vec<Error>) {
    let field = "healthCheckNodePort";
    if needs_health_check(spec) && needs_health_check(old) && has(old, field) && spec[field] != old[field] {
        errors.push(Error::forbidden(&Path::new("spec").child(field), "field is immutable"));
    }
}
