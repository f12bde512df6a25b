//! Applies objects of a registration, and leaves what others have added to them.

use std::collections::BTreeSet;

use kube::api::{Api, Patch, PatchParams};
use kube::core::{ApiResource, DynamicObject};
use serde_json::Value;

use crate::config::Config;
use crate::error::Error;

/// The end of every name of an entry.
pub(super) const DOMAIN: &str = ".pillion.dev";

/// The object as it is, or `null` if it does not exist.
pub(super) async fn live<K>(config: &Config, name: &str) -> Result<Value, Error>
where
    K: kube::Resource<DynamicType = ()>,
{
    let api: Api<DynamicObject> = Api::all_with(config.client.clone(), &ApiResource::erase::<K>(&()));
    let live = api.get_opt(name).await.map_err(Error::api(format!("read {} {name:?}", K::kind(&()))))?;
    Ok(live.and_then(|live| serde_json::to_value(live).ok()).unwrap_or_default())
}

/// Applies an object as `manager` if it is not there as it should be, or if `manager` owns nothing of it yet. What others have added to it is
/// theirs. Returns whether it was written.
pub(super) async fn apply<K>(config: &Config, manager: &str, object: &Value) -> Result<bool, Error>
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

/// Whether everything of `wanted` is in `live`. A list may have more in it: some platforms add selectors to every webhook, and would add them
/// again each time that they are taken away.
pub(super) fn contains(live: &Value, wanted: &Value) -> bool {
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

/// The names of our entries in a configuration.
pub(super) fn entries(configuration: &Value) -> BTreeSet<&str> {
    let names = configuration["webhooks"].as_array().into_iter().flatten().filter_map(|entry| entry["name"].as_str());
    names.filter(|name| name.ends_with(DOMAIN)).collect()
}
