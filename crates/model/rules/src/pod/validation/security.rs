//! Security contexts of pods and containers.

use std::collections::BTreeSet;

use serde_json::Value;

use super::format;
use super::paths::validate_descending;
use super::report::{Errors, Report};
use crate::field::{Error, Path};
use crate::pod::internal;
use crate::pod::read::{flag, list, part, pointer_flag, pointer_number, pointer_text, text};

/// Checks the security context of a container.
pub(super) fn validate_container(errors: &mut Errors, container: &Value, host_users: bool, path: &Path) {
    let Some(context) = part(container, "securityContext") else { return };
    for field in ["runAsUser", "runAsGroup"] {
        if let Some(id) = pointer_number(context, field) {
            errors.each(&path.child(field), id, format::user_id(id));
        }
    }
    if let Some(mount) = pointer_text(context, "procMount") {
        errors.one_of(&path.child("procMount"), mount, &["Default", "Unmasked"]);
        if host_users && mount == "Unmasked" {
            errors.invalid(&path.child("procMount"), mount, "`hostUsers` must be false to use `Unmasked`");
        }
    }
    validate_seccomp(errors, context, &path.child("seccompProfile"));
    if pointer_flag(context, "allowPrivilegeEscalation") == Some(false) {
        let mut refuse = |what: &str| {
            let rule = format!("cannot set `allowPrivilegeEscalation` to false and {what}");
            errors.invalid(path, internal::bad_value("SecurityContext", context), rule);
        };
        if flag(context, "privileged") {
            refuse("`privileged` to true");
        }
        for _ in list(&context["capabilities"], "add").iter().filter(|name| *name == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    validate_app_armor(errors, part(context, "appArmorProfile"), &path.child("appArmorProfile"));
}

/// Checks the security context of a pod.
pub(super) fn validate_pod(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(context) = part(spec, "securityContext") else { return };
    for field in ["fsGroup", "runAsUser", "runAsGroup"] {
        if let Some(id) = pointer_number(context, field) {
            errors.each(&path.child(field), id, format::user_id(id));
        }
    }
    for (i, id) in list(context, "supplementalGroups").iter().filter_map(Value::as_i64).enumerate() {
        errors.each(&path.child("supplementalGroups").index(i), id, format::user_id(id));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let rule = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.child("shareProcessNamespace"), true, rule);
    }
    validate_sysctls(errors, spec, context, &path.child("sysctls"));
    if let Some(policy) = pointer_text(context, "fsGroupChangePolicy") {
        errors.one_of(&path.child("fsGroupChangePolicy"), policy, &["Always", "OnRootMismatch"]);
    }
    validate_seccomp(errors, context, &path.child("seccompProfile"));
    validate_app_armor(errors, part(context, "appArmorProfile"), &path.child("appArmorProfile"));
    if let Some(policy) = pointer_text(context, "supplementalGroupsPolicy") {
        errors.one_of(&path.child("supplementalGroupsPolicy"), policy, &["Merge", "Strict"]);
    }
    if let Some(policy) = pointer_text(context, "seLinuxChangePolicy") {
        // `MountOption` waits for the gate SELinuxMount.
        errors.one_of(&path.child("seLinuxChangePolicy"), policy, &["Recursive"]);
    }
}

fn validate_sysctls(errors: &mut Errors, spec: &Value, context: &Value, path: &Path) {
    let mut names = BTreeSet::new();
    for (i, sysctl) in list(context, "sysctls").iter().enumerate() {
        let path = path.index(i).child("name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            errors.required(&path, "");
        } else if !is_sysctl(name) {
            let rule = r"must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&path, name, rule);
        } else if names.contains(name) {
            errors.duplicate(&path, name);
        }
        match sysctl_namespace(name) {
            Some("net") if flag(spec, "hostNetwork") => {
                errors.invalid(&path, name, "may not be specified when 'hostNetwork' is true");
            }
            Some("ipc") if flag(spec, "hostIPC") => {
                errors.invalid(&path, name, "may not be specified when 'hostIPC' is true");
            }
            _ => {}
        }
        names.insert(name);
    }
}

fn is_sysctl(name: &str) -> bool {
    let is_edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_segment = |segment: &str| {
        segment.bytes().next().is_some_and(is_edge)
            && segment.bytes().next_back().is_some_and(is_edge)
            && segment.bytes().all(|b| is_edge(b) || matches!(b, b'-' | b'_'))
    };
    name.len() <= 253 && name.split(['.', '/']).all(is_segment)
}

/// Which namespace of the kernel a sysctl belongs to, if it is known to belong to one.
fn sysctl_namespace(name: &str) -> Option<&'static str> {
    // `net/ipv4/conf/eth0.1/x` is `net.ipv4.conf.eth0/1.x`.
    let swapped = name.find(['.', '/']).is_some_and(|at| name.as_bytes().get(at) == Some(&b'/'));
    let name = if swapped {
        name.chars()
            .map(|c| {
                if c == '.' {
                    '/'
                } else if c == '/' {
                    '.'
                } else {
                    c
                }
            })
            .collect()
    } else {
        name.to_owned()
    };
    let name = name.split('*').next().unwrap_or_default();
    match name {
        "kernel.sem"
        | "kernel.shmall"
        | "kernel.shmmax"
        | "kernel.shmmni"
        | "kernel.shm_rmid_forced"
        | "kernel.shm"
        | "kernel.msgmax"
        | "kernel.msgmnb"
        | "kernel.msgmni"
        | "kernel.msg" => Some("ipc"),
        _ if name.starts_with("net.") => Some("net"),
        _ if name.starts_with("fs.mqueue.") => Some("ipc"),
        _ => None,
    }
}

fn validate_seccomp(errors: &mut Errors, context: &Value, path: &Path) {
    let Some(profile) = part(context, "seccompProfile") else { return };
    let kind = text(profile, "type");
    if kind.is_empty() {
        errors.required(&path.child("type"), "type is required when seccompProfile is set");
    } else {
        errors.one_of(&path.child("type"), kind, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    let path = path.child("localhostProfile");
    match (kind, pointer_text(profile, "localhostProfile")) {
        ("Localhost", None) => errors.required(&path, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(file)) => validate_descending(errors, file, &path),
        (_, Some(_)) => {
            let value = internal::bad_value("SeccompProfile", profile);
            errors.invalid(&path, value, "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

/// Checks an `AppArmor` profile.
fn validate_app_armor(errors: &mut Errors, profile: Option<&Value>, path: &Path) {
    let Some(profile) = profile else { return };
    let file = pointer_text(profile, "localhostProfile");
    let file_path = path.child("localhostProfile");
    match text(profile, "type") {
        "Localhost" => match file {
            Some(file) if file != file.trim() => {
                errors.invalid(&file_path, file, "must not be padded with whitespace");
            }
            None | Some("") => errors.required(&file_path, "must be set when AppArmor type is Localhost"),
            Some(_) => {}
        },
        "RuntimeDefault" | "Unconfined" => {
            if let Some(file) = file {
                errors.invalid(&file_path, file, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(&path.child("type"), "type is required when appArmorProfile is set"),
        other => errors.unsupported(&path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
    if text(profile, "type") == "Localhost" && file.is_some_and(|file| file.len() > 4095) {
        errors.push(Error::too_long(&file_path, 4095));
    }
}
