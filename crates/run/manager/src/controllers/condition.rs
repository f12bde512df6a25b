//! Conditions of SidecarSets.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use serde_json::{Map, Value, json};

use crate::caches::watches::sidecarsets;
use crate::config::Config;
use crate::error::Error;

/// A condition of this type as it is now. Its time is when its status changed last.
pub(crate) fn condition(
    set: &SidecarSet,
    condition_type: &str,
    is_true: bool,
    (reason, message): (&str, String),
    now: Timestamp,
) -> Condition {
    let status = if is_true { "True" } else { "False" };
    let before = known(set, condition_type).filter(|before| before.status == status);
    let since = before.map_or_else(|| Time(now), |before| before.last_transition_time.clone());
    Condition {
        type_: condition_type.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        last_transition_time: since,
        observed_generation: set.metadata.generation,
    }
}

pub(crate) fn known<'a>(set: &'a SidecarSet, condition_type: &str) -> Option<&'a Condition> {
    set.status.as_ref()?.condition(condition_type)
}

/// Writes what one controller says about a set: its own fields of the status, and its own conditions. What it wrote before and
/// does not write now is removed. Returns the set, or `None` if it has been deleted.
pub(crate) async fn write(
    config: &Config,
    set: &str,
    controller: &str,
    mut status: Map<String, Value>,
    conditions: &[Condition],
) -> Result<Option<DynamicObject>, Error> {
    status.insert("conditions".to_owned(), json!(conditions));
    let object = json!({
        "apiVersion": names::V1BETA1, "kind": names::SIDECARSET_KIND, "metadata": {"name": set}, "status": status,
    });
    let sets: Api<DynamicObject> = Api::all_with(config.client.clone(), &sidecarsets());
    match sets.patch_status(set, &PatchParams::apply(controller).force(), &Patch::Apply(&object)).await {
        Err(kube::Error::Api(answer)) if answer.is_not_found() => Ok(None),
        written => written.map(Some).map_err(Error::api(format!("write the status of SidecarSet {set:?}"))),
    }
}
