//! Probes, lifecycle hooks and their handlers.

use serde_json::Value;

use super::format;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{list, number, part, pointer_number, text};

const PROBE_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: &[&str] = &["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the hooks and probes of a container that runs on: an app container or a sidecar.
pub(super) fn validate(errors: &mut Errors, container: &Value, spec: &Value, path: &Path) {
    if let Some(lifecycle) = part(container, "lifecycle") {
        validate_lifecycle(errors, lifecycle, spec, &path.child("lifecycle"));
    }
    for field in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = part(container, field) else { continue };
        let path = path.child(field);
        validate_probe(errors, probe, &path);
        if field == "readinessProbe" {
            if let Some(seconds) = pointer_number(probe, "terminationGracePeriodSeconds") {
                let path = path.child("terminationGracePeriodSeconds");
                errors.invalid(&path, seconds, "must not be set for readinessProbes");
            }
        } else if number(probe, "successThreshold") != 1 {
            errors.invalid(&path.child("successThreshold"), number(probe, "successThreshold"), "must be 1");
        }
    }
}

fn validate_probe(errors: &mut Errors, probe: &Value, path: &Path) {
    validate_handler(errors, probe, PROBE_HANDLERS, None, path);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        errors.non_negative(&path.child(field), number(probe, field));
    }
    if let Some(seconds) = pointer_number(probe, "terminationGracePeriodSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(&path.child("terminationGracePeriodSeconds"), seconds, "must be greater than 0");
    }
}

fn validate_lifecycle(errors: &mut Errors, lifecycle: &Value, spec: &Value, path: &Path) {
    let grace = pointer_number(spec, "terminationGracePeriodSeconds");
    for hook in ["postStart", "preStop"] {
        if let Some(handler) = part(lifecycle, hook) {
            validate_handler(errors, handler, HOOK_HANDLERS, grace, &path.child(hook));
        }
    }
}

/// Checks that exactly one of the handlers is there, and that it is good.
fn validate_handler(errors: &mut Errors, handler: &Value, kinds: &[&str], grace: Option<i64>, path: &Path) {
    let mut found = false;
    for &kind in kinds {
        let Some(action) = part(handler, kind) else { continue };
        let path = path.child(kind);
        if found {
            errors.forbidden(&path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match kind {
            "exec" if list(action, "command").is_empty() => errors.required(&path.child("command"), ""),
            "httpGet" => validate_http_get(errors, action, &path),
            "tcpSocket" => validate_port(errors, &action["port"], &path.child("port")),
            "grpc" => {
                let port = number(action, "port");
                errors.each(&path.child("port"), port, format::port_number(port));
            }
            "sleep" => {
                let seconds = number(action, "seconds");
                if let Some(grace) = grace.filter(|grace| !(0..=*grace).contains(&seconds)) {
                    let rule = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                    errors.invalid(&path, seconds, rule);
                }
            }
            _ => {}
        }
    }
    if !found {
        errors.required(path, "must specify a handler type");
    }
}

fn validate_http_get(errors: &mut Errors, action: &Value, path: &Path) {
    errors.non_empty(&path.child("path"), text(action, "path"));
    validate_port(errors, &action["port"], &path.child("port"));
    errors.one_of(&path.child("scheme"), text(action, "scheme"), &["HTTP", "HTTPS"]);
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.each(&path.child("httpHeaders"), name, format::header_name(name));
    }
}

fn validate_port(errors: &mut Errors, port: &Value, path: &Path) {
    if let Some(name) = port.as_str() {
        errors.each(path, name, format::port_name(name));
    } else {
        let number = port.as_i64().unwrap_or_default();
        errors.each(path, number, format::port_number(number));
    }
}
