//! Annotations that mean something to the API server.

use serde_json::Value;

use super::paths::validate_descending;
use super::report::{Errors, Report};
use super::scheduling::validate_tolerations;
use crate::field::Path;
use crate::pod::read::{annotation, containers, is_windows, part, pointer_text, text, text_entries};

pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
pub(crate) const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
pub(crate) const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
pub(crate) const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Checks those annotations of a pod or a template; `path` is that of its annotations.
pub(crate) fn validate(errors: &mut Errors, object: &Value, path: &Path) {
    if let Some(value) = annotation(object, MIRROR)
        && text(&object["spec"], "nodeName").is_empty()
    {
        errors.invalid(&path.key(MIRROR), value, "must set spec.nodeName if mirror pod annotation is set");
    }
    if let Some(value) = annotation(object, TOLERATIONS).filter(|value| !value.is_empty()) {
        match serde_json::from_str::<Vec<Value>>(value) {
            Ok(tolerations) => validate_tolerations(errors, &tolerations, &path.child(TOLERATIONS)),
            Err(error) => errors.invalid(path, TOLERATIONS, error.to_string()),
        }
    }
    if let Some(value) = annotation(object, DELETION_COST)
        && !is_deletion_cost(value)
    {
        errors.invalid(&path.key(DELETION_COST), value, "must be a 32bit integer");
    }
    validate_seccomp(errors, object, path);
    for (key, value) in text_entries(&object["metadata"], "annotations") {
        let Some(name) = key.strip_prefix(APP_ARMOR) else { continue };
        let all = containers(&object["spec"], &Path::root());
        if !all.iter().any(|(container, _)| text(container, "name") == name) {
            errors.invalid(&path.key(key), name, "container not found");
        }
        if !matches!(value, "" | "runtime/default" | "unconfined") && !value.starts_with("localhost/") {
            errors.invalid(&path.key(key), value, format!("invalid AppArmor profile name: {value:?}"));
        }
    }
}

/// A whole number without a sign or zeros that it does not need.
fn is_deletion_cost(value: &str) -> bool {
    let has_good_start = |value: &str| value == "0" || value.bytes().next().is_some_and(|b| matches!(b, b'1'..=b'9'));
    has_good_start(value.strip_prefix('-').unwrap_or(value)) && value.parse::<i32>().is_ok()
}

fn validate_seccomp(errors: &mut Errors, object: &Value, path: &Path) {
    let mut check = |key: &str, profile: &str| {
        let path = path.child(key);
        if let Some(file) = profile.strip_prefix("localhost/") {
            validate_descending(errors, file, &path);
        } else if !matches!(profile, "runtime/default" | "docker/default" | "unconfined") {
            errors.invalid(&path, profile, "must be a valid seccomp profile");
        }
    };
    if let Some(profile) = annotation(object, SECCOMP_POD) {
        check(SECCOMP_POD, profile);
    }
    for (key, profile) in text_entries(&object["metadata"], "annotations") {
        if key.starts_with(SECCOMP_CONTAINER) {
            check(key, profile);
        }
    }
}

/// Checks that annotations of old say the same as the fields that took their place.
pub(crate) fn validate_match(errors: &mut Errors, object: &Value, path: &Path) {
    let spec = &object["spec"];
    let whole = (&spec["securityContext"], path.child("securityContext"), SECCOMP_POD.to_owned());
    let each = containers(spec, path).into_iter().map(|(container, path)| {
        let key = format!("{SECCOMP_CONTAINER}{}", text(container, "name"));
        (&container["securityContext"], path.child("securityContext"), key)
    });
    for (context, path, key) in std::iter::once(whole).chain(each) {
        if let (Some(profile), Some(value)) = (part(context, "seccompProfile"), annotation(object, &key)) {
            validate_profile(errors, "seccomp", profile, value, &path.child("seccompProfile"));
        }
    }
    if is_windows(spec) {
        return;
    }
    for (container, path) in containers(spec, path) {
        let own = part(&container["securityContext"], "appArmorProfile");
        let profile = own.or(part(&spec["securityContext"], "appArmorProfile"));
        let key = format!("{APP_ARMOR}{}", text(container, "name"));
        if let (Some(profile), Some(value)) = (profile, annotation(object, &key)) {
            let path = path.child("securityContext").child("appArmorProfile");
            validate_profile(errors, "apparmor", profile, value, &path);
        }
    }
}

fn validate_profile(errors: &mut Errors, what: &str, profile: &Value, value: &str, path: &Path) {
    let is_same_type = match text(profile, "type") {
        "Unconfined" => value == "unconfined",
        "RuntimeDefault" => value == "runtime/default" || (what == "seccomp" && value == "docker/default"),
        "Localhost" => value.starts_with("localhost/"),
        _ => return,
    };
    if !is_same_type {
        errors.forbidden(&path.child("type"), format!("{what} type in annotation and field must match"));
    } else if let Some(file) = value.strip_prefix("localhost/")
        && pointer_text(profile, "localhostProfile") != Some(file)
    {
        errors.forbidden(&path.child("localhostProfile"), format!("{what} profile in annotation and field must match"));
    }
}
