//! `NetworkPolicies`.

use serde_json::{Value, json};

use crate::address;
use crate::field::{Error, Path};
use crate::format::{check, port_name, port_number};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, STORED};
use crate::selector;
use crate::value::{fill, has, is_empty, items_mut, list, object_mut, set, text};
use crate::workload::{count_spec_changes, first_generation};

/// Each direction, and what it calls its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: first_generation,
    validate,
    prepare_update: count_spec_changes,
    validate_update,
    warnings,
    ..STORED
};

fn default(policy: &mut Value) {
    let spec = object_mut(policy, "spec");
    for (direction, _) in DIRECTIONS {
        for port in items_mut(spec, direction).flat_map(|rule| items_mut(rule, "ports")) {
            fill(port, "protocol", "TCP");
        }
    }
    if is_empty(spec, "policyTypes") {
        let both = !is_empty(spec, "egress");
        set(spec, "policyTypes", if both { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}

fn validate(policy: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&policy["metadata"], &Path::new("metadata"), true, subdomain_name);
    let (spec, path) = (&policy["spec"], Path::new("spec"));
    selector::validate(&spec["podSelector"], &path.child("podSelector"), &mut errors);
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in list(spec, direction).iter().enumerate() {
            let path = path.child(direction).index(i);
            for (i, port) in list(rule, "ports").iter().enumerate() {
                validate_port(port, &path.child("ports").index(i), &mut errors);
            }
            for (i, peer) in list(rule, peers).iter().enumerate() {
                validate_peer(peer, &path.child(peers).index(i), &mut errors);
            }
        }
    }
    let (types, path) = (list(spec, "policyTypes"), path.child("policyTypes"));
    if types.len() > 2 {
        errors.push(Error::invalid(&path, types.to_vec(), "may not specify more than two policyTypes"));
        return errors;
    }
    for (i, kind) in types.iter().filter_map(Value::as_str).enumerate() {
        if !["Ingress", "Egress"].contains(&kind) {
            errors.push(Error::not_supported(&path.index(i), kind, &["Ingress", "Egress"]));
        }
    }
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = validate(new);
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    errors
}

fn validate_port(port: &Value, path: &Path, errors: &mut Vec<Error>) {
    let supported = ["TCP", "UDP", "SCTP"];
    if let Some(protocol) = port["protocol"].as_str().filter(|protocol| !supported.contains(protocol)) {
        errors.push(Error::not_supported(&path.child("protocol"), protocol, &supported));
    }
    let (end, end_path) = (port["endPort"].as_i64(), path.child("endPort"));
    match (&port["port"], end) {
        (Value::String(name), _) => {
            if let Some(end) = end {
                errors.push(Error::invalid(&end_path, end, "may not be specified when `port` is non-numeric"));
            }
            check(port_name(name), name, &path.child("port"), errors);
        }
        (Value::Null, None) => {}
        (Value::Null, Some(end)) => {
            errors.push(Error::invalid(&end_path, end, "may not be specified when `port` is not specified"));
        }
        (number, _) => {
            let number = number.as_i64().unwrap_or_default();
            let number_path = path.child("port");
            errors.extend(port_number(number).into_iter().map(|c| Error::invalid(&number_path, number, c)));
            if let Some(end) = end {
                if end < number {
                    errors.push(Error::invalid(&end_path, number, "must be greater than or equal to `port`"));
                }
                errors.extend(port_number(end).into_iter().map(|c| Error::invalid(&end_path, end, c)));
            }
        }
    }
}

fn validate_peer(peer: &Value, path: &Path, errors: &mut Vec<Error>) {
    for field in ["podSelector", "namespaceSelector"] {
        selector::validate(&peer[field], &path.child(field), errors);
    }
    let block = has(peer, "ipBlock");
    if block {
        validate_block(&peer["ipBlock"], &path.child("ipBlock"), errors);
    }
    let selected = has(peer, "podSelector") || has(peer, "namespaceSelector");
    if !block && !selected {
        errors.push(Error::required(path, "must specify a peer"));
    } else if block && selected {
        errors.push(Error::forbidden(path, "may not specify both ipBlock and another peer"));
    }
}

fn validate_block(block: &Value, path: &Path, errors: &mut Vec<Error>) {
    let network = text(block, "cidr");
    if network.is_empty() {
        return errors.push(Error::required(&path.child("cidr"), ""));
    }
    let before = errors.len();
    address::validate_network(network, &path.child("cidr"), errors);
    if errors.len() > before {
        return;
    }
    for (i, except) in list(block, "except").iter().filter_map(Value::as_str).enumerate() {
        let (path, before) = (path.child("except").index(i), errors.len());
        address::validate_network(except, &path, errors);
        if errors.len() == before && !address::contains(network, except) {
            errors.push(Error::invalid(&path, except, "must be a strict subset of `cidr`"));
        }
    }
}

fn warnings(policy: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in list(&policy["spec"], direction).iter().enumerate() {
            for (j, peer) in list(rule, peers).iter().enumerate() {
                let block = &peer["ipBlock"];
                let path = Path::new("spec").child(direction).index(i).child(peers).index(j).child("ipBlock");
                warnings.extend(address::network_warnings(text(block, "cidr"), &path.child("cidr")));
                for (k, except) in list(block, "except").iter().filter_map(Value::as_str).enumerate() {
                    warnings.extend(address::network_warnings(except, &path.child("except").index(k)));
                }
            }
        }
    }
    warnings
}
