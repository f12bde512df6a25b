//! Services.
//!
//! Addresses and node ports are handed out before an object is prepared and checked: [`complete_addresses`] says what is wanted, and
//! whoever keeps count fills it in.

mod addresses;
mod traffic;

use serde_json::{Value, json};

use super::endpoints::PROTOCOLS;
use crate::address;
use crate::field::{Error, Path};
use crate::format::{check, dns_label, dns_subdomain, port_name, port_number, qualified_name};
use crate::metadata::{self, dns1035_name};
use crate::rules::{Rules, WITH_STATUS};
use crate::selector::validate_labels;
use crate::value::{copy_fields, fill, fill_text, has, int, is_empty, items_mut, list, object_mut, remove, set, text};

pub use addresses::complete_addresses;

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";
const ONLY_LOAD_BALANCER: &str = "may only be used when `type` is 'LoadBalancer'";

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |service| set(service, "status", json!({"loadBalancer": {}})),
    validate,
    prepare_update,
    validate_update,
    validate_status,
    warnings,
    selectable,
    create_on_update: true,
    ..WITH_STATUS
};

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
    if traffic::is_external(spec) {
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
    if traffic::needs_health_check(old_spec) && !traffic::needs_health_check(spec) {
        drop_if_same(spec, &["healthCheckNodePort"]);
    }
    if old_type == "LoadBalancer" && new_type != "LoadBalancer" {
        drop_if_same(spec, &["allocateLoadBalancerNodePorts"]);
        drop_if_same(spec, &["loadBalancerClass"]);
    }
    if traffic::is_external(old_spec) && !traffic::is_external(spec) {
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
    let class = "loadBalancerClass";
    let both = [new, old].iter().all(|service| text(&service["spec"], "type") == "LoadBalancer");
    if both && new["spec"][class] != old["spec"][class] {
        let path = Path::new("spec").child(class);
        errors.push(Error::invalid(&path, new["spec"][class].clone(), "may not change once set"));
    }
    validate_load_balancer_class(&new["spec"], &mut errors);
    traffic::validate_update(&new["spec"], &old["spec"], &mut errors);
    validate_service(new, &mut errors);
    errors
}

fn validate_service(service: &Value, errors: &mut Vec<Error>) {
    let (annotations, spec, path) = (&service["metadata"]["annotations"], &service["spec"], Path::new("spec"));
    if let (Some(hints), Some(mode)) = (annotations[TOPOLOGY_HINTS].as_str(), annotations[TOPOLOGY_MODE].as_str())
        && hints != mode
    {
        let path = Path::new("metadata").child("annotations").key(TOPOLOGY_MODE);
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.push(Error::invalid(&path, mode, detail));
    }
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
    for (i, ip) in list(spec, "externalIPs").iter().filter_map(Value::as_str).enumerate() {
        let path = path.child("externalIPs").index(i);
        if address::validate(ip, &path, errors) {
            address::validate_endpoint(ip, &path, errors);
        }
    }
    validate_type(spec, &path, errors);
    validate_unique_ports(ports, &path.child("ports"), errors);
    validate_source_ranges(service, &path, errors);
    let allocate = "allocateLoadBalancerNodePorts";
    if has(spec, allocate) && text(spec, "type") != "LoadBalancer" {
        errors.push(Error::forbidden(&path.child(allocate), ONLY_LOAD_BALANCER));
    }
    validate_load_balancer_class(spec, errors);
    traffic::validate(spec, errors);
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
    let config = path.child("sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "" => errors.push(Error::required(&path.child("sessionAffinity"), "")),
        "None" if has(spec, "sessionAffinityConfig") => {
            errors.push(Error::forbidden(&config, "must not be set when session affinity is None"));
        }
        "None" => {}
        "ClientIP" => {
            const LIMIT: i64 = 86400;
            let timeout = int(&spec["sessionAffinityConfig"]["clientIP"], "timeoutSeconds");
            if !(1..=LIMIT).contains(&timeout) {
                let detail = format!("must be greater than 0 and less than {LIMIT}");
                errors.push(Error::invalid(&config.child("clientIP").child("timeoutSeconds"), timeout, detail));
            }
        }
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

fn validate_source_ranges(service: &Value, path: &Path, errors: &mut Vec<Error>) {
    let spec = &service["spec"];
    let ranges = list(spec, "loadBalancerSourceRanges");
    let balanced = text(spec, "type") == "LoadBalancer";
    if !ranges.is_empty() {
        let path = path.child("LoadBalancerSourceRanges");
        if !balanced {
            errors.push(Error::forbidden(&path, ONLY_LOAD_BALANCER));
        }
        for (i, range) in ranges.iter().filter_map(Value::as_str).enumerate() {
            address::validate_network(range.trim(), &path.index(i), errors);
        }
    } else if let Some(ranges) = service["metadata"]["annotations"][SOURCE_RANGES].as_str() {
        let path = Path::new("metadata").child("annotations").key(SOURCE_RANGES);
        if !balanced {
            errors.push(Error::forbidden(&path, ONLY_LOAD_BALANCER));
        }
        for range in ranges.trim().split(',').filter(|_| !ranges.trim().is_empty()) {
            address::validate_network(range.trim(), &path, errors);
        }
    }
}

fn validate_load_balancer_class(spec: &Value, errors: &mut Vec<Error>) {
    let Some(class) = spec["loadBalancerClass"].as_str() else { return };
    let path = Path::new("spec").child("loadBalancerClass");
    if text(spec, "type") == "LoadBalancer" {
        check(qualified_name(class), class, &path, errors);
    } else {
        errors.push(Error::forbidden(&path, ONLY_LOAD_BALANCER));
    }
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("status").child("loadBalancer").child("ingress");
    let ingress = list(&new["status"]["loadBalancer"], "ingress");
    if text(&new["spec"], "type") != "LoadBalancer" && !ingress.is_empty() {
        errors.push(Error::forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'"));
        return errors;
    }
    for (i, ingress) in ingress.iter().enumerate() {
        validate_ingress(ingress, &path.index(i), &mut errors);
    }
    errors
}

fn validate_ingress(ingress: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (ip, hostname) = (text(ingress, "ip"), text(ingress, "hostname"));
    if !ip.is_empty() {
        address::validate(ip, &path.child("ip"), errors);
    }
    let mode_path = path.child("ipMode");
    match ingress["ipMode"].as_str() {
        None if !ip.is_empty() => errors.push(Error::required(&mode_path, "must be specified when `ip` is set")),
        Some(_) if ip.is_empty() => {
            errors.push(Error::forbidden(&mode_path, "may not be specified when `ip` is not set"));
        }
        Some(mode) if !["Proxy", "VIP"].contains(&mode) => {
            errors.push(Error::not_supported(&mode_path, mode, &["Proxy", "VIP"]));
        }
        _ => {}
    }
    if !hostname.is_empty() {
        let path = path.child("hostname");
        check(dns_subdomain(hostname), hostname, &path, errors);
        if address::parse(hostname).is_some() {
            errors.push(Error::invalid(&path, hostname, "must be a DNS name, not an IP address"));
        }
    }
}

fn warnings(service: &Value, _old: Option<&Value>) -> Vec<String> {
    let (spec, path) = (&service["spec"], Path::new("spec"));
    let mut warnings = Vec::new();
    if has(&service["metadata"]["annotations"], TOPOLOGY_HINTS) {
        warnings.push(format!("annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"));
    }
    let addresses = |field: &'static str| {
        let path = path.child(field);
        let addresses = list(spec, field).iter().filter_map(Value::as_str).enumerate();
        addresses.filter_map(move |(i, ip)| address::warning(ip, &path.index(i))).collect::<Vec<_>>()
    };
    if !["", "None"].contains(&text(spec, "clusterIP")) {
        warnings.extend(addresses("clusterIPs"));
    }
    if is_headless(spec) {
        let affine = text(spec, "sessionAffinity") != "None";
        for (field, set) in [
            ("loadBalancerIP", !text(spec, "loadBalancerIP").is_empty()),
            ("externalIPs", !is_empty(spec, "externalIPs")),
            ("SessionAffinity", affine),
        ] {
            if set {
                warnings.push(format!("spec.{field} is ignored for headless services"));
            }
        }
    }
    warnings.extend(addresses("externalIPs"));
    warnings.extend(address::warning(text(spec, "loadBalancerIP"), &path.child("loadBalancerIP")));
    for (i, range) in list(spec, "loadBalancerSourceRanges").iter().filter_map(Value::as_str).enumerate() {
        warnings.extend(address::network_warnings(range, &path.child("loadBalancerSourceRanges").index(i)));
    }
    let external_name = text(spec, "type") == "ExternalName";
    if external_name && !is_empty(spec, "externalIPs") {
        warnings.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".to_owned());
    }
    if !external_name && !text(spec, "externalName").is_empty() {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec["trafficDistribution"] == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    warnings
}

fn selectable(service: &Value, field: &str) -> Option<String> {
    let field = field.strip_prefix("spec.")?;
    ["clusterIP", "type"].contains(&field).then(|| text(&service["spec"], field).to_owned())
}
