//! Ingresses.

use serde_json::{Value, json};

use super::validate_reference;
use crate::address;
use crate::field::{Error, Path};
use crate::format::{check, dns_subdomain, dns1035_label, port_name, port_number, wildcard_subdomain};
use crate::metadata::{self, subdomain_name};
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{copy_fields, has, int, list, set, text};
use crate::workload::{count_spec_changes, first_generation};

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const PATH_TYPES: [&str; 3] = ["Exact", "ImplementationSpecific", "Prefix"];

pub(crate) const RULES: Rules = Rules {
    prepare_create: |ingress| {
        set(ingress, "status", json!({"loadBalancer": {}}));
        first_generation(ingress);
    },
    validate,
    prepare_update: |new, old| {
        copy_fields(new, old, &["status"]);
        count_spec_changes(new, old);
    },
    validate_update,
    validate_status,
    warnings,
    ..WITH_STATUS
};

fn validate_ingress(ingress: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&ingress["metadata"], &Path::new("metadata"), true, subdomain_name);
    let (spec, path) = (&ingress["spec"], Path::new("spec"));
    let rules = list(spec, "rules");
    let has_default = has(spec, "defaultBackend");
    if rules.is_empty() && !has_default {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(Error::invalid(&path, Value::Null, detail));
    }
    if has_default {
        validate_backend(&spec["defaultBackend"], &path.child("defaultBackend"), &mut errors);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_rule(rule, &path.child("rules").index(i), &mut errors);
    }
    for (i, tls) in list(spec, "tls").iter().enumerate() {
        let path = path.child("tls").index(i);
        for (i, host) in list(tls, "hosts").iter().filter_map(Value::as_str).enumerate() {
            validate_host(host, &path.child("hosts").index(i), &mut errors);
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            check(dns_subdomain(secret), secret, &path.child("secretName"), &mut errors);
        }
    }
    if let Some(class) = spec["ingressClassName"].as_str() {
        check(dns_subdomain(class), class, &path.child("ingressClassName"), &mut errors);
    }
    errors
}

fn validate(ingress: &Value) -> Vec<Error> {
    let mut errors = validate_ingress(ingress);
    let annotation = ingress["metadata"]["annotations"][CLASS_ANNOTATION].as_str();
    if let (Some(annotation), Some(class)) = (annotation, ingress["spec"]["ingressClassName"].as_str())
        && annotation != class
    {
        let detail = "must match `ingressClassName` when both are specified";
        errors.push(Error::invalid(&Path::new("annotations").child(CLASS_ANNOTATION), annotation, detail));
    }
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    errors.extend(validate_ingress(new));
    errors
}

fn validate_host(host: &str, path: &Path, errors: &mut Vec<Error>) {
    let complaints = if host.contains('*') { wildcard_subdomain(host) } else { dns_subdomain(host) };
    check(complaints, host, path, errors);
}

fn validate_rule(rule: &Value, path: &Path, errors: &mut Vec<Error>) {
    let host = text(rule, "host");
    if !host.is_empty() {
        let path = path.child("host");
        if address::parse(host).is_some() {
            errors.push(Error::invalid(&path, host, "must be a DNS name, not an IP address"));
        }
        validate_host(host, &path, errors);
    }
    if !has(rule, "http") {
        return;
    }
    let (paths, path) = (list(&rule["http"], "paths"), path.child("http").child("paths"));
    if paths.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    for (i, http_path) in paths.iter().enumerate() {
        validate_path(http_path, &path.index(i), errors);
    }
}

fn validate_path(http_path: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (value, value_path) = (text(http_path, "path"), path.child("path"));
    let mut refuse = |detail: String| errors.push(Error::invalid(&value_path, value, detail));
    match http_path["pathType"].as_str() {
        None => return errors.push(Error::required(&path.child("pathType"), "pathType must be specified")),
        Some("Exact" | "Prefix") => {
            if !value.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|sequence| value.contains(**sequence)) {
                refuse(format!("must not contain '{sequence}'"));
            }
            for suffix in ["/..", "/."].iter().filter(|suffix| value.ends_with(**suffix)) {
                refuse(format!("cannot end with '{suffix}'"));
            }
        }
        Some("ImplementationSpecific") => {
            if !value.is_empty() && !value.starts_with('/') {
                refuse("must be an absolute path".to_owned());
            }
        }
        Some(other) => errors.push(Error::not_supported(&path.child("pathType"), other, &PATH_TYPES)),
    }
    validate_backend(&http_path["backend"], &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &Path, errors: &mut Vec<Error>) {
    match (has(backend, "resource"), has(backend, "service")) {
        (true, true) => errors.push(Error::invalid(path, "", "cannot set both resource and service backends")),
        (true, false) => validate_reference(&backend["resource"], &path.child("resource"), errors),
        (false, true) => validate_service(&backend["service"], path, errors),
        (false, false) => errors.push(Error::invalid(path, "", "resource or service backend is required")),
    }
}

fn validate_service(service: &Value, path: &Path, errors: &mut Vec<Error>) {
    let service_path = path.child("service");
    match text(service, "name") {
        "" => errors.push(Error::required(&service_path.child("name"), "")),
        name => check(dns1035_label(name), name, &service_path.child("name"), errors),
    }
    let (name, number) = (text(&service["port"], "name"), int(&service["port"], "number"));
    let port_path = service_path.child("port");
    match (name, number) {
        ("", 0) => errors.push(Error::required(path, "port name or number is required")),
        ("", _) => errors.extend(
            port_number(number)
                .into_iter()
                .map(|complaint| Error::invalid(&port_path.child("number"), number, complaint)),
        ),
        (_, 0) => check(port_name(name), name, &port_path.child("name"), errors),
        _ => errors.push(Error::invalid(path, "", "cannot set both port name & port number")),
    }
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("status").child("loadBalancer").child("ingress");
    for (i, ingress) in list(&new["status"]["loadBalancer"], "ingress").iter().enumerate() {
        let (ip, hostname, path) = (text(ingress, "ip"), text(ingress, "hostname"), path.index(i));
        if !ip.is_empty() {
            address::validate(ip, &path.child("ip"), &mut errors);
        }
        if !hostname.is_empty() {
            check(dns_subdomain(hostname), hostname, &path.child("hostname"), &mut errors);
            if address::parse(hostname).is_some() {
                let detail = "must be a DNS name, not an IP address";
                errors.push(Error::invalid(&path.child("hostname"), hostname, detail));
            }
        }
    }
    errors
}

fn warnings(ingress: &Value, old: Option<&Value>) -> Vec<String> {
    let annotated = has(&ingress["metadata"]["annotations"], CLASS_ANNOTATION);
    if old.is_none() && annotated && !has(&ingress["spec"], "ingressClassName") {
        return vec![format!(
            "annotation \"{CLASS_ANNOTATION}\" is deprecated, please use 'spec.ingressClassName' instead"
        )];
    }
    Vec::new()
}
