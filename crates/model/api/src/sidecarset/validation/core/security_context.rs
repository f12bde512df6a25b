//! What a container may do to its node.

use k8s_openapi::api::core::v1::SecurityContext;

use super::mounts::validate_local_path;
use super::one_of;
use crate::field::{Error, Path};

pub(super) fn validate(context: &SecurityContext, path: &Path, errors: &mut Vec<Error>) {
    for (field, id) in [("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)] {
        if let Some(id) = id.filter(|id| !(0..=i64::from(i32::MAX)).contains(id)) {
            errors.push(Error::invalid(&path.child(field), id, "must be between 0 and 2147483647, inclusive"));
        }
    }
    one_of(context.proc_mount.as_deref(), &["Default", "Unmasked"], &path.child("procMount"), errors);

    if context.allow_privilege_escalation == Some(false) {
        let path = path.child("allowPrivilegeEscalation");
        if context.privileged == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.push(Error::invalid(&path, false, detail));
        }
        let mut added = context.capabilities.iter().flat_map(|capabilities| capabilities.add.iter().flatten());
        if added.any(|capability| capability == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.push(Error::invalid(&path, false, detail));
        }
    }
    if let Some(profile) = &context.seccomp_profile {
        let path = path.child("seccompProfile");
        validate_profile(&profile.type_, profile.localhost_profile.as_deref(), &path, errors);
        if let Some(file) = &profile.localhost_profile {
            validate_local_path(file, &path.child("localhostProfile"), errors);
        }
    }
    if let Some(profile) = &context.app_armor_profile {
        // An empty name is none.
        let name = profile.localhost_profile.as_deref().filter(|name| !name.is_empty());
        validate_profile(&profile.type_, name, &path.child("appArmorProfile"), errors);
    }
}

/// A profile of the node has a name, and the others have none.
fn validate_profile(kind: &str, localhost: Option<&str>, path: &Path, errors: &mut Vec<Error>) {
    one_of(Some(kind), &["Localhost", "RuntimeDefault", "Unconfined"], &path.child("type"), errors);
    let path = path.child("localhostProfile");
    match (kind, localhost) {
        ("Localhost", None) => errors.push(Error::required(&path, "must be set when type is Localhost")),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(name)) => errors.push(Error::invalid(&path, name, "can only be set when type is Localhost")),
    }
}
