//! How a container takes part in the life of its pod.

use std::fmt;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use pillion_rules::pod::SIDECAR_FIELD;
use serde_json::Value;

/// How a container takes part in the life of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Runs to its end before the next one starts.
    Init,
    /// An init container that is restarted always: runs beside all that follow it, and ends after them (KEP-753).
    NativeSidecar,
    /// Does the pod's work.
    Work,
    /// A regular container with `sidecar: true`: it is stopped when the work is done (KEP-0008).
    MarkedSidecar,
    /// Added to a running pod, and never restarted.
    Ephemeral,
}

impl Role {
    /// Whether the container is one of `initContainers`.
    pub fn is_init(self) -> bool {
        matches!(self, Role::Init | Role::NativeSidecar)
    }

    /// Whether the container is one of `containers`.
    pub fn is_regular(self) -> bool {
        matches!(self, Role::Work | Role::MarkedSidecar)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Role::Init => "init container",
            Role::NativeSidecar => "native sidecar",
            Role::Work => "work",
            Role::MarkedSidecar => "marked sidecar",
            Role::Ephemeral => "ephemeral container",
        })
    }
}

/// The regular containers of a pod that are marked as sidecars. The typed pod has no place for the mark.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked(Vec<String>);

impl Marked {
    /// No container is marked.
    pub const NONE: Marked = Marked(Vec::new());

    /// The containers of a pod, as JSON, that have `sidecar: true`.
    pub fn of(pod: &Value) -> Marked {
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let marked = containers.filter(|container| container[SIDECAR_FIELD] == true);
        marked.filter_map(|container| container["name"].as_str()).collect()
    }

    /// Whether a container is marked.
    pub fn contains(&self, container: &str) -> bool {
        self.0.iter().any(|name| name == container)
    }

    /// Whether no container is marked.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The names, in the order in which they were given.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }
}

impl<'a> FromIterator<&'a str> for Marked {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Marked {
        Marked(names.into_iter().map(str::to_owned).collect())
    }
}

pub(crate) fn of_init(container: &Container) -> Role {
    match container.restart_policy.as_deref() {
        Some("Always") => Role::NativeSidecar,
        _ => Role::Init,
    }
}

/// The role of a regular container. Where every container is marked, which the API server refuses, the marks mean nothing: there would be
/// no work, and the pod would end as soon as it starts.
pub(crate) fn of_regular(container: &Container, spec: &PodSpec, marked: &Marked) -> Role {
    let has_work = || spec.containers.iter().any(|other| !marked.contains(&other.name));
    if marked.contains(&container.name) && has_work() { Role::MarkedSidecar } else { Role::Work }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_container_with_the_field_is_marked_and_a_pod_of_sidecars_alone_has_none() {
        let pod = json!({"spec": {"containers": [
            {"name": "main"}, {"name": "proxy", "sidecar": true}, {"name": "log", "sidecar": false},
        ]}});
        let marked = Marked::of(&pod);
        assert_eq!(marked.names().collect::<Vec<_>>(), ["proxy"]);
        let spec: PodSpec = serde_json::from_value(pod["spec"].clone()).unwrap();
        let roles = |marked: &Marked| -> Vec<Role> {
            spec.containers.iter().map(|container| of_regular(container, &spec, marked)).collect()
        };
        assert_eq!(roles(&marked), [Role::Work, Role::MarkedSidecar, Role::Work]);
        assert_eq!(roles(&["main", "proxy", "log"].into_iter().collect()), [Role::Work; 3]);
    }
}
