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

/// `hugepages-2Mi`.
pub fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Whether the resource is Kubernetes' own.
fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether more may be promised than there is: true of Kubernetes' own resources but huge pages.
pub fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// `example.com/gpu`.
fn is_extended(name: &str) -> bool {
    !is_native(name) && !name.starts_with("requests.") && qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether there are no parts of the resource.
pub fn is_whole(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether a quota may bound the resource.
fn is_quota(name: &str) -> bool {
    let plain = name.strip_prefix("requests.").or_else(|| name.strip_prefix("limits.")).unwrap_or(name);
    COMPUTE.contains(&plain)
        || COUNTED.contains(&name)
        || name == "requests.storage"
        || is_huge_page(name)
        || name.starts_with("requests.hugepages-")
}

/// Refuses a name that is neither one of Kubernetes' own nor has a domain. True if nothing is wrong with it.
pub fn validate(name: &str, path: &Path, errors: &mut Vec<Error>) -> bool {
    let before = errors.len();
    check(qualified_name(name), name, path, errors);
    if errors.len() == before && !name.contains('/') && !is_quota(name) && name != "storage" {
        errors.push(Error::invalid(path, name, "must be a standard resource type or fully qualified"));
    }
    errors.len() == before
}

/// Refuses a name of something that no container has.
pub fn validate_of_container(name: &str, path: &Path, errors: &mut Vec<Error>) {
    validate(name, path, errors);
    if !name.contains('/') {
        if !COMPUTE.contains(&name) && !is_huge_page(name) {
            errors.push(Error::invalid(path, name, "must be a standard resource for containers"));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(Error::invalid(path, name, "doesn't follow extended resource name standard"));
    }
}
