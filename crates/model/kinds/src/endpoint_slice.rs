//! `EndpointSlices`.

use serde_json::Value;

use crate::address;
use crate::field::{Error, IMMUTABLE, Path};
use crate::format::{check, dns_label, dns_subdomain, label_value, qualified_domain, qualified_name};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, STORED};
use crate::value::{entries, fill, items_mut, list, same, text};
use crate::workload::{first_generation, next_generation};

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) const RULES: Rules = Rules {
    default: |slice| {
        for port in items_mut(slice, "ports") {
            fill(port, "name", "");
            fill(port, "protocol", "TCP");
        }
    },
    prepare_create: first_generation,
    validate,
    prepare_update,
    validate_update,
    warnings,
    ..STORED
};

fn prepare_update(new: &mut Value, old: &Value) {
    let labels = |slice: &Value| slice["metadata"]["labels"].clone();
    let changed = ["endpoints", "ports", "addressType"].iter().any(|field| !same(&new[*field], &old[*field]));
    if changed || !same(&labels(new), &labels(old)) {
        next_generation(new, old);
    }
}

fn validate(slice: &Value) -> Vec<Error> {
    let mut errors = validate_but_endpoints(slice);
    validate_endpoints(slice, &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = validate_but_endpoints(new);
    if !same(&new["endpoints"], &old["endpoints"]) {
        validate_endpoints(new, &mut errors);
    }
    let kind = text(new, "addressType");
    if kind != text(old, "addressType") {
        errors.push(Error::invalid(&Path::new("addressType"), kind, IMMUTABLE));
    }
    errors
}

fn validate_but_endpoints(slice: &Value) -> Vec<Error> {
    const LIMIT: usize = 20000;
    let mut errors = metadata::validate_strict(&slice["metadata"], &Path::new("metadata"), true, subdomain_name);
    match text(slice, "addressType") {
        "" => errors.push(Error::required(&Path::new("addressType"), "")),
        kind if !ADDRESS_TYPES.contains(&kind) => {
            errors.push(Error::not_supported(&Path::new("addressType"), kind, &ADDRESS_TYPES));
        }
        _ => {}
    }
    let (ports, path) = (list(slice, "ports"), Path::new("ports"));
    if ports.len() > LIMIT {
        errors.push(Error::too_many(&path, ports.len(), LIMIT));
        return errors;
    }
    for (i, port) in ports.iter().enumerate() {
        let (name, protocol, path) = (text(port, "name"), text(port, "protocol"), path.index(i));
        if !name.is_empty() {
            check(dns_label(name), name, &path.child("name"), &mut errors);
        }
        if ports.iter().take(i).any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&path.child("name"), name));
        }
        if !PROTOCOLS.contains(&protocol) {
            errors.push(Error::not_supported(&path.child("protocol"), protocol, &PROTOCOLS));
        }
        if let Some(protocol) = port["appProtocol"].as_str() {
            check(qualified_name(protocol), protocol, &path.child("appProtocol"), &mut errors);
        }
    }
    errors
}

fn validate_endpoints(slice: &Value, errors: &mut Vec<Error>) {
    const LIMIT: usize = 1000;
    let (endpoints, path) = (list(slice, "endpoints"), Path::new("endpoints"));
    if endpoints.len() > LIMIT {
        return errors.push(Error::too_many(&path, endpoints.len(), LIMIT));
    }
    for (i, endpoint) in endpoints.iter().enumerate() {
        let path = path.index(i);
        validate_addresses(list(endpoint, "addresses"), text(slice, "addressType"), &path.child("addresses"), errors);
        if let Some(node) = endpoint["nodeName"].as_str() {
            check(dns_subdomain(node), node, &path.child("nodeName"), errors);
        }
        validate_topology(endpoint, &path.child("deprecatedTopology"), errors);
        if let Some(hostname) = endpoint["hostname"].as_str() {
            check(dns_label(hostname), hostname, &path.child("hostname"), errors);
        }
        for (field, rule) in [("forZones", label_value as fn(&str) -> Vec<String>), ("forNodes", dns_subdomain)] {
            validate_hints(list(&endpoint["hints"], field), rule, &path.child("hints").child(field), errors);
        }
    }
}

fn validate_topology(endpoint: &Value, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 16;
    let labels = entries(endpoint, "deprecatedTopology").count();
    if labels > LIMIT {
        errors.push(Error::too_many(path, labels, LIMIT));
    }
    crate::selector::validate_labels(&endpoint["deprecatedTopology"], path, errors);
}

fn validate_addresses(addresses: &[Value], kind: &str, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 100;
    if addresses.is_empty() {
        errors.push(Error::required(path, "must contain at least 1 address"));
    } else if addresses.len() > LIMIT {
        errors.push(Error::too_many(path, addresses.len(), LIMIT));
    }
    for (i, text) in addresses.iter().filter_map(Value::as_str).enumerate() {
        let item = path.index(i);
        match kind {
            "IPv4" | "IPv6" => {
                if !address::validate(text, &item, errors) {
                    continue;
                }
                if address::parse(text).is_some_and(|ip| ip.is_ipv4()) != (kind == "IPv4") {
                    errors.push(Error::invalid(path, text, format!("must be an {kind} address")));
                }
                address::validate_endpoint(text, &item, errors);
            }
            "FQDN" => qualified_domain(text.strip_suffix('.').unwrap_or(text), &item, 2, errors),
            _ => {}
        }
    }
}

fn validate_hints(hints: &[Value], rule: fn(&str) -> Vec<String>, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 8;
    if hints.len() > LIMIT {
        return errors.push(Error::too_many(path, hints.len(), LIMIT));
    }
    for (i, hint) in hints.iter().enumerate() {
        let (name, path) = (text(hint, "name"), path.index(i).child("name"));
        if hints.iter().take(i).any(|earlier| text(earlier, "name") == name) {
            errors.push(Error::duplicate(&path, name));
        }
        check(rule(name), name, &path, errors);
    }
}

fn warnings(slice: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if old.is_none() && text(slice, "addressType") == "FQDN" {
        // The path is as the API server writes it.
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    for (i, endpoint) in list(slice, "endpoints").iter().enumerate() {
        for (j, ip) in list(endpoint, "addresses").iter().filter_map(Value::as_str).enumerate() {
            let path = Path::new("endpoints").index(i).child("addresses").index(j);
            warnings.extend(address::warning(ip, &path));
        }
    }
    warnings
}
