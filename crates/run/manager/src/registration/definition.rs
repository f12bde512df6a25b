//! The definition of SidecarSets, and its conversion by the webhook.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams};
use pillion_api::sidecarset::crd;
use pillion_api::{names, probe_marker, vpa};
use serde_json::{Value, json};

use super::apply::{apply, live};
use super::{NAME, paths};
use crate::config::{Config, WebhookAddress};
use crate::error::Error;

/// The field manager of the definition, which is also that of `pillion install`. It differs from [`NAME`]: a manager that registers its conversion
/// applies that field alone, and would otherwise remove all others.
const INSTALLER: &str = "pillion-install";

pub(crate) fn definition_name() -> String {
    format!("sidecarsets.{}", names::GROUP)
}

pub(super) fn conversion(address: &WebhookAddress, bundle: &str) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": address.of_conversion().client_config(paths::CONVERT, bundle), "conversionReviewVersions": ["v1"]},
    })
}

/// Applies the definition. Its conversion belongs to the manager that serves the webhooks, and stays as it is.
pub(crate) async fn install_definition(config: &Config) -> Result<(), Error> {
    apply::<CustomResourceDefinition>(config, INSTALLER, &crd::sidecarset()).await.map(drop)
}

/// Applies the definitions of VerticalPodAutoscaler, its checkpoints and PodProbeMarker where there are none. Those of upstream are as good.
pub(crate) async fn install_other_definitions(config: &Config) -> Result<(), Error> {
    for definition in [vpa::crd::vertical_pod_autoscaler(), vpa::crd::checkpoint(), probe_marker::crd()] {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        if live::<CustomResourceDefinition>(config, name).await?.is_null() {
            apply::<CustomResourceDefinition>(config, INSTALLER, &definition).await?;
        }
    }
    Ok(())
}

pub(crate) async fn live_definition(config: &Config) -> Result<Option<CustomResourceDefinition>, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(config.client.clone());
    let name = definition_name();
    definitions.get_opt(&name).await.map_err(Error::api(format!("read CustomResourceDefinition {name:?}")))
}

/// Has API servers convert SidecarSets with the webhook, which listing them may need. Returns whether something was written.
pub(crate) async fn register_conversion(config: &Config, bundle: &str) -> Result<bool, Error> {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition_name()},
        "spec": {"conversion": conversion(&config.address, bundle)},
    });
    replace_address(config, &definition).await?;
    apply::<CustomResourceDefinition>(config, NAME, &definition).await
}

/// A conversion webhook has a Service or a URL. What somebody else has written of the other kind would stay beside what is applied, and the API
/// server would refuse both together: it is replaced in one write.
async fn replace_address(config: &Config, definition: &Value) -> Result<(), Error> {
    const CLIENT: &str = "/spec/conversion/webhook/clientConfig";
    let live = live::<CustomResourceDefinition>(config, &definition_name()).await?;
    let is_both = |wanted: &str, other: &str| {
        let has = |object: &Value, key: &str| object.pointer(CLIENT).is_some_and(|client| !client[key].is_null());
        has(definition, wanted) && has(&live, other)
    };
    let Some(other) =
        [("url", "service"), ("service", "url")].into_iter().find(|(wanted, other)| is_both(wanted, other))
    else {
        return Ok(());
    };
    let mut change = json!({"spec": {"conversion": definition["spec"]["conversion"]}});
    if let Some(client) = change.pointer_mut(CLIENT) {
        client[other.1] = Value::Null;
    }
    let api: Api<CustomResourceDefinition> = Api::all(config.client.clone());
    let parameters = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
    let replaced = api.patch(&definition_name(), &parameters, &Patch::Merge(change)).await;
    replaced.map(drop).map_err(Error::api(format!("replace the conversion of {:?}", definition_name())))
}
