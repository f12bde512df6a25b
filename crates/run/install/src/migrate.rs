//! Stored SidecarSets, readable without the conversion webhook.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use pillion_api::names;
use serde_json::json;

use crate::error::Error;
use crate::manifests::SERVICE;
use crate::objects::{FIELD_MANAGER, Place, Say};

/// The definition of SidecarSet, if there is one.
pub(crate) async fn definition(client: &Client) -> Result<Option<CustomResourceDefinition>, Error> {
    let what = Error::api(format!("read CustomResourceDefinition {}", definition_name()));
    definitions(client).get_opt(&definition_name()).await.map_err(what)
}

pub(crate) fn definition_name() -> String {
    format!("sidecarsets.{}", names::GROUP)
}

fn definitions(client: &Client) -> Api<CustomResourceDefinition> {
    Api::all(client.clone())
}

/// Writes every SidecarSet back as it is, if any may be stored in another version than the one that is stored today: the API server then
/// stores it in that one. The webhook that converts them must still be there.
pub(crate) async fn to_storage_version(
    client: &Client,
    definition: &CustomResourceDefinition,
    say: Say<'_>,
) -> Result<(), Error> {
    let Some(version) = storage_version(definition).filter(|version| stored_versions(definition) != [version.as_str()])
    else {
        return Ok(());
    };
    let sets = Place::new(&format!("{}/{version}", names::GROUP), names::SIDECARSET_KIND, None, "").api(client);
    let mut written = 0;
    let mut page = ListParams::default().limit(500);
    loop {
        let listed = sets.list(&page).await.map_err(Error::api("list SidecarSets to store them in one version"))?;
        for set in &listed.items {
            let name = set.metadata.name.as_deref().unwrap_or_default();
            let parameters = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            match sets.replace(name, &parameters, set).await {
                Ok(_) => written += 1,
                // Whoever was faster has written it in today's version, or deleted it.
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                Err(error) => return Err(Error::api(format!("store SidecarSet {name:?} as {version}"))(error)),
            }
        }
        match listed.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    let storage = json!({"status": {"storedVersions": [version]}});
    let what = Error::api(format!("record that SidecarSets are stored as {version}"));
    let merge = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    definitions(client).patch_status(&definition_name(), &merge, &Patch::Merge(storage)).await.map_err(what)?;
    say(&format!("{written} SidecarSets are stored as {version}"));
    Ok(())
}

/// Has the API server convert SidecarSets without the manager's webhook. The manager must be gone, or it sets the webhook again.
pub(crate) async fn without_webhook(
    client: &Client,
    definition: &CustomResourceDefinition,
    say: Say<'_>,
) -> Result<(), Error> {
    if !is_converted_by_us(definition) {
        return Ok(());
    }
    let conversion = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let merge = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    let what = Error::api("remove the conversion webhook of SidecarSets");
    definitions(client).patch(&definition_name(), &merge, &Patch::Merge(conversion)).await.map_err(what)?;
    say("SidecarSets are converted without a webhook");
    Ok(())
}

fn is_converted_by_us(definition: &CustomResourceDefinition) -> bool {
    let conversion = definition.spec.conversion.as_ref();
    let config = conversion.and_then(|conversion| conversion.webhook.as_ref()?.client_config.as_ref());
    config.and_then(|config| config.service.as_ref()).is_some_and(|service| service.name.starts_with(SERVICE))
}

fn storage_version(definition: &CustomResourceDefinition) -> Option<String> {
    definition.spec.versions.iter().find(|version| version.storage).map(|version| version.name.clone())
}

fn stored_versions(definition: &CustomResourceDefinition) -> Vec<&str> {
    let stored = definition.status.as_ref().and_then(|status| status.stored_versions.as_ref());
    stored.into_iter().flatten().map(String::as_str).collect()
}

/// Deletes every SidecarSet. Gives how many there were.
pub(crate) async fn delete_all(client: &Client, definition: &CustomResourceDefinition) -> Result<usize, Error> {
    let Some(version) = storage_version(definition) else { return Ok(0) };
    let sets = Place::new(&format!("{}/{version}", names::GROUP), names::SIDECARSET_KIND, None, "").api(client);
    let found = sets.list_metadata(&ListParams::default()).await.map_err(Error::api("list SidecarSets"))?;
    let deleted = sets.delete_collection(&DeleteParams::default(), &ListParams::default()).await;
    deleted.map_err(Error::api("delete all SidecarSets"))?;
    Ok(found.items.len())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn definition(conversion: Value) -> CustomResourceDefinition {
        serde_json::from_value(json!({
            "metadata": {"name": "sidecarsets.apps.kruise.io"},
            "spec": {
                "group": "apps.kruise.io", "scope": "Cluster", "names": {"kind": "SidecarSet", "plural": "sidecarsets"},
                "conversion": conversion,
                "versions": [{"name": "v1alpha1", "served": true, "storage": false}, {"name": "v1beta1", "served": true, "storage": true}],
            },
            "status": {"storedVersions": ["v1alpha1", "v1beta1"]},
        }))
        .unwrap()
    }

    #[test]
    fn only_our_own_conversion_is_removed() {
        let webhook = |service: &str| {
            definition(json!({"strategy": "Webhook", "webhook": {
                "conversionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "x", "name": service}}
            }}))
        };
        assert!(is_converted_by_us(&webhook("pillion-webhook-conversion")));
        assert!(!is_converted_by_us(&webhook("kruise-webhook-service")));
        assert!(!is_converted_by_us(&definition(json!({"strategy": "None"}))));
    }

    #[test]
    fn versions_are_those_of_the_definition() {
        let definition = definition(json!(null));
        assert_eq!(storage_version(&definition).as_deref(), Some("v1beta1"));
        assert_eq!(stored_versions(&definition), ["v1alpha1", "v1beta1"]);
    }
}
