//! What API servers are asked to call: webhook configurations, and the conversion of the definition.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use pillion_api::sidecarset::crd;
use pillion_api::{probe_marker, vpa};
use pillion_patch::selector::Selector;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::cluster::is_failing;
use crate::config::{Config, WebhookAddress, excluded_namespaces};
use crate::error::Error;
use crate::paths;

/// Name of both configurations, and of the field manager of what a manager registers.
pub(crate) const NAME: &str = "pillion";
/// The field manager of the definition, which is also that of `pillion install`. It differs from [`NAME`]: a manager that registers its conversion
/// applies that field alone, and would otherwise remove all others.
const INSTALLER: &str = "pillion-install";
/// The entry for all pods.
const PODS: &str = "pods.pillion.dev";
/// The entry that confirms the places of new pods.
const PLACES: &str = "places.pillion.dev";
/// The end of every name of an entry.
const DOMAIN: &str = ".pillion.dev";
/// On both configurations, the digest of what was applied.
const APPLIED: &str = "pillion.dev/applied";

/// How many SidecarSets may have an entry of their own. Each is one more call for its pods, and the API server reads all of them for every pod.
pub(crate) const MOST_FAILING: usize = 100;

/// For which kinds API servers are to call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    /// SidecarSets: not while somebody else serves them.
    pub(crate) sidecar_sets: bool,
    /// VerticalPodAutoscalers.
    pub(crate) autoscalers: bool,
    /// Jobs and CronJobs that mark sidecars: where marks are honoured.
    pub(crate) jobs: bool,
}

/// Name of the definition.
pub(crate) fn definition_name() -> String {
    format!("sidecarsets.{}", names::GROUP)
}

/// Conversion by the webhook.
fn conversion(address: &WebhookAddress, bundle: &str) -> Value {
    json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": address.of_conversion().client_config(paths::CONVERT, bundle), "conversionReviewVersions": ["v1"]},
    })
}

/// Pods are injected, and SidecarSets get their defaults.
///
/// Every pod of the cluster waits for the first entry, so it gives up early and lets the pod through. The pods of a set in `failing` are
/// also sent through an entry of its own, without which they are refused. If the first entry has injected them, the second changes nothing.
fn mutating(
    address: &WebhookAddress,
    namespace: &str,
    bundle: &str,
    failing: &[Arc<SidecarSet>],
    served: Registered,
) -> Value {
    let excluded = excluded(namespace);
    let pods = |name: String| {
        json!({
            "name": name,
            "clientConfig": address.client_config(paths::MUTATE_POD, bundle),
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced",
            }],
            "namespaceSelector": {"matchExpressions": [excluded]},
            "failurePolicy": "Ignore",
            "timeoutSeconds": 3,
            // A place of a partition may be taken.
            "sideEffects": "NoneOnDryRun",
            // Between two calls the API server adds to the sidecars (token mounts, defaults of LimitRanges); a second
            // call would put them back to what the SidecarSet says.
            "reinvocationPolicy": "Never",
            "admissionReviewVersions": ["v1"],
        })
    };
    let mut webhooks = vec![pods(PODS.to_owned())];
    for set in failing.iter().filter(|set| is_failing(set)).take(MOST_FAILING) {
        let mut own = pods(format!("{}.{PODS}", set.name()));
        let mut namespaces = json!(set.spec.namespace_selector.clone().unwrap_or_default());
        match namespaces["matchExpressions"].as_array_mut() {
            Some(expressions) => expressions.push(excluded.clone()),
            None => namespaces["matchExpressions"] = json!([excluded]),
        }
        own["namespaceSelector"] = namespaces;
        own["objectSelector"] = json!(set.spec.selector);
        own["failurePolicy"] = "Fail".into();
        own["timeoutSeconds"] = 10.into();
        webhooks.push(own);
    }
    if served.sidecar_sets {
        webhooks.push(sidecarsets("sidecarsets.pillion.dev", address, paths::MUTATE_SIDECARSET, bundle));
    }
    if served.autoscalers {
        webhooks.push(autoscalers(address, paths::MUTATE_AUTOSCALER, bundle));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    })
}

/// The namespaces whose pods the webhooks are not called for.
fn excluded(namespace: &str) -> Value {
    json!({"key": names::NAMESPACE_NAME, "operator": "NotIn", "values": excluded_namespaces(namespace)})
}

/// SidecarSets are checked, and so are VerticalPodAutoscalers where they are served, and Jobs that mark sidecars. The places of new pods are confirmed.
fn validating(address: &WebhookAddress, namespace: &str, bundle: &str, served: Registered) -> Value {
    let mut webhooks = Vec::new();
    if served.sidecar_sets {
        webhooks.push(places(address, namespace, bundle));
        webhooks.push(sidecarsets("sidecarsets.pillion.dev", address, paths::VALIDATE_SIDECARSET, bundle));
    }
    if served.autoscalers {
        webhooks.push(autoscalers(address, paths::VALIDATE_AUTOSCALER, bundle));
    }
    if served.jobs {
        webhooks.push(jobs("jobs", "object.spec.template", address, namespace, bundle));
        webhooks.push(jobs("cronjobs", "object.spec.jobTemplate.spec.template", address, namespace, bundle));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    })
}

/// New pods with a place of a partition. Without an answer the pod is refused, since its place may be another pod's by now. This is about pods that
/// the manager has admitted a moment ago; no other pod waits for it.
fn places(address: &WebhookAddress, namespace: &str, bundle: &str) -> Value {
    let annotation = names::QUOTA_PLACE;
    let expression = format!("has(object.metadata.annotations) && '{annotation}' in object.metadata.annotations");
    json!({
        "name": PLACES,
        "clientConfig": address.client_config(paths::CONFIRM_PLACE, bundle),
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced",
        }],
        "namespaceSelector": {"matchExpressions": [excluded(namespace)]},
        "matchConditions": [{"name": "has-a-place", "expression": expression}],
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
    })
}

/// By what API servers have places confirmed.
#[derive(Debug)]
pub(crate) struct Confirming {
    /// The version of the configuration.
    pub(crate) version: u64,
    /// The namespaces whose pods are confirmed. Some platforms exclude namespaces of their own.
    pub(crate) namespaces: Selector,
}

/// Reads by what API servers have places confirmed. `None` if they need not ask about every pod with a place, or do not refuse the pod if there is no answer.
pub(crate) async fn confirming(config: &Config) -> Result<Option<Confirming>, Error> {
    let live = live::<ValidatingWebhookConfiguration>(config, NAME).await?;
    Ok(confirming_by(&live, &places(&config.address, &config.namespace, "")))
}

fn confirming_by(live: &Value, wanted: &Value) -> Option<Confirming> {
    let entry = live["webhooks"].as_array()?.iter().find(|entry| entry["name"] == PLACES)?;
    let is_empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
    let is_as_wide = ["rules", "matchConditions"].into_iter().all(|key| entry[key] == wanted[key]);
    if !contains(entry, wanted) || !is_as_wide || !is_empty(&entry["objectSelector"]) {
        return None;
    }
    let namespaces = serde_json::from_value(entry["namespaceSelector"].clone()).ok()?;
    Some(Confirming {
        version: live["metadata"]["resourceVersion"].as_str()?.parse().ok()?,
        namespaces: Selector::from_label_selector(&namespaces).ok()?,
    })
}

/// VerticalPodAutoscalers. As upstream, the write goes through while the webhook is down: programs write them, too.
fn autoscalers(address: &WebhookAddress, path: &str, bundle: &str) -> Value {
    json!({
        "name": "vpa.pillion.dev",
        "clientConfig": address.client_config(path, bundle),
        "rules": [{
            "apiGroups": [names::AUTOSCALING_GROUP], "apiVersions": ["v1"], "resources": ["verticalpodautoscalers"],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// Jobs or CronJobs whose template has the annotation that marks sidecars. No other one waits for the webhook, and none waits for long.
fn jobs(resource: &str, template: &str, address: &WebhookAddress, namespace: &str, bundle: &str) -> Value {
    let annotations = format!("{template}.metadata.annotations");
    let is_marked = format!("has({template}.metadata) && has({annotations}) && '{}' in {annotations}", names::SIDECARS);
    json!({
        "name": format!("{resource}.pillion.dev"),
        "clientConfig": address.client_config(paths::VALIDATE_JOB, bundle),
        "rules": [{
            "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": [resource],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        "matchConditions": [{"name": "marks-sidecars", "expression": is_marked}],
        "namespaceSelector": {"matchExpressions": [excluded(namespace)]},
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// One version in the rule: `matchPolicy: Equivalent` converts the other to it.
fn sidecarsets(name: &str, address: &WebhookAddress, path: &str, bundle: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": address.client_config(path, bundle),
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

/// The definition as it is.
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

/// The object as it is, or `null` if it does not exist.
async fn live<K>(config: &Config, name: &str) -> Result<Value, Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let api: Api<DynamicObject> = Api::all_with(config.client.clone(), &ApiResource::erase::<K>(&()));
    let live = api.get_opt(name).await.map_err(Error::api(format!("read {} {name:?}", K::kind(&()))))?;
    Ok(live.and_then(|live| serde_json::to_value(live).ok()).unwrap_or_default())
}

/// Applies an object as `manager` if it is not there as it should be, or if `manager` owns nothing of it yet. What others have added to it is
/// theirs. Returns whether it was written.
async fn apply<K>(config: &Config, manager: &str, object: &Value) -> Result<bool, Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let live = live::<K>(config, name).await?;
    if contains(&live, object) && entries(&live) == entries(object) && has_applied(&live, manager) {
        return Ok(false);
    }
    let api: Api<DynamicObject> = Api::all_with(config.client.clone(), &ApiResource::erase::<K>(&()));
    let applied = api.patch(name, &PatchParams::apply(manager).force(), &Patch::Apply(object)).await;
    applied.map_err(Error::api(format!("apply {} {name:?}", K::kind(&()))))?;
    Ok(true)
}

/// Whether fields of an object are owned by a manager that applied them. Fields without an owner would be removed when another one applies less.
fn has_applied(live: &Value, manager: &str) -> bool {
    let mut owners = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    owners.any(|owner| owner["manager"] == manager && owner["operation"] == "Apply")
}

/// Whether the API server sends pods to webhooks at this address.
pub(crate) fn is_registered(configuration: &Value, address: &WebhookAddress) -> bool {
    let mut entries = configuration["webhooks"].as_array().into_iter().flatten();
    entries.any(|entry| entry["name"] == PODS && address.is_in(&entry["clientConfig"]))
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

/// The names of our entries in a configuration.
fn entries(configuration: &Value) -> BTreeSet<&str> {
    let names = configuration["webhooks"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str());
    names.filter(|name| name.ends_with(DOMAIN)).collect()
}

/// Whether everything of `wanted` is in `live`. A list may have more in it: some platforms add selectors to every webhook, and would add them
/// again each time that they are taken away.
fn contains(live: &Value, wanted: &Value) -> bool {
    match (live, wanted) {
        (Value::Object(live), Value::Object(wanted)) => wanted.iter().all(|(key, wanted)| match live.get(key) {
            Some(live) => contains(live, wanted),
            // An API server leaves out a list with nothing in it.
            None => wanted.as_array().is_some_and(Vec::is_empty),
        }),
        (Value::Array(live), Value::Array(wanted)) => {
            wanted.iter().all(|wanted| live.iter().any(|live| contains(live, wanted)))
        }
        (live, wanted) => live == wanted,
    }
}

#[cfg(test)]
mod tests {
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
