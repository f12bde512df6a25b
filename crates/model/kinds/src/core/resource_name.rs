//! Names of resources: `cpu`, `requests.memory`, `example.com/gpu`.

use crate::field::{Error, Path};
use crate::format::{check, qualified_name};

const COMPUTE: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// What is counted in whole objects.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether Kubernetes itself knows the resource.
pub(super) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

pub(super) fn is_overcommit_allowed(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether there are no parts of the resource.
pub(super) fn is_whole(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether a quota may bound the resource.
pub(super) fn is_quota(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    COMPUTE.contains(&plain)
        || COUNTED.contains(&name)
        || name == "requests.storage"
        || is_huge_pages(name)
        || name.starts_with("requests.hugepages-")
}

/// Refuses a name that is neither one of Kubernetes' own nor has a domain.
pub(super) fn validate(name: &str, path: &Path, errors: &mut Vec<Error>) {
    let complaints = qualified_name(name);
    if !complaints.is_empty() {
        return check(complaints, name, path, errors);
    }
    if !name.contains('/') && !is_quota(name) && name != "storage" {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
}

/// Refuses a name of something that no container has.
pub(super) fn validate_of_container(name: &str, path: &Path, errors: &mut Vec<Error>) {
    validate(name, path, errors);
    if !name.contains('/') {
        if !COMPUTE.contains(&name) && !is_huge_pages(name) {
            errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}

/// Refuses a name of something that no quota bounds.
pub(super) fn validate_of_quota(name: &str, path: &Path, errors: &mut Vec<Error>) {
    validate(name, path, errors);
    if !name.contains('/') && !is_quota(name) {
        errors.push(Error::invalid(path, name, "must be a standard resource for quota"));
    }
}
