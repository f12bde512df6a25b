//! The addresses of a Service and their families.

use serde_json::{Value, json};

use super::is_headless;
use crate::address;
use crate::field::{Error, Path};
use crate::value::{fill, is_empty, list, object_mut, remove, set, text};

const FAMILIES: [&str; 2] = ["IPv4", "IPv6"];
const FAMILY_POLICIES: [&str; 3] = ["PreferDualStack", "RequireDualStack", "SingleStack"];

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
        for port in crate::value::items_mut(spec, "ports") {
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
    let path = Path::new("spec");
    let (ips_path, families_path) = (path.child("clusterIPs"), path.child("ipFamilies"));
    let (ip, ips) = (text(spec, "clusterIP"), list(spec, "clusterIPs"));
    let mut refuse = |detail: &str| errors.push(Error::invalid(&ips_path, ips.to_vec(), detail));
    match ips.first() {
        None if !ip.is_empty() => errors.push(Error::required(&ips_path, "")),
        Some(_) if ip.is_empty() => refuse("must be empty when `clusterIP` is not specified"),
        Some(first) if first != ip => refuse("first value must match `clusterIP`"),
        _ => {}
    }
    let families = list(spec, "ipFamilies");
    for (i, family) in families.iter().filter_map(Value::as_str).enumerate() {
        if !FAMILIES.contains(&family) {
            errors.push(Error::not_supported(&families_path.index(i), family, &FAMILIES));
        }
        if families.iter().take(i).any(|earlier| earlier == family) {
            errors.push(Error::duplicate(&families_path.index(i), family));
        }
    }
    if let Some(policy) = spec["ipFamilyPolicy"].as_str().filter(|policy| !FAMILY_POLICIES.contains(policy)) {
        errors.push(Error::not_supported(&path.child("ipFamilyPolicy"), policy, &FAMILY_POLICIES));
    }
    validate_ips(spec, ips, families, &ips_path, errors);
}

fn validate_ips(spec: &Value, ips: &[Value], families: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let mut sound = true;
    for (i, ip) in ips.iter().filter_map(Value::as_str).enumerate() {
        if i == 0 && ip == "None" {
            if ips.len() > 1 {
                sound = false;
                errors.push(Error::invalid(path, ips.to_vec(), "'None' must be the first and only value"));
            }
        } else {
            sound &= address::validate(ip, &path.index(i), errors);
        }
    }
    if ips.len() > 2 {
        errors.push(Error::invalid(path, ips.to_vec(), "may only hold up to 2 values"));
    }
    if !sound {
        return;
    }
    let is_v6 = |ip: &Value| ip.as_str().and_then(address::parse).is_some_and(|ip| ip.is_ipv6());
    if ips.len() > 1 && (ips.iter().all(is_v6) || !ips.iter().any(is_v6)) {
        errors.push(Error::invalid(path, ips.to_vec(), "may specify no more than one IP for each IP family"));
    }
    if is_headless(spec) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(families).enumerate() {
        if (family == "IPv4" && is_v6(ip)) || (family == "IPv6" && !is_v6(ip)) {
            let family = family.as_str().unwrap_or_default();
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.push(Error::invalid(&path.index(i), ip.clone(), detail));
        }
    }
}

/// Addresses stay once they are set; a second one may come and go.
pub(super) fn validate_update(spec: &Value, old: &Value, errors: &mut Vec<Error>) {
    if [spec, old].iter().any(|spec| text(spec, "type") == "ExternalName") {
        return;
    }
    let (headless, was_headless) = (is_headless(spec), is_headless(old));
    if !(headless && was_headless) {
        validate_kept(spec, old, "clusterIPs", "clusterIP", errors);
    }
    if !headless && !was_headless {
        validate_kept(spec, old, "ipFamilies", "ipFamily", errors);
    }
}

fn validate_kept(spec: &Value, old: &Value, field: &str, word: &str, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    let (new, old) = (list(spec, field), list(old, field));
    let shown = || spec[field].clone();
    if new.is_empty() && !old.is_empty() {
        let detail = format!("primary {word} can not be unset");
        return errors.push(Error::invalid(&path.child(field).index(0), shown(), detail));
    }
    for (i, (new_item, old_item)) in new.iter().zip(old).enumerate() {
        // Of lists of different lengths only the first items have to be the same.
        if new_item != old_item && (i == 0 || new.len() == old.len()) {
            let i = if field == "ipFamilies" { 0 } else { i };
            errors.push(Error::invalid(&path.child(field).index(i), shown(), "may not change once set"));
        }
    }
    if new.len() == 1 && old.len() > 1 && spec["ipFamilyPolicy"] != "SingleStack" {
        let detail = format!("must be set to 'SingleStack' when releasing the secondary {word}");
        errors.push(Error::invalid(&path.child("ipFamilyPolicy"), spec["ipFamilyPolicy"].clone(), detail));
    }
}
