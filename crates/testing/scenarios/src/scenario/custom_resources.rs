//! SidecarSet as a custom resource.

use anyhow::{Context as _, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use pillion_api::names;
use pillion_api::sidecarset::crd;
use serde_json::{Value, json};

use crate::{Namespace, wait};

pub(super) const NAME: &str = "sidecarsets.apps.kruise.io";

/// The CRD is established, keeps fields of newer clusters, and refuses what its schema refuses.
pub async fn the_api_server_takes_our_definition_of_sidecarset(namespace: &Namespace) -> anyhow::Result<()> {
    let _mine = namespace.cluster().alone().await;
    let definitions = definitions(namespace.client());
    let apply = PatchParams::apply("scenarios").force();
    definitions.patch(NAME, &apply, &Patch::Apply(crd::sidecarset())).await?;
    let condition = |definition: &CustomResourceDefinition, name: &str| {
        let conditions = definition.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == name && condition.status == "True")
    };
    let definition = wait::for_object(definitions, NAME, "established", |d| condition(d, "Established")).await?;
    ensure!(!condition(&definition, "NonStructuralSchema"), "the schema is not structural");

    let sets = sidecarsets(namespace.client());
    let policy = json!({"targetContainerMode": "sum", "resourceExpr": {"limits": {"cpu": "max(cpu*50%, 50m)"}}});
    let mut set = set(
        namespace,
        json!({"name": "proxy", "image": "envoy", "fieldOfTheFuture": {"deep": [1]}, "resourcesPolicy": policy}),
    );
    let stored = create(namespace, &set).await?;
    let container = stored.data["spec"]["containers"][0].clone();
    ensure!(container["fieldOfTheFuture"] == json!({"deep": [1]}), "a field was dropped: {container}");
    ensure!(
        container["resourcesPolicy"]["targetContainerMode"] == "sum",
        "the proposal's spelling was dropped: {container}"
    );

    set["spec"]["containers"][0]["resourcesPolicy"]["targetContainersMode"] = json!("max");
    set["metadata"]["name"] = json!(format!("{}-both", namespace.name()));
    let both = sets.create(&PostParams { dry_run: true, ..PostParams::default() }, &serde_json::from_value(set)?).await;
    let refused = both.err().context("both spellings at once were accepted")?;
    ensure!(refused.to_string().contains("targetContainersMode"), "refused without naming the field: {refused}");
    delete(namespace).await
}

/// Creates a SidecarSet, as soon as the API server serves them: Established comes a moment before, and a definition that is changed is not served
/// for a moment.
pub(super) async fn create(namespace: &Namespace, set: &Value) -> anyhow::Result<DynamicObject> {
    let set = serde_json::from_value(set.clone())?;
    wait::until("the API server serves SidecarSets", async || {
        match sidecarsets(namespace.client()).create(&PostParams::default(), &set).await {
            Ok(stored) => Ok(Some(stored)),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 503) => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

/// Deletes the SidecarSet of a namespace, if there is one.
pub(super) async fn delete(namespace: &Namespace) -> anyhow::Result<()> {
    wait::until("the SidecarSet is deleted", async || {
        match sidecarsets(namespace.client()).delete(namespace.name(), &DeleteParams::default()).await {
            Ok(_) => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Some(())),
            Err(kube::Error::Api(status)) if status.code == 503 => Ok(None),
            Err(error) => Err(error.into()),
        }
    })
    .await
}

pub(super) fn definitions(client: Client) -> Api<CustomResourceDefinition> {
    Api::all(client)
}

pub(super) fn sidecarsets(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(names::GROUP, "v1beta1", names::SIDECARSET_KIND);
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "sidecarsets"))
}

fn set(namespace: &Namespace, container: Value) -> Value {
    json!({
        "apiVersion": names::V1BETA1, "kind": names::SIDECARSET_KIND, "metadata": {"name": namespace.name()},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "containers": [container]}
    })
}
