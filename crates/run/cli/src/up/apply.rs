//! Applies the user's manifests, what others need first.

use std::collections::BTreeSet;
use std::time::Duration;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::discovery::{self, Scope};
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use serde_json::Value;
use tokio::time::Instant;

use crate::manifest::Document;

/// Who owns the fields that a manifest sets.
const MANAGER: &str = "pillion-up";
/// How long a definition or a namespace that was just applied may take until its objects are taken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts meanwhile.
const PAUSE: Duration = Duration::from_millis(50);

/// A kind's place in the order; what is not named stands before the workloads.
fn rank(kind: &str) -> u8 {
    match kind {
        "Namespace" => 0,
        "CustomResourceDefinition" => 1,
        "PriorityClass" | "ServiceAccount" | "LimitRange" | "ClusterRole" | "Role" => 2,
        "ClusterRoleBinding" | "RoleBinding" | "ConfigMap" | "Secret" | "PersistentVolumeClaim" => 3,
        "ValidatingAdmissionPolicy" | "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => 4,
        "ValidatingAdmissionPolicyBinding" | "ControllerRevision" => 5,
        // Before the pods that it goes into.
        "SidecarSet" => 6,
        "Service" | "PodDisruptionBudget" => 7,
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "ReplicationController" => 9,
        "Pod" => 10,
        "Job" => 11,
        "CronJob" => 12,
        _ => 8,
    }
}

/// The documents in the order in which they are applied; documents of one rank stay in the order of the files.
pub(crate) fn in_order(mut documents: Vec<Document>) -> Vec<Document> {
    documents.sort_by_key(|document| rank(document.kind()));
    documents
}

/// Groups and kinds that may be served a moment later: SidecarSets, and what the manifests themselves define.
pub(crate) fn defined(documents: &[Document]) -> BTreeSet<(String, String)> {
    let text = |document: &Document, pointer| {
        document.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let ours = (names::GROUP.to_owned(), names::SIDECARSET_KIND.to_owned());
    documents
        .iter()
        .filter(|document| document.kind() == "CustomResourceDefinition")
        .map(|document| (text(document, "/spec/group"), text(document, "/spec/names/kind")))
        .chain([ours])
        .collect()
}

/// Applies one document as `kubectl apply --server-side` would, or creates it when only the API server can name it. Gives the object
/// as it is then.
///
/// # Errors
/// In words for the user: which document, and what the API server said.
pub(crate) async fn apply(
    client: &Client,
    document: &Document,
    defined: &BTreeSet<(String, String)>,
) -> Result<DynamicObject, String> {
    let complain = |what: String| format!("{}: {}: {what}", document.source, document.title());
    if document.api_version().is_empty() {
        return Err(complain("apiVersion is missing, or is no text such as \"apps/v1\"".to_owned()));
    }
    let mut object: DynamicObject =
        serde_json::from_value(document.value.clone()).map_err(|error| complain(error.to_string()))?;
    let kind = object.types.clone().unwrap_or_default();
    let kind = GroupVersionKind::try_from(&kind).map_err(|error| complain(error.to_string()))?;
    let (resource, scope) = resource(client, &kind, defined).await.map_err(&complain)?;
    let api: Api<DynamicObject> = match scope {
        Scope::Cluster => Api::all_with(client.clone(), &resource),
        Scope::Namespaced => {
            let namespace = object.namespace().unwrap_or_else(|| "default".to_owned());
            object.metadata.namespace = Some(namespace.clone());
            Api::namespaced_with(client.clone(), &namespace, &resource)
        }
    };
    let give_up_at = Instant::now() + PATIENCE;
    loop {
        match write(&api, &object).await {
            Err(error) if waits_for_account(&error) && Instant::now() < give_up_at => tokio::time::sleep(PAUSE).await,
            applied => return applied.map_err(|error| complain(reason(error))),
        }
    }
}

async fn write(api: &Api<DynamicObject>, object: &DynamicObject) -> kube::Result<DynamicObject> {
    if object.metadata.name.is_none() {
        return api.create(&PostParams::default(), object).await;
    }
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), force: true, ..PatchParams::default() };
    api.patch(&object.name_any(), &parameters, &Patch::Apply(object)).await
}

/// Whether a pod was refused because its namespace is so new that it has no default service account yet.
fn waits_for_account(error: &kube::Error) -> bool {
    let missing = "serviceaccount \"default\" not found";
    matches!(error, kube::Error::Api(status) if status.is_forbidden() && status.message.ends_with(missing))
}

/// What the API server said, without the client's words around it.
fn reason(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => other.to_string(),
    }
}

/// How objects of a kind are reached. A kind that the manifests define is waited for.
async fn resource(
    client: &Client,
    kind: &GroupVersionKind,
    defined: &BTreeSet<(String, String)>,
) -> Result<(ApiResource, Scope), String> {
    let is_defined = defined.contains(&(kind.group.clone(), kind.kind.clone()));
    let unknown = || {
        Err(format!(
            "no resource serves kind {:?} of {:?}; is the kind or the apiVersion mistyped? A custom resource needs its \
             CustomResourceDefinition among the manifests",
            kind.kind,
            kind.api_version()
        ))
    };
    let ask = async {
        loop {
            match discovery::pinned_kind(client, kind).await {
                Ok((resource, capabilities)) => return Ok((resource, capabilities.scope)),
                // An unknown group is answered with a plain text, which has no reason.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(kube::Error::Discovery(_)) => {}
                Err(error) => return Err(reason(error)),
            }
            if !is_defined {
                return unknown();
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    tokio::time::timeout(PATIENCE, ask).await.unwrap_or_else(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_kinds_that_the_manifests_define_are_waited_for() {
        let text =
            "{kind: CustomResourceDefinition, spec: {group: shop.example, names: {kind: Cart}}}\n---\n{kind: Pod}\n";
        let (documents, _) = crate::manifest::parse(&"crd.yaml".into(), text);
        let defined = defined(&documents);
        let names: Vec<String> = defined.iter().map(|(group, kind)| format!("{kind}.{group}")).collect();
        assert_eq!(names, ["SidecarSet.apps.kruise.io", "Cart.shop.example"]);
    }
}
