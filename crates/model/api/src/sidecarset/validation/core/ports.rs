//! Container ports, and the ports of probes and hooks.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ContainerPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::super::containers::Role;
use super::one_of;
use crate::field::{Error, Path};

/// The ports of the node that the containers of a set take up together.
#[derive(Default)]
pub(in super::super) struct HostPorts(BTreeSet<(String, String, i32)>);

pub(super) fn validate(
    ports: &[ContainerPort],
    role: Role,
    host_ports: &mut HostPorts,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let mut names = BTreeSet::new();
    // Init containers run one by one, and may have the same port after each other.
    let mut own = HostPorts::default();
    let host_ports = if role == Role::Sidecar { host_ports } else { &mut own };
    for (i, port) in ports.iter().enumerate() {
        let path = path.index(i);
        if let Some(name) = port.name.as_deref().filter(|name| !name.is_empty()) {
            if let Err(reason) = port_name(name) {
                errors.push(Error::invalid(&path.child("name"), name, reason));
            } else if !names.insert(name) {
                errors.push(Error::duplicate(&path.child("name"), name));
            }
        }
        if port.container_port == 0 {
            errors.push(Error::required(&path.child("containerPort"), ""));
        } else {
            validate_number(port.container_port, &path.child("containerPort"), errors);
        }
        one_of(port.protocol.as_deref(), &["SCTP", "TCP", "UDP"], &path.child("protocol"), errors);
        if let Some(number) = port.host_port.filter(|number| *number != 0) {
            let path = path.child("hostPort");
            validate_number(number, &path, errors);
            let protocol = port.protocol.clone().unwrap_or_else(|| "TCP".to_owned());
            let address = port.host_ip.clone().unwrap_or_default();
            let shown = format!("{protocol}/{address}/{number}");
            if !host_ports.0.insert((protocol, address, number)) {
                errors.push(Error::duplicate(&path, shown));
            }
        }
    }
}

pub(super) fn validate_number(number: i32, path: &Path, errors: &mut Vec<Error>) {
    if !(1..=65535).contains(&number) {
        errors.push(Error::invalid(path, number, "must be between 1 and 65535, inclusive"));
    }
}

pub(super) fn validate_number_or_name(port: &IntOrString, path: &Path, errors: &mut Vec<Error>) {
    match port {
        IntOrString::Int(number) => validate_number(*number, path, errors),
        IntOrString::String(name) => {
            if let Err(reason) = port_name(name) {
                errors.push(Error::invalid(path, name.as_str(), reason));
            }
        }
    }
}

/// A service name of IANA (RFC 6335).
fn port_name(name: &str) -> Result<(), &'static str> {
    let good = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    if name.len() > 15 {
        Err("must be no more than 15 characters")
    } else if name.is_empty() || !name.bytes().all(good) {
        Err("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    } else if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        Err("must contain at least one letter (a-z)")
    } else if name.contains("--") {
        Err("must not contain consecutive hyphens")
    } else if name.starts_with('-') || name.ends_with('-') {
        Err("must not begin or end with a hyphen")
    } else {
        Ok(())
    }
}
