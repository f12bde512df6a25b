//! The addresses of a Service and their families.

use pillion_rules::address;
use pillion_rules::field::{Error, Path};
use pillion_rules::value::{fill, is_empty, list, object_mut, remove, set, text};
use serde_json::{Value, json};

use super::is_headless;

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];

/// Makes the two ways to write addresses agree, takes over what an update left out, and names the family of a cluster that has only IPv4.
///
/// Returns whether the Service still needs an address of the cluster: then `spec.clusterIP` and the one item of `spec.clusterIPs` are to be
/// set to it. Node ports of the types `NodePort` and `LoadBalancer` that are 0 or absent are to be set likewise.
pub fn complete_addresses(service: &mut Value, old: Option<&Value>) -> bool {
    let spec = object_mut(service, "spec");
    if text(spec, "type") == "ExternalName" {
        return false;
    }
    if let Some(old) = old.map(|old| &old["spec"]).filter(|old| text(old, "type") != "ExternalName") {
        take_over(spec, old);
    }
    normalize(spec, old.map(|old| &old["spec"]));
    let headless_without_selector = is_headless(spec) && is_empty(spec, "selector");
    if is_empty(spec, "ipFamilies") {
        let wanted = text(spec, "ipFamilyPolicy");
        let both = headless_without_selector && wanted != "SingleStack";
        set(spec, "ipFamilies", if both { json!(FAMILIES) } else { json!(["IPv4"]) });
    }
    let policy = if list(spec, "ipFamilies").len() > 1 { "RequireDualStack" } else { "SingleStack" };
    fill(spec, "ipFamilyPolicy", policy);
    text(spec, "clusterIP").is_empty()
}

/// An update that leaves the addresses out means those that are there.
fn take_over(spec: &mut Value, old: &Value) {
    if text(spec, "clusterIP").is_empty() && is_empty(spec, "clusterIPs") && !text(old, "clusterIP").is_empty() {
        for field in ["clusterIP", "clusterIPs"] {
            set(spec, field, old[field].clone());
        }
    }
    for field in ["ipFamilies", "ipFamilyPolicy"] {
        if is_empty(spec, field) && !is_empty(old, field) {
            set(spec, field, old[field].clone());
        }
    }
    let numbers: Vec<(Value, Value, Value)> = list(old, "ports")
        .iter()
        .map(|port| (port["protocol"].clone(), port["port"].clone(), port["nodePort"].clone()))
        .collect();
    if ["NodePort", "LoadBalancer"].contains(&text(spec, "type")) {
        for port in pillion_rules::value::items_mut(spec, "ports") {
            let known =
                numbers.iter().find(|(protocol, number, _)| *protocol == port["protocol"] && *number == port["port"]);
            if let Some((_, _, node_port)) = known.filter(|(_, _, node_port)| !node_port.is_null()) {
                fill(port, "nodePort", node_port.clone());
            }
        }
    }
}

/// `clusterIP` is the first of `clusterIPs`, whichever of them was written.
fn normalize(spec: &mut Value, old: Option<&Value>) {
    let single = spec["clusterIP"].clone();
    let single_is_set = !text(spec, "clusterIP").is_empty();
    let Some(old) = old else {
        if single_is_set && is_empty(spec, "clusterIPs") {
            set(spec, "clusterIPs", json!([single]));
        } else if !single_is_set && let Some(first) = list(spec, "clusterIPs").first().cloned() {
            set(spec, "clusterIP", first);
        }
        return;
    };
    let same_list = spec["clusterIPs"] == old["clusterIPs"];
    if text(old, "clusterIP").is_empty() && single_is_set && same_list {
        set(spec, "clusterIPs", json!([single]));
    } else if !text(old, "clusterIP").is_empty() && !single_is_set && same_list {
        remove(spec, "clusterIPs");
    } else if single_is_set && spec["clusterIP"] != old["clusterIP"] && same_list {
        set(spec, "clusterIPs", json!([single]));
    }
}

pub(super) fn validate(spec: &Value, errors: &mut Vec<Error>) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let path = Path::new("spec").child("clusterIPs");
    let (ip, ips) = (text(spec, "clusterIP"), list(spec, "clusterIPs"));
    let refuse = |detail: &str, errors: &mut Vec<Error>| errors.push(Error::invalid(&path, ips.to_vec(), detail));
    match ips.first() {
        None if !ip.is_empty() => return errors.push(Error::required(&path, "")),
        Some(_) if ip.is_empty() => refuse("must be empty when `clusterIP` is not specified", errors),
        Some(first) if first != ip => refuse("first value must match `clusterIP`", errors),
        _ => {}
    }
    if ip == "None" && ips.len() > 1 {
        refuse("'None' must be the first and only value", errors);
    }
    for (i, ip) in ips.iter().filter_map(Value::as_str).enumerate().filter(|&(i, ip)| i > 0 || ip != "None") {
        address::validate(ip, &path.index(i), errors);
    }
}

/// The address stays once it is set.
pub(super) fn validate_update(spec: &Value, old: &Value, errors: &mut Vec<Error>) {
    if [spec, old].iter().any(|spec| text(spec, "type") == "ExternalName") || (is_headless(spec) && is_headless(old)) {
        return;
    }
    let detail = match (list(spec, "clusterIPs").first(), list(old, "clusterIPs").first()) {
        (None, Some(_)) => "primary clusterIP can not be unset",
        (Some(new), Some(old)) if new != old => "may not change once set",
        _ => return,
    };
    let path = Path::new("spec").child("clusterIPs").index(0);
    errors.push(Error::invalid(&path, spec["clusterIPs"].clone(), detail));
}
