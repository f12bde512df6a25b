//! The namespaces of an installation that goes: deleted, or left to whoever else has something in them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_api::names::{self, MANAGED_BY};
use serde_json::{Value, json};

use crate::error::Error;
use crate::manifests::{COMPONENT_LABEL, HOME, NAME_LABEL, POD_SECURITY, POD_SECURITY_LEVEL, REVISIONS};
use crate::objects::{FIELD_MANAGER, Place, Say};

/// By these a namespace is in use. What controllers make from them (endpoints, events) goes with it.
const KINDS: [(&str, &str); 12] = [
    ("v1", "Pod"),
    ("v1", "ReplicationController"),
    ("v1", "Service"),
    ("v1", "ConfigMap"),
    ("v1", "Secret"),
    ("v1", "PersistentVolumeClaim"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "ReplicaSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
];

/// ConfigMaps that Kubernetes, and a platform or a mesh on it, put into every namespace.
const IN_EVERY_NAMESPACE: [&str; 3] = ["kube-root-ca.crt", "openshift-service-ca.crt", "istio-ca-root-cert"];

/// Namespaces that the API server does not delete, or makes again.
const OF_KUBERNETES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// How many objects are named where a namespace stays.
const NAMED: usize = 3;

/// Whether a namespace was made for revisions of SidecarSets, or has some: they go with the SidecarSets, and stay with them.
pub(crate) async fn holds_revisions(client: &Client, namespace: &Place) -> Result<bool, Error> {
    let labels = namespace.get(client).await?.and_then(|live| live.metadata.labels).unwrap_or_default();
    let is_made_for_them = labels.get(COMPONENT_LABEL).is_some_and(|component| component == REVISIONS);
    Ok(is_made_for_them || !revisions(client, &namespace.name).await?.is_empty())
}

/// Deletes a namespace of the installation, whose own objects are gone. If anything else is in it, it stays, and is not part of an installation
/// any more: `pillion install --print` may have been applied over a namespace that was there before. Gives whether it goes.
pub(crate) async fn delete_or_leave(client: &Client, namespace: &Place, say: Say<'_>) -> Result<bool, Error> {
    let why = if OF_KUBERNETES.contains(&namespace.name.as_str()) {
        "it is one of Kubernetes' own".to_owned()
    } else {
        let others = of_others(client, &namespace.name).await?;
        if others.is_empty() {
            namespace.delete(client, say).await?;
            return Ok(true);
        }
        let more = others.len().saturating_sub(NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("it has {}{more}", others[..others.len().min(NAMED)].join(", "))
    };
    take_labels_off(client, namespace).await?;
    say(&format!("{namespace} stays, without the labels of the installation: {why}"));
    Ok(false)
}

/// What is in a namespace and neither part of an installation nor in every namespace.
async fn of_others(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    for (version, kind) in KINDS {
        let all = Place::new(version, kind, Some(namespace), "").api(client);
        let listed = match all.list_metadata(&ListParams::default()).await {
            Ok(listed) => listed.items,
            // A cluster that does not serve the kind has none of it.
            Err(kube::Error::Api(status)) if status.is_not_found() => continue,
            Err(error) => return Err(Error::api(format!("list every {kind} in namespace {namespace}"))(error)),
        };
        let others = listed.iter().filter(|live| is_of_others(kind, &live.metadata));
        found.extend(others.map(|live| format!("{}/{}", kind.to_ascii_lowercase(), live.name_any())));
    }
    found.extend(revisions(client, namespace).await?);
    Ok(found)
}

/// The revisions of SidecarSets in a namespace.
async fn revisions(client: &Client, namespace: &str) -> Result<Vec<String>, Error> {
    let all = Place::new("apps/v1", "ControllerRevision", Some(namespace), "").api(client);
    let listed = all.list_metadata(&ListParams::default().labels(names::REVISION_OWNER)).await;
    let listed = listed.map_err(Error::api(format!("list the revisions of SidecarSets in namespace {namespace}")))?;
    Ok(listed.items.iter().map(|live| format!("controllerrevision/{}", live.name_any())).collect())
}

/// Whether an object is there for somebody else than this installation, of which everything was deleted before.
fn is_of_others(kind: &str, live: &ObjectMeta) -> bool {
    let has_owner = live.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
    let annotations = live.annotations.as_ref();
    live.deletion_timestamp.is_none()
        && match kind {
            // Its owner counts; that of the manager has just been deleted.
            "ReplicaSet" | "Job" => !has_owner,
            "ConfigMap" => !live.name.as_deref().is_some_and(|name| IN_EVERY_NAMESPACE.contains(&name)),
            // The token of an account is made for it.
            "Secret" => !annotations.is_some_and(|all| all.contains_key("kubernetes.io/service-account.name")),
            _ => true,
        }
}

/// Takes off what an installation writes on its namespaces, so that a later removal does not take one that stays for its own.
async fn take_labels_off(client: &Client, namespace: &Place) -> Result<(), Error> {
    let Some(live) = namespace.get(client).await? else { return Ok(()) };
    let has = |key: &str, value: &str| live.labels().get(key).is_some_and(|label| label == value);
    let mut labels = json!({NAME_LABEL: null, COMPONENT_LABEL: null, MANAGED_BY: null});
    // Another level is somebody else's.
    if has(COMPONENT_LABEL, HOME) && has(POD_SECURITY, POD_SECURITY_LEVEL) {
        labels[POD_SECURITY] = Value::Null;
    }
    let merge = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let without = Patch::Merge(json!({"metadata": {"labels": labels}}));
    let patched = namespace.api(client).patch(&namespace.name, &merge, &without).await;
    patched.map(drop).map_err(Error::api(format!("take the labels of the installation off {namespace}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_every_namespace_or_goes_with_its_owner_is_not_somebody_elses() {
        let owned =
            json!({"name": "a", "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "1"}]});
        let of_account = json!({"name": "a", "annotations": {"kubernetes.io/service-account.name": "default"}});
        let going = json!({"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let rows = [
            ("ConfigMap", json!({"name": "orders"}), true),
            ("ConfigMap", json!({"name": "kube-root-ca.crt"}), false),
            ("Secret", json!({"name": "registry"}), true),
            ("Secret", of_account, false),
            ("ReplicaSet", owned.clone(), false),
            ("ReplicaSet", json!({"name": "a"}), true),
            // Its owner may be of a kind that is not looked for.
            ("Pod", owned, true),
            ("Pod", going, false),
        ];
        for (kind, metadata, expected) in rows {
            let live: ObjectMeta = serde_json::from_value(metadata.clone()).unwrap();
            assert_eq!(is_of_others(kind, &live), expected, "{kind} {metadata}");
        }
    }
}
