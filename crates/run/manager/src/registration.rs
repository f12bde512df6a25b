//! What API servers are asked to call: webhook configurations, and the conversion of the definition.

mod apply;
mod confirming;
mod definition;
mod entries;
pub(crate) mod paths;
pub(crate) mod touched;

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use pillion_api::sidecarset::SidecarSet;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use self::apply::{DOMAIN, apply, live};
pub(crate) use self::confirming::{Confirming, confirming};
pub(crate) use self::definition::{
    definition_name, install_definition, install_other_definitions, live_definition, register_conversion,
};
pub(crate) use self::entries::{MOST_FAILING, Registered};
use self::entries::{PODS, mutating, validating};
use crate::config::{Config, WebhookAddress};
use crate::error::Error;

/// Name of both configurations, and of the field manager of what a manager registers.
pub(crate) const NAME: &str = "pillion";
/// On both configurations, the digest of what was applied.
const APPLIED: &str = "pillion.dev/applied";

/// Has API servers call the webhooks. Returns whether something was written.
pub(crate) async fn register_admission(
    config: &Config,
    bundle: &str,
    failing: &[Arc<SidecarSet>],
    served: Registered,
) -> Result<bool, Error> {
    let mutating = with_digest(mutating(&config.address, &config.namespace, bundle, failing, served));
    let validating = with_digest(validating(&config.address, &config.namespace, bundle, served));
    let wrote_mutating = apply::<MutatingWebhookConfiguration>(config, NAME, &mutating).await?;
    let wrote_validating = apply::<ValidatingWebhookConfiguration>(config, NAME, &validating).await?;
    Ok(wrote_mutating || wrote_validating)
}

/// A configuration that says what it was made from. In the live one, what we wanted before (a label of a selector that has become wider, say) looks like
/// what others have added, and would be left alone; the digest differs, also for the next leader.
fn with_digest(mut configuration: Value) -> Value {
    let digest = Sha256::digest(configuration.to_string());
    configuration["metadata"]["annotations"] = json!({APPLIED: STANDARD.encode(digest)});
    configuration
}

/// Whether every bundle that API servers have been given for our webhooks has this authority in it.
pub(crate) async fn is_trusted(config: &Config, authority: &str) -> Result<bool, Error> {
    let mut bundles = Vec::new();
    for configuration in [
        live::<MutatingWebhookConfiguration>(config, NAME).await?,
        live::<ValidatingWebhookConfiguration>(config, NAME).await?,
    ] {
        let entries = configuration["webhooks"].as_array().cloned().unwrap_or_default();
        let ours = entries.iter().filter(|entry| entry["name"].as_str().is_some_and(|name| name.ends_with(DOMAIN)));
        bundles.extend(ours.map(|entry| entry["clientConfig"]["caBundle"].clone()));
    }
    let definition = live::<CustomResourceDefinition>(config, &definition_name()).await?;
    if let Some(client) = definition.pointer("/spec/conversion/webhook/clientConfig") {
        bundles.push(client["caBundle"].clone());
    }
    let trusts = |bundle: &Value| {
        let bundle = STANDARD.decode(bundle.as_str().unwrap_or_default()).unwrap_or_default();
        String::from_utf8_lossy(&bundle).contains(authority.trim())
    };
    Ok(bundles.iter().all(trusts))
}

/// Whether the API server sends pods to webhooks at this address.
fn is_registered(configuration: &Value, address: &WebhookAddress) -> bool {
    let mut entries = configuration["webhooks"].as_array().into_iter().flatten();
    entries.any(|entry| entry["name"] == PODS && address.is_in(&entry["clientConfig"]))
}

/// Whether API servers send pods to the webhooks of this installation, whichever replica has registered them.
pub(crate) async fn pods_are_sent_here(config: &Config) -> Result<bool, Error> {
    Ok(is_registered(&live::<MutatingWebhookConfiguration>(config, NAME).await?, &config.address))
}

/// Whether API servers send pods to webhooks, whichever program has registered them.
pub(crate) async fn pods_are_sent(config: &Config) -> Result<bool, Error> {
    let live = live::<MutatingWebhookConfiguration>(config, NAME).await?;
    let mut entries = live["webhooks"].as_array().into_iter().flatten();
    Ok(entries.any(|entry| entry["name"] == PODS))
}

/// Takes back what an earlier run has registered at this address, where nothing answers in this one: API servers would go on calling it.
pub(crate) async fn withdraw(config: &Config) -> Result<(), Error> {
    withdraw_configuration::<MutatingWebhookConfiguration>(config).await?;
    withdraw_configuration::<ValidatingWebhookConfiguration>(config).await?;
    let definition = live::<CustomResourceDefinition>(config, &definition_name()).await?;
    let client = definition.pointer("/spec/conversion/webhook/clientConfig");
    if !client.is_some_and(|client| config.address.of_conversion().is_in(client)) {
        return Ok(());
    }
    let definitions: Api<CustomResourceDefinition> = Api::all(config.client.clone());
    let none = json!({"spec": {"conversion": {"strategy": "None", "webhook": null}}});
    let parameters = PatchParams { field_manager: Some(NAME.to_owned()), ..PatchParams::default() };
    let changed = definitions.patch(&definition_name(), &parameters, &Patch::Merge(none)).await;
    changed.map(drop).map_err(Error::api(format!("remove the conversion of {:?}", definition_name())))
}

async fn withdraw_configuration<K>(config: &Config) -> Result<(), Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let live = live::<K>(config, NAME).await?;
    let mut entries = live["webhooks"].as_array().into_iter().flatten();
    if !entries.any(|entry| config.address.is_in(&entry["clientConfig"])) {
        return Ok(());
    }
    let api: Api<DynamicObject> = Api::all_with(config.client.clone(), &ApiResource::erase::<K>(&()));
    match api.delete(NAME, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        deleted => deleted.map(drop).map_err(Error::api(format!("delete {} {NAME:?}", K::kind(&())))),
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use pillion_api::sidecarset::crd;

    use super::apply::contains;
    use super::confirming::confirming_by;
    use super::definition::conversion;
    use super::entries::places;
    use super::*;

    const SETS: Registered = Registered { sidecar_sets: true, autoscalers: false, jobs: false };
    const ALL: Registered = Registered { sidecar_sets: true, autoscalers: true, jobs: true };

    fn address() -> WebhookAddress {
        WebhookAddress::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 }
    }

    #[test]
    fn pods_fail_open_and_those_of_the_system_are_never_asked_about() {
        let configuration = mutating(&address(), "pillion-system", "PEM", &[], SETS);
        insta::assert_json_snapshot!(configuration["webhooks"][0], @r#"
        {
          "name": "pods.pillion.dev",
          "clientConfig": {
            "service": {
              "namespace": "pillion-system",
              "name": "pillion-webhook",
              "port": 443,
              "path": "/mutate-pod"
            },
            "caBundle": "UEVN"
          },
          "rules": [
            {
              "apiGroups": [
                ""
              ],
              "apiVersions": [
                "v1"
              ],
              "resources": [
                "pods"
              ],
              "operations": [
                "CREATE"
              ],
              "scope": "Namespaced"
            }
          ],
          "namespaceSelector": {
            "matchExpressions": [
              {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": [
                  "kube-system",
                  "pillion-system"
                ]
              }
            ]
          },
          "failurePolicy": "Ignore",
          "timeoutSeconds": 3,
          "sideEffects": "NoneOnDryRun",
          "reinvocationPolicy": "Never",
          "admissionReviewVersions": [
            "v1"
          ]
        }
        "#);
    }

    #[test]
    fn no_pod_without_an_id_of_places_waits_for_a_confirmation() {
        let entry = places(&address(), "pillion-system", "PEM");
        assert_eq!((&entry["failurePolicy"], &entry["rules"][0]["resources"]), (&json!("Fail"), &json!(["pods"])));
        insta::assert_json_snapshot!(entry["matchConditions"], @r#"
        [
          {
            "name": "has-a-place",
            "expression": "has(object.metadata.annotations) && 'pillion.dev/quota-place' in object.metadata.annotations"
          }
        ]
        "#);
    }

    #[test]
    fn places_are_confirmed_only_by_an_entry_that_misses_no_pod_and_lets_none_through() {
        let namespaces = |live: &Value| {
            let found = confirming_by(live, &places(&address(), "pillion-system", ""))?;
            let has = |namespace: &'static str| {
                found.namespaces.matches(|key| (key == names::NAMESPACE_NAME).then_some(namespace))
            };
            Some((found.version, ["shop", "kube-system", "pillion-system"].map(has)))
        };
        let mut live = validating(&address(), "pillion-system", "PEM", ALL);
        live["metadata"]["resourceVersion"] = json!("42");
        live["webhooks"][0]["objectSelector"] = json!({});
        live["webhooks"][0]["matchPolicy"] = json!("Equivalent");
        assert_eq!(namespaces(&live), Some((42, [true, false, false])));
        let mut narrower = live.clone();
        let added = json!({"key": names::NAMESPACE_NAME, "operator": "NotIn", "values": ["shop"]});
        narrower["webhooks"][0]["namespaceSelector"]["matchExpressions"].as_array_mut().unwrap().push(added);
        assert_eq!(namespaces(&narrower), Some((42, [false; 3])), "a platform has excluded a namespace");
        for (pointer, value) in [
            ("/webhooks/0/failurePolicy", json!("Ignore")),
            ("/webhooks/0/objectSelector", json!({"matchLabels": {"a": "b"}})),
            ("/webhooks/0/matchConditions/0/expression", json!("false")),
            ("/webhooks/0/clientConfig/service/name", json!("other")),
            ("/webhooks/0/name", json!("other.pillion.dev")),
            ("/webhooks/0/rules/0/operations", json!(["UPDATE"])),
        ] {
            let mut other = live.clone();
            *other.pointer_mut(pointer).unwrap() = value;
            assert_eq!(namespaces(&other), None, "{pointer}");
        }
        assert_eq!(namespaces(&Value::Null), None);
    }

    #[test]
    fn what_others_add_is_no_reason_to_apply_again() {
        let rows = [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": [{"b": 1, "c": 1}]}), json!({"a": [{"b": 1}]}), true),
            (json!({"a": [1, 2]}), json!({"a": [1]}), true),
            (json!({"a": [1]}), json!({"a": [1, 2]}), false),
            (json!({"a": null}), json!({"a": {}}), false),
            (json!({}), json!({"a": []}), true),
        ];
        for (live, wanted, expected) in rows {
            assert_eq!(contains(&live, &wanted), expected, "{live} {wanted}");
        }
    }

    #[test]
    fn configurations_are_objects_of_their_kinds() {
        let mutating = mutating(&address(), "pillion-system", "PEM", &[], ALL);
        serde_json::from_value::<MutatingWebhookConfiguration>(mutating).unwrap();
        let validating = validating(&address(), "pillion-system", "PEM", ALL);
        assert_eq!(validating["webhooks"].as_array().unwrap().len(), 5);
        serde_json::from_value::<ValidatingWebhookConfiguration>(validating).unwrap();
        let mut definition = crd::sidecarset();
        definition["spec"]["conversion"] = conversion(&address(), "PEM");
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        assert_eq!(definition.spec.conversion.unwrap().strategy, "Webhook");
    }

    #[test]
    fn a_set_that_must_not_be_missed_has_an_entry_of_its_own() {
        let gold = json!({"matchLabels": {"tier": "gold"}});
        let spec = json!({"namespaceSelector": gold, "injectionStrategy": {"failurePolicy": "Fail"}});
        let set = Arc::new(pillion_testkit::mk_set("mesh", json!({"app": "web"}), spec));
        let configuration = mutating(&address(), "pillion-system", "PEM", &[set], SETS);
        serde_json::from_value::<MutatingWebhookConfiguration>(configuration.clone()).unwrap();
        let entry = &configuration["webhooks"][1];
        assert_eq!((&entry["name"], &entry["failurePolicy"]), (&json!("mesh.pods.pillion.dev"), &json!("Fail")));
        assert_eq!(entry["objectSelector"], json!({"matchLabels": {"app": "web"}}));
        let excluded = &configuration["webhooks"][0]["namespaceSelector"]["matchExpressions"];
        assert_eq!(entry["namespaceSelector"], json!({"matchLabels": {"tier": "gold"}, "matchExpressions": excluded}));
    }
}
