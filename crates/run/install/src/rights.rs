//! The rights that whoever installs needs.

use pillion_api::names;
use serde::Serialize;

use crate::manifests::manifests;
use crate::objects::{Place, kinds};
use crate::options::Options;

/// Something that one may or may not do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Right {
    /// The verb, as RBAC names it.
    pub verb: &'static str,
    /// The API group; empty for the core group.
    pub group: String,
    /// The resource, in plural.
    pub resource: String,
    /// The namespace; `None` for the whole cluster.
    pub namespace: Option<String>,
}

impl Right {
    fn new(verb: &'static str, group: &str, resource: &str, namespace: Option<&str>) -> Right {
        Right { verb, group: group.to_owned(), resource: resource.to_owned(), namespace: namespace.map(str::to_owned) }
    }

    /// What it is about: `deployments.apps in namespace pillion-system`.
    pub fn object(&self) -> String {
        let separator = if self.group.is_empty() { "" } else { "." };
        let place = self.namespace.as_ref().map(|namespace| format!(" in namespace {namespace}")).unwrap_or_default();
        format!("{}{separator}{}{place}", self.resource, self.group)
    }
}

/// What [`install`](crate::install()) does to a cluster.
pub fn rights(options: &Options) -> Vec<Right> {
    let mut rights: Vec<Right> = Vec::new();
    let mut add = |right: Right| {
        if !rights.contains(&right) {
            rights.push(right);
        }
    };
    for Place { resource, namespace, .. } in manifests(options).iter().map(Place::of) {
        let (group, plural) = (resource.group.as_str(), resource.plural.as_str());
        for verb in ["get", "create", "patch"] {
            add(Right::new(verb, group, plural, namespace.as_deref()));
        }
        if !matches!(plural, "namespaces" | "customresourcedefinitions") {
            add(Right::new("delete", group, plural, namespace.as_deref()));
        }
    }
    // What an earlier installation has left, whichever parts it had, is looked for everywhere.
    for resource in kinds() {
        add(Right::new("list", &resource.group, &resource.plural, None));
    }
    // A role may only be given by those who have its rights, or this one.
    add(Right::new("escalate", "rbac.authorization.k8s.io", "clusterroles", None));
    // The admission at the end, and the replicas before it.
    for verb in ["create", "delete"] {
        add(Right::new(verb, names::GROUP, "sidecarsets", None));
    }
    add(Right::new("create", "", "pods", Some("default")));
    add(Right::new("list", "", "pods", Some(&options.namespace)));
    rights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_an_installation_is_read_and_applied() {
        let rights = rights(&Options::default());
        for manifest in manifests(&Options::default()) {
            let place = Place::of(&manifest);
            for verb in ["get", "create", "patch"] {
                let right = Right::new(verb, &place.resource.group, &place.resource.plural, place.namespace.as_deref());
                assert_eq!(rights.iter().filter(|other| **other == right).count(), 1, "{right:?}");
            }
        }
        let deployments = Right::new("patch", "apps", "deployments", Some("pillion-system"));
        assert_eq!(deployments.object(), "deployments.apps in namespace pillion-system");
        assert!(!rights.iter().any(|right| right.verb == "delete" && right.resource == "namespaces"));
    }
}
