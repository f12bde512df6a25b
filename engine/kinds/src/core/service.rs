//! Services.
//!
//! Addresses and node ports are handed out before an object is prepared and checked: [`complete_addresses`] returns what is needed, and
//! the API server allocates it. Traffic settings that have no effect in an embedded cluster (load balancers, external traffic, a second
//! address) are stored without validation.

mod addresses;

use serde_json::{Value, json};

use crate::rules::{Rules, WITH_STATUS};
use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_label, dns_subdomain, port_name, port_number, qualified_name};
use pillion_rules::metadata::{self, dns1035_name};
use pillion_rules::selector::validate_labels;
use pillion_rules::value::{
    copy_fields, fill, fill_text, int, is_empty, items_mut, list, object_mut, remove, set, text,
};

pub use addresses::complete_addresses;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |service| set(service, "status", json!({"loadBalancer": {}})),
    validate,
    prepare_update,
    validate_update,
    validate_status: |new, old| {
        metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"))
    },
    warnings,
    selectable,
    create_on_update: true,
    ..WITH_STATUS
};

/// Whether traffic comes from outside the cluster.
fn is_external(spec: &Value) -> bool {
    match text(spec, "type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !is_empty(spec, "externalIPs"),
        _ => false,
    }
}

fn is_headless(spec: &Value) -> bool {
    text(spec, "type") == "ClusterIP" && text(spec, "clusterIP") == "None"
}

fn default(service: &mut Value) {
    let spec = object_mut(service, "spec");
    fill_text(spec, "sessionAffinity", "None");
    match text(spec, "sessionAffinity") {
        "None" => remove(spec, "sessionAffinityConfig"),
        "ClientIP" if spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null() => {
            set(spec, "sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        _ => {}
    }
    fill_text(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        fill_text(port, "protocol", "TCP");
        if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
            let number = port["port"].clone();
            set(port, "targetPort", number);
        }
    }
    if is_external(spec) {
        fill_text(spec, "externalTrafficPolicy", "Cluster");
    }
    match text(spec, "type") {
        "NodePort" | "LoadBalancer" | "ClusterIP" => fill(spec, "internalTrafficPolicy", "Cluster"),
        "ExternalName" => remove(spec, "internalTrafficPolicy"),
        _ => {}
    }
    if text(spec, "type") == "LoadBalancer" {
        fill(spec, "allocateLoadBalancerNodePorts", true);
        for ingress in items_mut(object_mut(object_mut(service, "status"), "loadBalancer"), "ingress") {
            if !text(ingress, "ip").is_empty() {
                fill(ingress, "ipMode", "VIP");
            }
        }
    }
}

/// What belonged to the old type and was not touched goes with it.
fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    let (old_spec, spec) = (&old["spec"], object_mut(new, "spec"));
    let (old_type, new_type) = (text(old_spec, "type").to_owned(), text(spec, "type").to_owned());
    let drop_if_same = |spec: &mut Value, fields: &[&str]| {
        if fields.iter().all(|field| spec[*field] == old_spec[*field]) {
            for field in fields {
                remove(spec, field);
            }
        }
    };
    if old_type != "ExternalName" && new_type == "ExternalName" {
        drop_if_same(spec, &["clusterIP", "clusterIPs"]);
        drop_if_same(spec, &["ipFamilies"]);
        drop_if_same(spec, &["ipFamilyPolicy"]);
    }
    let exposed = |kind: &str| ["NodePort", "LoadBalancer"].contains(&kind);
    let old_ports: Vec<i64> = list(old_spec, "ports").iter().map(|port| int(port, "nodePort")).collect();
    let kept = |port: &Value| int(port, "nodePort") == 0 || old_ports.contains(&int(port, "nodePort"));
    if exposed(&old_type) && !exposed(&new_type) && list(spec, "ports").iter().all(kept) {
        items_mut(spec, "ports").for_each(|port| remove(port, "nodePort"));
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        drop_if_same(spec, &["allocateLoadBalancerNodePorts"]);
        drop_if_same(spec, &["healthCheckNodePort"]);
    }
    if is_external(old_spec) && !is_external(spec) {
        drop_if_same(spec, &["externalTrafficPolicy"]);
    }
    if new_type != "LoadBalancer" {
        set(object_mut(new, "status"), "loadBalancer", json!({}));
    }
}

fn validate(service: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&service["metadata"], &Path::new("metadata"), true, dns1035_name);
    validate_service(service, &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    addresses::validate_update(&new["spec"], &old["spec"], &mut errors);
    validate_service(new, &mut errors);
    errors
}

fn validate_service(service: &Value, errors: &mut Vec<Error>) {
    let (spec, path) = (&service["spec"], Path::new("spec"));
    let headless = is_headless(spec);
    let ports = list(spec, "ports");
    if ports.is_empty() && !headless && text(spec, "type") != "ExternalName" {
        errors.push(Error::required(&path.child("ports"), ""));
    }
    if text(spec, "type") == "ExternalName" {
        validate_external_name(spec, &path, errors);
    }
    for (i, port) in ports.iter().enumerate() {
        let taken = |name: &str| ports.iter().take(i).any(|earlier| text(earlier, "name") == name);
        validate_port(port, ports.len() > 1, taken, &path.child("ports").index(i), errors);
    }
    validate_labels(&spec["selector"], &path.child("selector"), errors);
    validate_affinity(spec, &path, errors);
    addresses::validate(spec, errors);
    validate_type(spec, &path, errors);
    validate_unique_ports(ports, &path.child("ports"), errors);
}

fn validate_external_name(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    for field in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !is_empty(spec, field) {
            errors.push(Error::forbidden(&path.child(field), "may not be set for ExternalName services"));
        }
    }
    let name = text(spec, "externalName");
    match name.strip_suffix('.').unwrap_or(name) {
        "" => errors.push(Error::required(&path.child("externalName"), "")),
        name => check(dns_subdomain(name), name, &path.child("externalName"), errors),
    }
}

fn validate_port(
    port: &Value,
    name_required: bool,
    taken: impl Fn(&str) -> bool,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let name = text(port, "name");
    if !name.is_empty() {
        check(dns_label(name), name, &path.child("name"), errors);
        if taken(name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
    } else if name_required {
        errors.push(Error::required(&path.child("name"), ""));
    }
    let number = |number: i64, field: &str| {
        let path = path.child(field);
        port_number(number).into_iter().map(move |complaint| Error::invalid(&path, number, complaint))
    };
    errors.extend(number(int(port, "port"), "port"));
    match text(port, "protocol") {
        "" => errors.push(Error::required(&path.child("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            errors.push(Error::not_supported(&path.child("protocol"), other, &PROTOCOLS));
        }
        _ => {}
    }
    match &port["targetPort"] {
        Value::String(name) => check(port_name(name), name, &path.child("targetPort"), errors),
        target => errors.extend(number(target.as_i64().unwrap_or_default(), "targetPort")),
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        check(qualified_name(protocol), protocol, &path.child("appProtocol"), errors);
    }
}

fn validate_affinity(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    match text(spec, "sessionAffinity") {
        "" | "ClientIP" | "None" => {}
        other => errors.push(Error::not_supported(&path.child("sessionAffinity"), other, &["ClientIP", "None"])),
    }
}

fn validate_type(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let kind = text(spec, "type");
    if kind.is_empty() {
        errors.push(Error::required(&path.child("type"), ""));
    } else if !TYPES.contains(&kind) {
        errors.push(Error::not_supported(&path.child("type"), kind, &TYPES));
    }
    if kind == "ClusterIP" {
        for (i, port) in list(spec, "ports").iter().enumerate() {
            if int(port, "nodePort") != 0 {
                let path = path.child("ports").index(i).child("nodePort");
                errors.push(Error::forbidden(&path, "may not be used when `type` is 'ClusterIP'"));
            }
        }
    }
}

fn validate_unique_ports(ports: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let repeated = |i: usize, field: &str| {
        let key = |port: &Value| (text(port, "protocol").to_owned(), int(port, field));
        let port = ports.get(i).map(key);
        ports.iter().take(i).any(|earlier| Some(key(earlier)) == port)
    };
    for (i, port) in ports.iter().enumerate() {
        let number = int(port, "nodePort");
        if number != 0 && repeated(i, "nodePort") {
            errors.push(Error::duplicate(&path.index(i).child("nodePort"), number));
        }
    }
    for (i, port) in ports.iter().enumerate() {
        if repeated(i, "port") {
            // The key of the comparison, with the names of its fields in Go.
            let shown = json!({
                "Name": "", "Protocol": text(port, "protocol"), "AppProtocol": null, "Port": int(port, "port"),
                "TargetPort": 0, "NodePort": 0,
            });
            errors.push(Error::duplicate(&path.index(i), shown));
        }
    }
}

fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    let spec = &service["spec"];
    if text(spec, "type") != "ExternalName" && !text(spec, "externalName").is_empty() {
        return vec!["spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned()];
    }
    Vec::new()
}

fn selectable(service: &Value, field: &str) -> Option<String> {
    let field = field.strip_prefix("spec.")?;
    ["clusterIP", "type"].contains(&field).then(|| text(&service["spec"], field).to_owned())
}
