//! By what API servers have the places of new pods confirmed.

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use pillion_selector::Selector;
use serde_json::Value;

use super::NAME;
use super::apply::{contains, live};
use super::entries::{PLACES, places};
use crate::config::Config;
use crate::error::Error;

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

pub(super) fn confirming_by(live: &Value, wanted: &Value) -> Option<Confirming> {
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
