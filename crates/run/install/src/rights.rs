//! The rights that whoever installs needs.

use pillion_api::names;
use pillion_manager::Peer;
use pillion_rightsizer::admission_lease;
use serde::Serialize;

use crate::check;
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

const LEASES: &str = "coordination.k8s.io";

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
        // A role may only be written by those who have its rights or may escalate it, and only be given by those who have them or may bind it.
        if matches!(plural, "clusterroles" | "roles") {
            for verb in ["escalate", "bind"] {
                add(Right::new(verb, group, plural, namespace.as_deref()));
            }
        }
    }
    // What an earlier installation has left, whichever parts it had, is looked for everywhere.
    for resource in kinds() {
        add(Right::new("list", &resource.group, &resource.plural, None));
    }
    // Whether an OpenKruise or a VerticalPodAutoscaler runs is seen by its Leases. The former is looked for in any case.
    add(Right::new("get", LEASES, "leases", Some(&options.revisions_namespace)));
    if options.takes_over(Peer::Vpa) {
        add(Right::new("get", LEASES, "leases", Some(admission_lease::NAMESPACE)));
    }
    // The admission at the end, and the replicas before it.
    for verb in ["create", "delete"] {
        add(Right::new(verb, names::GROUP, "sidecarsets", None));
    }
    add(Right::new("create", "", "pods", Some(check::namespace(options))));
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

    #[test]
    fn roles_are_written_and_given_wherever_there_are_any() {
        let rights = rights(&Options::default());
        for verb in ["escalate", "bind"] {
            let of_verb: Vec<String> = rights.iter().filter(|right| right.verb == verb).map(Right::object).collect();
            let roles = |namespace: &str| format!("roles.rbac.authorization.k8s.io in namespace {namespace}");
            let mut expected = vec!["clusterroles.rbac.authorization.k8s.io".to_owned()];
            expected.extend(["kruise-system", "pillion-system", "kube-system"].map(roles));
            for object in &expected {
                assert!(of_verb.contains(object), "{verb} {object}");
            }
            assert_eq!(of_verb.len(), expected.len(), "{of_verb:?}");
        }
    }

    #[test]
    fn leases_of_those_that_may_be_in_the_way_are_read() {
        let leases = |take_over: &str| -> Vec<Option<String>> {
            let rights = rights(&Options { take_over: take_over.to_owned(), ..Options::default() });
            let of_leases = rights.into_iter().filter(|right| right.verb == "get" && right.resource == "leases");
            of_leases.map(|right| right.namespace).collect()
        };
        assert_eq!(leases(""), [Some("kruise-system".to_owned())]);
        assert_eq!(leases("kruise,vpa"), [Some("kruise-system".to_owned()), Some("kube-system".to_owned())]);
    }

    #[test]
    fn the_pod_of_the_check_is_created_where_the_manager_sees_it() {
        let options = Options { namespace: "default".to_owned(), ..Options::default() };
        let created = rights(&options).into_iter().find(|right| right.verb == "create" && right.resource == "pods");
        assert_eq!(created.and_then(|right| right.namespace).as_deref(), Some("kruise-system"));
    }
}
