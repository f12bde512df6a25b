//! Ports of containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{flag, list, number, text};

/// Checks the ports of one container.
pub(super) fn validate(errors: &mut Errors, container: &Value, path: &Path) {
    let mut names = BTreeSet::new();
    for (i, port) in list(container, "ports").iter().enumerate() {
        let path = path.index(i);
        let name = text(port, "name");
        if !name.is_empty() {
            let objections = format::port_name(name);
            if objections.is_empty() && !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
            errors.each(&path.child("name"), name, objections);
        }
        match number(port, "containerPort") {
            0 => errors.required(&path.child("containerPort"), ""),
            number => errors.each(&path.child("containerPort"), number, format::port_number(number)),
        }
        match number(port, "hostPort") {
            0 => {}
            number => errors.each(&path.child("hostPort"), number, format::port_number(number)),
        }
        errors.required_one_of(&path.child("protocol"), text(port, "protocol"), &["SCTP", "TCP", "UDP"]);
    }
}

/// Checks that no two of the containers want the same port of the host.
pub(super) fn validate_host_ports(errors: &mut Errors, containers: &[Value], path: &Path) {
    let mut taken = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        for (j, port) in list(container, "ports").iter().enumerate() {
            let number = number(port, "hostPort");
            if number == 0 {
                continue;
            }
            let place = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if taken.contains(&place) {
                errors.duplicate(&path.index(i).child("ports").index(j).child("hostPort"), &place);
            } else {
                taken.insert(place);
            }
        }
    }
}

/// On the host's network a container's port is the host's. In a template the host's port may be left out.
pub(super) fn validate_host_network(errors: &mut Errors, spec: &Value, path: &Path, is_pod: bool) {
    if !flag(spec, "hostNetwork") {
        return;
    }
    for (i, container) in list(spec, "containers").iter().enumerate() {
        for (j, port) in list(container, "ports").iter().enumerate() {
            let host_port = number(port, "hostPort");
            if (is_pod || host_port != 0) && host_port != number(port, "containerPort") {
                let path = path.child("containers").index(i).child("ports").index(j).child("hostPort");
                errors.invalid(&path, host_port, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}
