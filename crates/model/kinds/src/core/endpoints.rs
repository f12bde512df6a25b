//! Endpoints.

use serde_json::Value;

use crate::address;
use crate::field::{Error, Path};
use crate::format::{check, dns_label, dns_subdomain, port_number, qualified_name};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, STORED};
use crate::value::{fill_text, int, items_mut, list, same, text};

pub(crate) const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];

pub(crate) const RULES: Rules =
    Rules { default, validate, validate_update, warnings, create_on_update: true, ..STORED };

fn default(endpoints: &mut Value) {
    for port in items_mut(endpoints, "subsets").flat_map(|subset| items_mut(subset, "ports")) {
        fill_text(port, "protocol", "TCP");
    }
}

fn validate(endpoints: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&endpoints["metadata"], &Path::new("metadata"), true, subdomain_name);
    errors.extend(subset_complaints(endpoints));
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    errors.extend(metadata::validate_strict(&new["metadata"], &Path::new("metadata"), true, subdomain_name));
    if !same(&new["subsets"], &old["subsets"]) {
        errors.extend(subset_complaints(new));
    }
    errors
}

fn subset_complaints(endpoints: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    for (i, subset) in list(endpoints, "subsets").iter().enumerate() {
        let path = Path::new("subsets").index(i);
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.push(Error::required(&path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for field in ["addresses", "notReadyAddresses"] {
            for (i, address) in list(subset, field).iter().enumerate() {
                validate_address(address, &path.child(field).index(i), &mut errors);
            }
        }
        let ports = list(subset, "ports");
        for (i, port) in ports.iter().enumerate() {
            validate_port(port, ports.len() > 1, &path.child("ports").index(i), &mut errors);
        }
    }
    errors
}

fn validate_address(endpoint: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (ip, hostname) = (text(endpoint, "ip"), text(endpoint, "hostname"));
    address::validate(ip, &path.child("ip"), errors);
    if !hostname.is_empty() {
        check(dns_label(hostname), hostname, &path.child("hostname"), errors);
    }
    if let Some(node) = endpoint["nodeName"].as_str() {
        check(dns_subdomain(node), node, &path.child("nodeName"), errors);
    }
    address::validate_endpoint(ip, &path.child("ip"), errors);
}

fn validate_port(port: &Value, name_required: bool, path: &Path, errors: &mut Vec<Error>) {
    let (name, number, protocol) = (text(port, "name"), int(port, "port"), text(port, "protocol"));
    if !name.is_empty() {
        check(dns_label(name), name, &path.child("name"), errors);
    } else if name_required {
        errors.push(Error::required(&path.child("name"), ""));
    }
    errors.extend(
        port_number(number).into_iter().map(|complaint| Error::invalid(&path.child("port"), number, complaint)),
    );
    match protocol {
        "" => errors.push(Error::required(&path.child("protocol"), "")),
        other if !PROTOCOLS.contains(&other) => {
            errors.push(Error::not_supported(&path.child("protocol"), other, &PROTOCOLS));
        }
        _ => {}
    }
    if let Some(protocol) = port["appProtocol"].as_str() {
        check(qualified_name(protocol), protocol, &path.child("appProtocol"), errors);
    }
}

fn warnings(endpoints: &Value, _old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    for (i, subset) in list(endpoints, "subsets").iter().enumerate() {
        for field in ["addresses", "notReadyAddresses"] {
            for (j, endpoint) in list(subset, field).iter().enumerate() {
                let path = Path::new("subsets").index(i).child(field).index(j).child("ip");
                warnings.extend(address::warning(text(endpoint, "ip"), &path));
            }
        }
    }
    warnings
}
