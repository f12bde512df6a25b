//! How the API server learns of the webhooks: configurations and the conversion of the definition.

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, Status};
use pillion_api::names;
use pillion_api::sidecarset::crd::{self, Conversion};
use serde_json::{Value, json};

use crate::certificate::{self, Kept, Step};
use crate::config::{Config, Reach};
use crate::error::Error;
use crate::{paths, secret};

/// Name of both configurations, and of the manager of their fields.
pub(crate) const NAME: &str = "pillion";

/// Name of the definition.
pub(crate) fn definition_name() -> String {
    format!("sidecarsets.{}", names::GROUP)
}

/// The definition of SidecarSet. `conversion` is its `spec.conversion`; `None` leaves versions unconverted.
pub(crate) fn definition(conversion: Option<Value>) -> Value {
    let mut definition = crd::sidecarset(&Conversion::None);
    if let Some(conversion) = conversion {
        definition["spec"]["conversion"] = conversion;
    }
    definition
}

/// Conversion by the webhook.
fn conversion(reach: &Reach, bundle: &str) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": reach.client_config(paths::CONVERT, bundle), "conversionReviewVersions": ["v1"]},
    })
}

/// Pods are injected, and SidecarSets get their defaults.
///
/// Every pod of the cluster waits for the first entry, so it gives up early and lets the pod through. SidecarSets can wait.
fn mutating(reach: &Reach, namespace: &str, bundle: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [
            {
                "name": "pods.pillion.dev",
                "clientConfig": reach.client_config(paths::MUTATE_POD, bundle),
                "rules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced",
                }],
                "namespaceSelector": {"matchExpressions": [
                    {"key": names::NAMESPACE_NAME, "operator": "NotIn", "values": ["kube-system", namespace]},
                ]},
                "failurePolicy": "Ignore",
                "timeoutSeconds": 3,
                "sideEffects": "None",
                // Between two calls the API server adds to the sidecars (token mounts, defaults of LimitRanges); a second
                // call would put them back to what the SidecarSet says.
                "reinvocationPolicy": "Never",
                "admissionReviewVersions": ["v1"],
            },
            sidecarsets("sidecarsets.pillion.dev", reach, paths::MUTATE_SIDECARSET, bundle),
        ],
    })
}

/// SidecarSets are checked.
fn validating(reach: &Reach, bundle: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [sidecarsets("sidecarsets.pillion.dev", reach, paths::VALIDATE_SIDECARSET, bundle)],
    })
}

/// One version in the rule: `matchPolicy: Equivalent` converts the other to it.
fn sidecarsets(name: &str, reach: &Reach, path: &str, bundle: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": reach.client_config(path, bundle),
        "rules": [{
            "apiGroups": [names::GROUP], "apiVersions": ["v1beta1"], "resources": ["sidecarsets"],
            "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
        }],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// Applies the definition, with the conversion that it has if it has one already: without it objects of the older version would be
/// read wrong until the webhooks are registered.
pub(crate) async fn install(config: &Config) -> Result<(), Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(config.client.clone());
    let name = definition_name();
    let live =
        definitions.get_opt(&name).await.map_err(Error::api(format!("read CustomResourceDefinition {name:?}")))?;
    let conversion = live.and_then(|live| serde_json::to_value(live.spec.conversion).ok());
    let conversion = conversion.filter(|conversion| conversion["strategy"] == "Webhook");
    apply::<CustomResourceDefinition>(config, &definition(conversion)).await
}

/// Brings certificates and configurations to where they should be now. Returns what is to be served, and when to look again.
pub(crate) async fn reconcile(config: &Config) -> Result<(Kept, Timestamp), Error> {
    let (kept, again) = certificates(config).await?;
    let (reach, bundle) = (&config.reach, kept.bundle.concat());
    apply::<MutatingWebhookConfiguration>(config, &mutating(reach, &config.namespace, &bundle)).await?;
    apply::<ValidatingWebhookConfiguration>(config, &validating(reach, &bundle)).await?;
    apply::<CustomResourceDefinition>(config, &definition(Some(conversion(reach, &bundle)))).await?;
    Ok((kept, again))
}

/// Applies an object if it is not there as it should be. What others have added to it is theirs.
async fn apply<K>(config: &Config, object: &Value) -> Result<(), Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let what = || Error::api(format!("apply {} {name:?}", K::kind(&())));
    let api: Api<DynamicObject> = Api::all_with(config.client.clone(), &ApiResource::erase::<K>(&()));
    let live = api.get_opt(name).await.map_err(what())?.and_then(|live| serde_json::to_value(live).ok());
    if live.is_some_and(|live| contains(&live, object)) {
        return Ok(());
    }
    api.patch(name, &PatchParams::apply(NAME).force(), &Patch::Apply(object)).await.map(drop).map_err(what())
}

/// Whether everything of `wanted` is in `live`. Lists are the same or they are not.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => {
            wanted.iter().all(|(key, wanted)| live.get(key).is_some_and(|live| contains(live, wanted)))
        }
        (Value::Array(live), Value::Array(wanted)) => {
            live.len() == wanted.len() && live.iter().zip(wanted).all(|(live, wanted)| contains(live, wanted))
        }
        (live, wanted) => live == wanted,
    }
}

/// Takes steps until there is nothing to do. Other replicas may do the same at the same time: whoever writes first has done it.
async fn certificates(config: &Config) -> Result<(Kept, Timestamp), Error> {
    let (namespace, lifetime) = (config.namespace.as_str(), config.certificate_lifetime);
    let host = config.reach.host()?;
    let secrets: Api<Secret> = Api::namespaced(config.client.clone(), namespace);
    loop {
        let what = || format!("keep the webhooks' certificate in Secret {namespace}/{}", secret::NAME);
        let stored = secrets.get_opt(secret::NAME).await.map_err(Error::api(what()))?;
        let kept = stored.as_ref().and_then(secret::read);
        let now = (config.now)();
        let step = certificate::plan(kept.as_ref(), &host, now, lifetime);
        if let (Step::Keep(until), Some(kept)) = (step, &kept) {
            return Ok((kept.clone(), until));
        }
        let taken = certificate::take(step, kept, &host, now, lifetime)
            .map_err(|source| Error::Certificate { host: host.clone(), source })?;
        tracing::info!(?step, %host, until = %taken.current.not_after, "certificate of the webhooks");
        let new = secret::write(&taken, namespace, stored.as_ref());
        let written = match stored {
            Some(_) => secrets.replace(secret::NAME, &PostParams::default(), &new).await,
            None => secrets.create(&PostParams::default(), &new).await,
        };
        match written {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() || status.is_conflict() => {}
            Err(kube::Error::Api(status)) if is_namespace_missing(&status, namespace) => {
                create_namespace(config).await?;
            }
            Err(error) => return Err(Error::api(what())(error)),
        }
    }
}

fn is_namespace_missing(status: &Status, namespace: &str) -> bool {
    status.is_not_found() && status.message.contains(&format!("namespaces {namespace:?} not found"))
}

async fn create_namespace(config: &Config) -> Result<(), Error> {
    let namespaces: Api<Namespace> = Api::all(config.client.clone());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(config.namespace.clone());
    match namespaces.create(&PostParams::default(), &namespace).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(drop).map_err(Error::api(format!("create namespace {:?}", config.namespace))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach() -> Reach {
        Reach::Service { namespace: "pillion-system".into(), name: "pillion-webhook".into(), port: 443 }
    }

    #[test]
    fn pods_fail_open_and_those_of_the_system_are_never_asked_about() {
        let configuration = mutating(&reach(), "pillion-system", "PEM");
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
          "sideEffects": "None",
          "reinvocationPolicy": "Never",
          "admissionReviewVersions": [
            "v1"
          ]
        }
        "#);
    }

    #[test]
    fn what_others_add_is_no_reason_to_apply_again() {
        let rows = [
            (json!({"a": 1, "b": 2}), json!({"a": 1}), true),
            (json!({"a": 1}), json!({"a": 1, "b": 2}), false),
            (json!({"a": [{"b": 1, "c": 1}]}), json!({"a": [{"b": 1}]}), true),
            (json!({"a": [1, 2]}), json!({"a": [1]}), false),
            (json!({"a": null}), json!({"a": {}}), false),
        ];
        for (live, wanted, expected) in rows {
            assert_eq!(contains(&live, &wanted), expected, "{live} {wanted}");
        }
    }

    #[test]
    fn configurations_are_objects_of_their_kinds() {
        serde_json::from_value::<MutatingWebhookConfiguration>(mutating(&reach(), "pillion-system", "PEM")).unwrap();
        serde_json::from_value::<ValidatingWebhookConfiguration>(validating(&reach(), "PEM")).unwrap();
        let definition = definition(Some(conversion(&reach(), "PEM")));
        let definition: CustomResourceDefinition = serde_json::from_value(definition).unwrap();
        assert_eq!(definition.spec.conversion.unwrap().strategy, "Webhook");
    }
}
