//! Containers of every kind.

use std::collections::BTreeSet;

use serde_json::Value;

use super::image::{validate_image_spaces, validate_pull_policy};
use super::report::{Errors, Report};
use super::volume::Volumes;
use super::{env, format, mounts, ports, probe, resources, security};
use crate::field::{Error, Path};
use crate::pod::read::{is_sidecar, list, part, pointer_flag, pointer_text, text};

/// What a container is looked at with.
pub(super) struct Pod<'a> {
    pub(super) spec: &'a Value,
    pub(super) volumes: &'a Volumes<'a>,
    pub(super) claims: &'a BTreeSet<&'a str>,
}

/// Fields that no ephemeral container has, in the order of the type.
const NOT_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// Checks the app containers.
pub(super) fn validate_app(errors: &mut Errors, pod: &Pod, path: &Path) {
    let containers = list(pod.spec, "containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut names = BTreeSet::new();
    for (i, container) in containers.iter().enumerate() {
        let path = path.index(i);
        validate_common(errors, container, pod, &path);
        if !names.insert(text(container, "name")) {
            errors.duplicate(&path.child("name"), text(container, "name"));
        }
        probe::validate(errors, container, pod.spec, &path);
        validate_restart_policy(errors, container, &path);
    }
    ports::validate_host_ports(errors, containers, path);
}

/// Checks the init containers, sidecars among them.
pub(super) fn validate_init(errors: &mut Errors, pod: &Pod, path: &Path) {
    let mut names: BTreeSet<&str> = list(pod.spec, "containers").iter().map(|c| text(c, "name")).collect();
    for (i, container) in list(pod.spec, "initContainers").iter().enumerate() {
        let element = path.index(i);
        validate_common(errors, container, pod, &element);
        validate_init_restart_policy(errors, container, &element);
        let name = text(container, "name");
        if names.contains(name) {
            errors.duplicate(&element.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // The list of one container: the index that the API server shows is always 0.
        ports::validate_host_ports(errors, std::slice::from_ref(container), path);
        if is_sidecar(container) {
            probe::validate(errors, container, pod.spec, &element);
        } else {
            for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if part(container, field).is_some() {
                    errors.forbidden(
                        &element.child(field),
                        "may not be set for init containers without restartPolicy=Always",
                    );
                }
            }
        }
    }
}

/// Checks the ephemeral containers.
pub(super) fn validate_ephemeral(errors: &mut Errors, pod: &Pod, path: &Path) {
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| list(pod.spec, field))
        .map(|c| text(c, "name"))
        .collect();
    let mut names = others.clone();
    for (i, container) in list(pod.spec, "ephemeralContainers").iter().enumerate() {
        let path = path.index(i);
        validate_common(errors, container, pod, &path);
        validate_image_spaces(errors, container, &path);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.not_found(&path.child("targetContainerName"), target);
        }
        for field in NOT_EPHEMERAL {
            if is_set(container, field) {
                errors.forbidden(&path.child(field), "cannot be set for an Ephemeral Container");
            }
        }
        for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    let path = path.child("volumeMounts").index(i).child(field);
                    errors.forbidden(&path, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Whether a field is there at all. An empty list is: it was written.
fn is_set(container: &Value, field: &str) -> bool {
    match part(container, field) {
        Some(Value::Object(resources)) if field == "resources" => !resources.values().all(Value::is_null),
        other => other.is_some(),
    }
}

fn validate_common(errors: &mut Errors, container: &Value, pod: &Pod, path: &Path) {
    match text(container, "name") {
        "" => errors.required(&path.child("name"), ""),
        name => errors.each(&path.child("name"), name, format::dns_label(name)),
    }
    errors.non_empty(&path.child("image"), text(container, "image"));
    errors.required_one_of(
        &path.child("terminationMessagePolicy"),
        text(container, "terminationMessagePolicy"),
        &["File", "FallbackToLogsOnError"],
    );
    ports::validate(errors, container, &path.child("ports"));
    env::validate(errors, container, &path.child("env"));
    env::validate_from(errors, container, &path.child("envFrom"));
    mounts::validate(errors, container, pod.volumes, &path.child("volumeMounts"));
    mounts::validate_devices(errors, container, pod.volumes, &path.child("volumeDevices"));
    validate_pull_policy(errors, text(container, "imagePullPolicy"), &path.child("imagePullPolicy"));
    resources::validate(errors, &container["resources"], pod.claims, &path.child("resources"));
    validate_resize_policy(errors, container, pod.spec, &path.child("resizePolicy"));
    let host_users = pointer_flag(pod.spec, "hostUsers").unwrap_or(true);
    security::validate_container(errors, container, host_users, &path.child("securityContext"));
}

fn validate_resize_policy(errors: &mut Errors, container: &Value, spec: &Value, path: &Path) {
    let mut resources = BTreeSet::new();
    for (i, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !resources.insert(resource) {
            errors.duplicate(&path.index(i), resource);
        }
        errors.required_one_of(path, resource, &["cpu", "memory"]);
        errors.required_one_of(path, restart, &["NotRequired", "RestartContainer"]);
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            errors.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'");
        }
    }
}

const RULES_NEED_POLICY: &str = "must specify restartPolicy when restart rules are used";

fn validate_init_restart_policy(errors: &mut Errors, container: &Value, path: &Path) {
    let rules = list(container, "restartPolicyRules");
    match pointer_text(container, "restartPolicy") {
        None | Some("Always") if rules.is_empty() => {}
        None => errors.required(&path.child("restartPolicy"), RULES_NEED_POLICY),
        Some("Always") => errors.forbidden(
            &path.child("restartPolicyRules"),
            "restartPolicyRules are not allowed for init containers with restart policy Always",
        ),
        Some(_) => validate_restart_policy(errors, container, path),
    }
}

/// Checks when a container is restarted by itself (KEP-5307).
fn validate_restart_policy(errors: &mut Errors, container: &Value, path: &Path) {
    let rules = list(container, "restartPolicyRules");
    match pointer_text(container, "restartPolicy") {
        None if rules.is_empty() => return,
        None => errors.required(&path.child("restartPolicy"), RULES_NEED_POLICY),
        Some(policy) => errors.one_of(&path.child("restartPolicy"), policy, &["Always", "Never", "OnFailure"]),
    }
    let path = path.child("restartPolicyRules");
    if rules.len() > 20 {
        errors.push(Error::too_long(&path, 20));
    }
    for (i, rule) in rules.iter().enumerate() {
        let path = path.index(i);
        errors.one_of(&path.child("action"), text(rule, "action"), &["Restart"]);
        let Some(codes) = part(rule, "exitCodes") else {
            errors.required(&path.child("exitCodes"), "must be specified");
            continue;
        };
        let path = path.child("exitCodes");
        errors.one_of(&path.child("operator"), text(codes, "operator"), &["In", "NotIn"]);
        if list(codes, "values").len() > 255 {
            errors.push(Error::too_long(&path.child("values"), 255));
        }
    }
}
