//! What admission needs to know, read from a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use imbl::OrdMap;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::api::ListParams;
use kube::core::ApiResource;
use pillion_admission::{Offline, Snapshot};
use pillion_api::names;
use pillion_api::sidecarset::validation::Whitelist;
use pillion_api::sidecarset::{self, SidecarSet};
use pillion_api::vpa::{self, VerticalPodAutoscaler};
use pillion_gates::{Gate, Gates, Settings};
use pillion_inject::{Accounts, Catalog, Namespace, Revisions};
use pillion_manager::{NAMESPACE, excluded_namespaces};
use pillion_note::Draw;
use pillion_selector::Selector;
use serde_json::Value;

use super::marking::marking;
use super::read::{Parts, ReadError, Reader};
use crate::offline::sorted_autoscalers;

/// The end of the names of our webhooks.
const WEBHOOK_DOMAIN: &str = ".pillion.dev";

/// What is known of a cluster.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) offline: Offline,
    /// The SidecarSets of the cluster that can be used.
    pub(crate) sets: Vec<Arc<SidecarSet>>,
    /// The ControllerRevisions of SidecarSets; read only if a set pins one.
    pub(crate) revisions: Vec<Value>,
    /// What the user should know.
    pub(crate) warnings: Vec<String>,
}

/// What to read, and what decides beside it.
#[derive(Clone, Debug)]
pub(crate) struct Wanted<'a> {
    /// Only this namespace; all of them without it.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) revisions_namespace: &'a str,
    /// The gates where neither the manager nor the user says otherwise.
    pub(crate) gates: Gates,
    pub(crate) wrap_image: Option<&'a str>,
    pub(crate) draw: Draw,
}

impl Known {
    /// Reads what admission needs. A cluster that does not serve SidecarSets has none.
    pub(crate) async fn read(reader: &Reader, wanted: Wanted<'_>) -> Result<Known, ReadError> {
        Known::read_with(reader, wanted, &Settings::default()).await
    }

    /// As [`Known::read`], with the gates that the user sets.
    pub(crate) async fn read_with(reader: &Reader, wanted: Wanted<'_>, user: &Settings) -> Result<Known, ReadError> {
        let mut warnings = Vec::new();
        let (sets, autoscalers, (namespaces, unread), limit_ranges, webhooks, (gates, sidecar_means)) = futures::try_join!(
            sets(reader),
            autoscalers(reader),
            namespaces(reader, wanted.namespace),
            limit_ranges(reader, wanted.namespace),
            async { Ok(webhook_selectors(reader).await) },
            async { Ok(marking(reader, wanted.gates, user, wanted.wrap_image).await) },
        )?;
        warnings.extend(unread.map(|error| format!("{error}; its labels are taken to be none but its name")));
        if sets.is_none() {
            let message = "this cluster does not serve SidecarSets: their CustomResourceDefinition is not installed";
            warnings.push(message.to_owned());
        }
        let sets = decoded(sets.unwrap_or_default(), &mut warnings);
        let pins = sets.iter().any(|set| set.spec.pinned_revision().is_some());
        let revisions = if pins { revisions(reader, wanted.revisions_namespace).await? } else { Vec::new() };
        let known: Revisions = revisions.iter().cloned().collect();
        let mut catalog = Catalog::default();
        for set in &sets {
            if let Err(error) = catalog.insert(Arc::clone(set), &known) {
                warnings.push(format!("{error}: {}: it cannot be used, and is not injected", error.reason));
            }
        }
        let asks = sets.iter().any(|set| set.spec.service_account.is_some());
        let accounts =
            if asks { accounts(reader, wanted.namespace, &mut warnings).await? } else { Accounts::default() };
        let excluded_namespaces = excluded(webhooks, &namespaces, &mut warnings);
        let namespace = |(name, labels): (String, _)| (name.clone(), Namespace::new(&name, labels));
        let offline = Offline {
            snapshot: Snapshot {
                catalog,
                namespaces: namespaces.into_iter().map(namespace).collect::<OrdMap<_, _>>(),
                accounts,
                autoscalers: sorted_autoscalers(autoscalers, gates, &limit_ranges),
                sidecar_means,
            },
            limit_ranges,
            excluded_namespaces,
            gates,
            draw: wanted.draw,
            namespace: wanted.namespace.unwrap_or("default").to_owned(),
        };
        Ok(Known { offline, sets, revisions, warnings })
    }
}

/// The labels of namespaces, by name.
pub(crate) type Labels = BTreeMap<String, BTreeMap<String, String>>;

/// How SidecarSets of a version are reached.
pub(crate) fn sidecar_sets(version: &str) -> ApiResource {
    ApiResource {
        group: names::GROUP.to_owned(),
        version: version.to_owned(),
        api_version: format!("{}/{version}", names::GROUP),
        kind: names::SIDECARSET_KIND.to_owned(),
        plural: "sidecarsets".to_owned(),
    }
}

/// The SidecarSets; `None` if the API server does not know them. Older definitions of Kruise's serve v1alpha1 alone.
pub(crate) async fn sets(reader: &Reader) -> Result<Option<Vec<Value>>, ReadError> {
    for version in ["v1beta1", "v1alpha1"] {
        match reader.list(&sidecar_sets(version), None, Parts::All, &ListParams::default(), Some).await {
            Err(error) if error.is_not_found() => {}
            listed => return listed.map(Some),
        }
    }
    Ok(None)
}

/// The VerticalPodAutoscalers; none if the API server does not know them, or does not show them to whoever asks.
async fn autoscalers(reader: &Reader) -> Result<Vec<VerticalPodAutoscaler>, ReadError> {
    let decode = |object: Value| vpa::decode(object).ok();
    let all = ListParams::default();
    match reader.list(&pillion_rightsizer::autoscalers(), None, Parts::All, &all, decode).await {
        Err(error) if error.is_not_found() || error.is_forbidden() => Ok(Vec::new()),
        listed => listed,
    }
}

fn decoded(objects: Vec<Value>, warnings: &mut Vec<String>) -> Vec<Arc<SidecarSet>> {
    let mut sets = Vec::new();
    for object in objects {
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match sidecarset::decode(object) {
            Ok(set) => sets.push(Arc::new(set)),
            Err(error) => warnings.push(format!("SidecarSet {name:?} cannot be used, and is not injected: {error}")),
        }
    }
    sets
}

/// Namespaces with their labels. The name of the one that is asked for is known even to those who may not read it.
pub(crate) async fn namespaces(reader: &Reader, only: Option<&str>) -> Result<(Labels, Option<ReadError>), ReadError> {
    let named = |object: Value| {
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        let mut labels: BTreeMap<String, String> =
            labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
        labels.insert(names::NAMESPACE_NAME.to_owned(), name.clone());
        Some((name, labels))
    };
    let resource = ApiResource::erase::<core::Namespace>(&());
    let Some(name) = only else {
        let all = reader.list(&resource, None, Parts::Metadata, &ListParams::default(), named).await?;
        return Ok((all.into_iter().collect(), None));
    };
    match reader.get(&resource, None, name).await {
        Ok(found) => Ok((found.and_then(named).into_iter().collect(), None)),
        Err(error) if error.is_forbidden() => {
            let labels = BTreeMap::from([(names::NAMESPACE_NAME.to_owned(), name.to_owned())]);
            Ok((Labels::from([(name.to_owned(), labels)]), Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// The service accounts that may be injected; none if whoever asks may not see them.
async fn accounts(reader: &Reader, only: Option<&str>, warnings: &mut Vec<String>) -> Result<Accounts, ReadError> {
    let resource = ApiResource::erase::<core::ServiceAccount>(&());
    let mut accounts = Accounts::default();
    match reader.list(&resource, only, Parts::Metadata, &ListParams::default(), Some).await {
        Ok(objects) => objects.iter().for_each(|object| accounts.insert_object(object, "default")),
        Err(error) if error.is_forbidden() => {
            warnings.push(format!("{error}; no service account is taken to be injectable"));
        }
        Err(error) => return Err(error),
    }
    Ok(accounts)
}

async fn limit_ranges(reader: &Reader, only: Option<&str>) -> Result<BTreeMap<String, Vec<Value>>, ReadError> {
    let mut by_namespace: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for range in reader
        .list(&ApiResource::erase::<core::LimitRange>(&()), only, Parts::All, &ListParams::default(), Some)
        .await?
    {
        let namespace = range["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
        by_namespace.entry(namespace).or_default().push(range);
    }
    Ok(by_namespace)
}

/// ControllerRevisions that SidecarSets may pin; one without a label can be pinned by its name.
pub(crate) async fn revisions(reader: &Reader, namespace: &str) -> Result<Vec<Value>, ReadError> {
    reader
        .list(&ApiResource::erase::<ControllerRevision>(&()), Some(namespace), Parts::All, &ListParams::default(), Some)
        .await
}

/// The list of annotations that sets may write on pods, as the webhook reads it.
pub(crate) async fn whitelist(
    reader: &Reader,
    namespace: &str,
    gates: Gates,
    warnings: &mut Vec<String>,
) -> Option<Whitelist> {
    let name = names::CONFIGURATION_CONFIG_MAP;
    let stored = match reader.get(&ApiResource::erase::<core::ConfigMap>(&()), Some(namespace), name).await {
        Ok(stored) => stored,
        Err(error) => {
            warnings.push(format!("{error}; which annotations patchPodMetadata may write is not checked"));
            return None;
        }
    };
    let rules = stored.as_ref().and_then(|stored| stored["data"][names::PATCH_POD_METADATA_WHITELIST].as_str());
    let allowed = gates.is_enabled(Gate::SidecarSetPatchPodMetadataDefaultsAllowed);
    match Whitelist::parse(rules, allowed) {
        Ok(whitelist) => Some(whitelist),
        Err(error) => {
            warnings.push(format!("ConfigMap {name:?} in namespace {namespace:?}: {error}"));
            None
        }
    }
}

/// The namespace selectors of our webhooks for pods.
async fn webhook_selectors(reader: &Reader) -> Result<Vec<Selector>, ReadError> {
    let selectors = |configuration: Value| -> Option<Vec<Selector>> {
        let webhooks = configuration["webhooks"].as_array()?.iter().filter(|webhook| is_ours(webhook));
        let selector = |webhook: &Value| {
            let selector: LabelSelector =
                serde_json::from_value(webhook["namespaceSelector"].clone()).unwrap_or_default();
            Selector::from_label_selector(&selector).ok()
        };
        Some(webhooks.filter_map(selector).collect())
    };
    let resource = ApiResource::erase::<MutatingWebhookConfiguration>(&());
    let all = reader.list(&resource, None, Parts::All, &ListParams::default(), selectors).await?;
    Ok(all.into_iter().flatten().collect())
}

fn is_ours(webhook: &Value) -> bool {
    let rules = webhook["rules"].as_array().into_iter().flatten();
    let mut resources = rules.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
    webhook["name"].as_str().is_some_and(|name| name.ends_with(WEBHOOK_DOMAIN))
        && resources.any(|resource| resource == "pods")
}

/// The namespaces for whose pods no webhook of ours is called.
fn excluded(
    webhooks: Result<Vec<Selector>, ReadError>,
    namespaces: &Labels,
    warnings: &mut Vec<String>,
) -> BTreeSet<String> {
    let usual: BTreeSet<String> = excluded_namespaces(NAMESPACE).map(str::to_owned).into();
    match webhooks {
        Ok(selectors) if selectors.is_empty() => {
            let message =
                "Pillion's webhook is not registered in this cluster: new pods get no sidecars until the manager runs";
            warnings.push(message.to_owned());
            usual
        }
        Ok(selectors) => {
            let is_called = |labels: &BTreeMap<String, String>| {
                selectors.iter().any(|selector| selector.matches(|key| labels.get(key).map(String::as_str)))
            };
            namespaces.iter().filter(|(_, labels)| !is_called(labels)).map(|(name, _)| name.clone()).collect()
        }
        Err(error) => {
            warnings.push(format!("{error}; all namespaces but kube-system and {NAMESPACE} are taken to be injected"));
            usual
        }
    }
}
