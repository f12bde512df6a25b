//! Nodes. They come with a status, since it is the node that creates itself.

use pillion_rules::address::{self, validate_network};
use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, label_value, qualified_name};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::quantities;
use pillion_rules::resource_name;
use pillion_rules::value::{copy_fields, entries, fill, has, list, object_mut, remove, text};
use serde_json::{Value, json};

use crate::rules::{Rules, WITH_STATUS};

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    prepare_status,
    validate_status: validate_change,
    warnings,
    selectable,
    ..WITH_STATUS
};

fn default(node: &mut Value) {
    default_networks(object_mut(node, "spec"));
    let status = object_mut(node, "status");
    if status["capacity"].is_object() {
        let capacity = status["capacity"].clone();
        fill(status, "allocatable", capacity);
    }
}

/// The older field is the first of the newer ones; where they differ it counts, since older clients know only it.
fn default_networks(spec: &mut Value) {
    let first = list(spec, "podCIDRs").first().and_then(Value::as_str).unwrap_or_default().to_owned();
    match text(spec, "podCIDR") {
        "" if first.is_empty() => {}
        "" => spec["podCIDR"] = first.into(),
        only if only != first => spec["podCIDRs"] = json!([only]),
        _ => {}
    }
}

fn prepare_create(node: &mut Value) {
    remove(object_mut(node, "spec"), "configSource");
    remove(object_mut(node, "status"), "config");
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    if !has(&old["spec"], "configSource") {
        remove(object_mut(new, "spec"), "configSource");
    }
}

fn prepare_status(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["spec"]);
    if !has(&old["status"], "config") {
        remove(object_mut(new, "status"), "config");
    }
}

fn validate(node: &Value) -> Vec<Error> {
    let path = Path::new("metadata");
    let mut errors = metadata::validate_strict(&node["metadata"], &path, false, subdomain_name);
    validate_taints(list(&node["spec"], "taints"), &path.child("taints"), &mut errors);
    validate_resources(node, &mut errors);
    let networks = list(&node["spec"], "podCIDRs");
    let path = Path::new("spec").child("podCIDRs");
    for (i, network) in networks.iter().filter_map(Value::as_str).enumerate() {
        validate_network(network, &path.index(i), &mut errors);
    }
    if networks.len() > 1 {
        let families: Vec<Option<bool>> = networks
            .iter()
            .map(|network| address::parse(network.as_str()?.split_once('/')?.0).map(|ip| ip.is_ipv6()))
            .collect();
        if let Some(i) = families.iter().position(Option::is_none) {
            let network = networks.get(i).and_then(Value::as_str).unwrap_or_default();
            let detail = format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {network})"
            );
            errors.push(Error::internal(&path, detail));
        }
        if !matches!(families[..], [Some(a), Some(b)] if a != b) {
            let detail = "may specify no more than one CIDR for each IP family";
            errors.push(Error::invalid(&path, networks.to_vec(), detail));
        }
    }
    errors
}

fn validate_taints(taints: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for (i, taint) in taints.iter().enumerate() {
        let path = path.index(i);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        check(qualified_name(key), key, &path.child("key"), errors);
        let complaints = label_value(value);
        if !complaints.is_empty() {
            errors.push(Error::invalid(&path.child("value"), value, complaints.join(";")));
        }
        let supported = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        match effect {
            "" => errors.push(Error::required(&path.child("effect"), "")),
            other if !supported.contains(&other) => {
                errors.push(Error::not_supported(&path.child("effect"), other, &supported));
            }
            _ => {}
        }
        let same = |other: &Value| text(other, "key") == key && text(other, "effect") == effect;
        if taints.iter().take(i).any(same) {
            let shown =
                serde_json::json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"]});
            let mut error = Error::duplicate(&path, shown);
            "taints must be unique by key and effect pair".clone_into(&mut error.detail);
            errors.push(error);
        }
    }
}

fn validate_resources(node: &Value, errors: &mut Vec<Error>) {
    for field in ["capacity", "allocatable"] {
        for (name, value) in entries(&node["status"], field) {
            let path = Path::new("status").child(field).child(name);
            quantities::validate_value(resource_name::is_whole(name), value, &path, errors);
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = validate(new);
    errors.extend(validate_change(new, old));
    errors
}

fn validate_change(new: &Value, old: &Value) -> Vec<Error> {
    let meta = Path::new("metadata");
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &meta);
    validate_resources(new, &mut errors);
    let addresses = list(&new["status"], "addresses");
    for (i, address) in addresses.iter().enumerate() {
        if addresses.iter().take(i).any(|earlier| earlier == address) {
            let shown = serde_json::json!({"Type": address["type"], "Address": address["address"]});
            errors.push(Error::duplicate(&Path::new("status").child("addresses").index(i), shown));
        }
    }
    let (spec, old_spec, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    if !list(old_spec, "podCIDRs").is_empty() && spec["podCIDRs"] != old_spec["podCIDRs"] {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("podCIDRs"), detail));
    }
    let provider = text(old_spec, "providerID");
    if !provider.is_empty() && provider != text(spec, "providerID") {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(Error::forbidden(&path.child("providerID"), detail));
    }
    validate_taints(list(spec, "taints"), &meta.child("taints"), &mut errors);
    if text(spec, "externalID") != text(old_spec, "externalID") {
        errors.push(Error::forbidden(&path.child("externalID"), "may not be updated"));
    }
    errors
}

fn warnings(node: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    let spec = &node["spec"];
    if has(spec, "configSource") {
        warnings.push("spec.configSource: the feature is removed".to_owned());
    }
    if !text(spec, "externalID").is_empty() {
        warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
    }
    let path = Path::new("spec").child("podCIDRs");
    for (i, network) in list(spec, "podCIDRs").iter().filter_map(Value::as_str).enumerate() {
        warnings.extend(address::network_warnings(network, &path.index(i)));
    }
    warnings
}

fn selectable(node: &Value, field: &str) -> Option<String> {
    (field == "spec.unschedulable").then(|| (node["spec"]["unschedulable"] == true).to_string())
}
