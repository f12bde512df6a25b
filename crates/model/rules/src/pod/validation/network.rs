//! Names and addresses: DNS, host aliases, host names, the host's namespaces.

use serde_json::{Value, json};

use super::format;
use super::report::{Errors, Report};
use crate::address;
use crate::field::{Error, Path};
use crate::pod::read::{containers, flag, list, part, pointer_flag, pointer_text, text};

/// Checks how a pod resolves names.
pub(super) fn validate_dns(errors: &mut Errors, spec: &Value, path: &Path) {
    let config = part(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        match config {
            None => return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None"),
            Some(config) if list(config, "nameservers").is_empty() => {
                let rule = "must provide at least one DNS nameserver when `dnsPolicy` is None";
                return errors.required(&path.child("nameservers"), rule);
            }
            Some(_) => {}
        }
    }
    let Some(config) = config else { return };
    let texts = |field: &str| -> Vec<&str> { list(config, field).iter().filter_map(Value::as_str).collect() };
    let (servers, searches) = (texts("nameservers"), texts("searches"));
    if servers.len() > 3 {
        errors.invalid(&path.child("nameservers"), json!(servers), "must not have more than 3 nameservers");
    }
    for (i, server) in servers.iter().enumerate() {
        address::validate(server, &path.child("nameservers").index(i), errors);
    }
    let searches_path = path.child("searches");
    if searches.len() > 32 {
        errors.invalid(&searches_path, json!(searches), "must not have more than 32 search paths");
    }
    if searches.join(" ").len() > 2048 {
        let rule = "must not have more than 2048 characters (including spaces) in the search list";
        errors.invalid(&searches_path, json!(searches), rule);
    }
    for (i, search) in searches.iter().enumerate().filter(|(_, search)| **search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.each(&searches_path.index(i), search, format::dns_subdomain_with_underscore(search));
    }
    for (i, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(&path.child("options").index(i), "must not be empty");
        }
    }
}

/// Checks the names that are written into a pod's hosts file.
pub(super) fn validate_host_aliases(errors: &mut Errors, spec: &Value, path: &Path) {
    for (i, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = path.index(i);
        address::validate(text(alias, "ip"), &path.child("ip"), errors);
        for (j, name) in list(alias, "hostnames").iter().filter_map(Value::as_str).enumerate() {
            errors.each(&path.child("hostnames").index(j), name, format::dns_subdomain(name));
        }
    }
}

/// Checks that a pod with users of its own does not share what belongs to the host's users.
pub(super) fn validate_host_users(errors: &mut Errors, spec: &Value, path: &Path) {
    const RULE: &str = "when `hostUsers` is false";
    if pointer_flag(spec, "hostUsers") != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, field) {
            errors.forbidden(&path.child(shown), RULE);
        }
    }
    for (container, path) in containers(spec, path) {
        if !list(container, "volumeDevices").is_empty() {
            errors.forbidden(&path.child("volumeDevices"), RULE);
        }
    }
}

/// Checks the host name that overrides the usual one.
pub(super) fn validate_host_name(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(name) = pointer_text(spec, "hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    if flag(spec, "setHostnameAsFQDN") {
        errors.forbidden(&path, "may not be specified when setHostnameAsFQDN is true");
    }
    if flag(spec, "hostNetwork") {
        errors.forbidden(&path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.push(Error::too_long(&path, 64));
    }
    errors.each(&path, name, format::dns_subdomain(name));
}
