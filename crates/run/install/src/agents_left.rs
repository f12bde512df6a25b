//! What an uninstallation leaves of in-pod agents: objects that users have applied, as `pillion install --print --agent` prints them.

use std::collections::BTreeMap;

use kube::api::{DynamicObject, ListParams};
use kube::{Client, ResourceExt as _};
use pillion_api::names::agent::{LABEL, MIRROR, NAME as AGENT};

use crate::error::Error;
use crate::objects::{Place, Say};

const ROLES: &str = "rbac.authorization.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";

/// Names the objects of agents that stay, and the command that deletes them, namespace by namespace. They belong to users: pods that still
/// run with an agent need its account, and its rights must not outlive the policy that bounds them.
pub(crate) async fn say_what_stays(client: &Client, say: Say<'_>) -> Result<(), Error> {
    let mut left: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let named = || ListParams::default().fields(&format!("metadata.name={AGENT}"));
    let of_namespaces = [
        ("v1", "ServiceAccount", named()),
        (ROLES, "Role", named()),
        (ROLES, "RoleBinding", named()),
        ("v1", "ConfigMap", ListParams::default().labels(LABEL)),
        ("v1", "ConfigMap", ListParams::default().labels(MIRROR)),
    ];
    for (version, kind, which) in of_namespaces {
        for object in list(client, version, kind, &which).await? {
            left.entry(object.namespace().unwrap_or_default()).or_default().push(named_as_kubectl(kind, &object));
        }
    }
    for kind in ["ValidatingAdmissionPolicyBinding", "ValidatingAdmissionPolicy"] {
        for object in list(client, ADMISSION, kind, &ListParams::default()).await? {
            let name = object.name_any();
            if let Some(namespace) = name.strip_prefix(AGENT).and_then(|rest| rest.strip_prefix('.')) {
                left.entry(namespace.to_owned()).or_default().push(named_as_kubectl(kind, &object));
            }
        }
    }
    for (namespace, objects) in left {
        say(&format!(
            "objects of the in-pod agent of namespace {namespace} stay; when no pod runs with it any more, delete them with `kubectl \
             --namespace={namespace} delete {}`",
            objects.join(" ")
        ));
    }
    Ok(())
}

fn named_as_kubectl(kind: &str, object: &DynamicObject) -> String {
    format!("{}/{}", kind.to_ascii_lowercase(), object.name_any())
}

/// Nothing of a kind that the cluster does not serve.
async fn list(client: &Client, version: &str, kind: &str, which: &ListParams) -> Result<Vec<DynamicObject>, Error> {
    match Place::new(version, kind, None, "").api(client).list(which).await {
        Ok(found) => Ok(found.items),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(Vec::new()),
        Err(error) => Err(Error::api(format!("list the objects of agents of kind {kind}"))(error)),
    }
}
