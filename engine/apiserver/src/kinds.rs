//! Finding Kubernetes' own resources.

use std::collections::HashMap;
use std::sync::LazyLock;

use pillion_kinds::resource::{self, Resource};
use pillion_patch::schema::{self, Schema};

type ByPath = HashMap<(&'static str, &'static str, &'static str), &'static Resource>;

static BY_PATH: LazyLock<ByPath> = LazyLock::new(|| {
    resource::all().iter().map(|resource| ((resource.group, resource.version, resource.plural), resource)).collect()
});

/// The resource of a path.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<&'static Resource> {
    BY_PATH.get(&(group, version, plural)).copied()
}

/// Kinds that every group and version has.
const OPTIONS: [&str; 8] = [
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "UpdateOptions",
    "WatchEvent",
    "Status",
];

/// Versions that Kubernetes still knows and no longer serves.
const GONE: [(&str, &[&str]); 6] = [
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet", "Scale"]),
    ("apps/v1beta1", &["ControllerRevision", "Deployment", "Scale", "StatefulSet"]),
    ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "Scale", "StatefulSet"]),
    ("batch/v1beta1", &["CronJob"]),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass"]),
    ("policy/v1beta1", &["Eviction", "PodDisruptionBudget"]),
];

/// Whether there is such a kind, lists of one and options included.
pub(crate) fn exists(version: &str, kind: &str) -> bool {
    if GONE.iter().any(|(gone, kinds)| *gone == version && kinds.contains(&kind)) {
        return true;
    }
    let mut in_version =
        resource::all().iter().filter(|resource| api_version(resource.group, resource.version) == version);
    let single = kind.strip_suffix("List").unwrap_or(kind);
    if OPTIONS.contains(&kind) {
        return in_version.next().is_some();
    }
    in_version.any(|resource| resource.kind == kind || resource.kind == single)
}

/// The resource whose objects have this kind.
pub(crate) fn of_kind(version: &str, kind: &str) -> Option<&'static Resource> {
    let same = |resource: &&Resource| resource.kind == kind && api_version(resource.group, resource.version) == version;
    resource::all().iter().find(same)
}

/// The shape of a kind.
pub(crate) fn schema(version: &str, kind: &str) -> Option<Schema<'static>> {
    schema::builtin().get(of_kind(version, kind)?.schema)
}

/// Whether there is a group of Kubernetes' own with this name.
pub(crate) fn has_group(group: &str) -> bool {
    resource::all().iter().any(|resource| resource.group == group)
}

/// `v1`, `apps/v1`
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
