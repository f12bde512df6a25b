//! What differs in pods for Windows.

use serde_json::Value;

use super::format;
use super::report::{Errors, Report};
use crate::field::Path;
use crate::pod::read::{containers, flag, list, part, pointer_flag, pointer_text, text};

/// Checks the Windows part of a security context.
pub(super) fn validate_options(errors: &mut Errors, context: &Value, path: &Path) {
    let Some(options) = part(context, "windowsOptions") else { return };
    if let Some(name) = pointer_text(options, "gmsaCredentialSpecName") {
        errors.each(&path.child("gmsaCredentialSpecName"), name, format::dns_subdomain(name));
    }
    if let Some(spec) = pointer_text(options, "gmsaCredentialSpec") {
        let path = path.child("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&path, spec, "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > 64 * 1024 {
            errors.invalid(&path, spec, "gmsaCredentialSpec size must be under 64 KiB");
        }
    }
    if let Some(name) = pointer_text(options, "runAsUserName") {
        validate_user_name(errors, name, &path.child("runAsUserName"));
    }
}

/// `user` or `DOMAIN\user`.
fn validate_user_name(errors: &mut Errors, name: &str, path: &Path) {
    let mut refuse = |rule: &str| errors.invalid(path, name, rule);
    if name.is_empty() {
        return refuse("runAsUserName cannot be an empty string");
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return refuse("runAsUserName cannot contain control characters");
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => {
            return refuse("runAsUserName cannot contain more than one backslash");
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    if domain.is_some_and(|domain| domain.len() >= 256) {
        refuse("runAsUserName's Domain length must be under 256 characters");
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        refuse("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
    }
    if user.is_empty() {
        refuse("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        refuse("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        refuse("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        refuse(r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#);
    }
}

fn is_net_bios(domain: &str) -> bool {
    let is_good = |c: char| !matches!(c, '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|');
    (1..=15).contains(&domain.chars().count()) && !domain.starts_with('.') && domain.chars().all(is_good)
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let is_edge = |b: u8| b.is_ascii_alphanumeric();
        label.len() <= 63
            && label.bytes().next().is_some_and(is_edge)
            && label.bytes().next_back().is_some_and(is_edge)
            && label.bytes().all(|b| is_edge(b) || b == b'-')
    })
}

/// Checks that a pod is either wholly or not at all made of containers that are processes of the host.
pub(super) fn validate_host_process(errors: &mut Errors, spec: &Value, path: &Path) {
    let host_process = |of: &Value| pointer_flag(&of["securityContext"]["windowsOptions"], "hostProcess");
    let of_pod = host_process(spec);
    let all = containers(spec, path);
    let mut on_host = 0;
    for (container, path) in &all {
        let own = host_process(container);
        if let (Some(of_pod), Some(own)) = (of_pod, own)
            && of_pod != own
        {
            let path = path.child("securityContext").child("windowsOptions").child("hostProcess");
            let rule = format!("pod hostProcess value must be identical if both are specified, was {of_pod}");
            errors.invalid(&path, own, rule);
        }
        if own.or(of_pod) == Some(true) {
            on_host += 1;
        }
    }
    if on_host == 0 {
        return;
    }
    if on_host != all.len() {
        let rule = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", rule);
    }
    if !flag(spec, "hostNetwork") {
        let rule = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.child("hostNetwork"), false, rule);
    }
}

/// Checks that a pod that names its operating system has nothing of the other one.
pub(super) fn validate_os(errors: &mut Errors, spec: &Value, path: &Path) {
    let Some(os) = part(spec, "os") else { return };
    match text(os, "name") {
        "" => errors.required(&path.child("os").child("name"), ""),
        "linux" => validate_linux(errors, spec, path),
        "windows" => validate_windows(errors, spec, path),
        other => errors.unsupported(&path.child("os"), other, &["linux", "windows"]),
    }
}

fn validate_linux(errors: &mut Errors, spec: &Value, path: &Path) {
    let whole = [(spec, path.clone())];
    for (of, path) in whole.into_iter().chain(containers(spec, path)) {
        if part(&of["securityContext"], "windowsOptions").is_some() {
            let path = path.child("securityContext").child("windowsOptions");
            errors.forbidden(&path, "windows options cannot be set for a linux pod");
        }
    }
}

fn validate_windows(errors: &mut Errors, spec: &Value, path: &Path) {
    const RULE: &str = "cannot be set for a windows pod";
    let context = &spec["securityContext"];
    let context_path = path.child("securityContext");
    let mut refuse = |refused: bool, path: &Path, field: &str| {
        if refused {
            errors.forbidden(&path.child(field), RULE);
        }
    };
    for field in ["appArmorProfile", "seLinuxOptions"] {
        refuse(part(context, field).is_some(), &context_path, field);
    }
    refuse(part(spec, "hostUsers").is_some(), path, "hostUsers");
    refuse(flag(spec, "hostPID"), path, "hostPID");
    refuse(flag(spec, "hostIPC"), path, "hostIPC");
    for field in ["seccompProfile", "fsGroup", "fsGroupChangePolicy"] {
        refuse(part(context, field).is_some(), &context_path, field);
    }
    refuse(!list(context, "sysctls").is_empty(), &context_path, "sysctls");
    refuse(part(spec, "shareProcessNamespace").is_some(), path, "shareProcessNamespace");
    for field in ["runAsUser", "runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy"] {
        refuse(part(context, field).is_some(), &context_path, field);
    }
    for (container, path) in containers(spec, path) {
        for field in [
            "appArmorProfile",
            "seLinuxOptions",
            "seccompProfile",
            "capabilities",
            "readOnlyRootFilesystem",
            "privileged",
            "allowPrivilegeEscalation",
            "procMount",
            "runAsUser",
            "runAsGroup",
        ] {
            refuse(part(&container["securityContext"], field).is_some(), &path.child("securityContext"), field);
        }
    }
}
