//! Who owns the replicas: a Scale is applied and updated as an object of its own, whose owners are taken from those of the
//! object that it scales, and given back to them.

use std::borrow::Cow;

use serde_json::Value;

use super::entries::{self, Entry, Slot};
use super::set::Set;

/// The version of every Scale.
pub const API_VERSION: &str = "autoscaling/v1";
const REPLICAS: &[&str] = &["spec", "replicas"];

/// Where the replicas are in one version of the scaled object.
#[derive(Clone, Debug)]
pub struct Replicas<'a> {
    /// The version: `apps/v1`.
    pub api_version: &'a str,
    /// The field; `None` for a version that has no Scale.
    pub path: Option<Vec<&'a str>>,
}

/// The `managedFields` of the Scale of an object that has these.
///
/// # Errors
/// The list is malformed.
pub fn of_scale(managed_fields: &Value, versions: &[Replicas<'_>]) -> Result<Value, String> {
    let entries = entries::decode(managed_fields)?.into_iter().filter(|entry| owns_replicas(entry, versions));
    let entries = entries.map(|entry| Entry {
        api_version: Cow::Borrowed(API_VERSION),
        set: Set::of_fields(&[REPLICAS]),
        kept: None,
        ..entry
    });
    Ok(written(managed_fields, entries.collect()))
}

/// The `managedFields` of an object that had these, once its Scale has those.
///
/// # Errors
/// A list is malformed, or there is no Scale in this version.
pub fn of_scaled(
    managed_fields: &Value,
    of_scale: &Value,
    api_version: &str,
    versions: &[Replicas<'_>],
) -> Result<Value, String> {
    let mut scalers = entries::decode(of_scale)?;
    let mut owners = Vec::new();
    for mut entry in entries::decode(managed_fields)? {
        let Some(version) = versions.iter().find(|version| version.api_version == entry.api_version) else { continue };
        if let (true, Some(path)) = (owns_replicas(&entry, versions), &version.path) {
            match scalers.iter().position(|scaler| scaler.identity == entry.identity) {
                Some(same) => drop(scalers.swap_remove(same)),
                None => entry.lose(&Set::of_fields(&[path])),
            }
        }
        if !entry.set.is_empty() {
            owners.push(entry);
        }
    }
    let here = versions.iter().find(|version| version.api_version == api_version);
    let path = here.and_then(|version| version.path.clone()).ok_or_else(|| format!("{api_version} has no scale"))?;
    let scale_replicas = Set::of_fields(&[REPLICAS]);
    for scaler in scalers.into_iter().filter(|scaler| scaler.set.overlaps(&scale_replicas)) {
        let set = Set::of_fields(&[&path]);
        // Whoever scales owns the replicas as of no time.
        owners.push(Entry { api_version: api_version.into(), time: None, set, kept: None, ..scaler });
    }
    Ok(written(managed_fields, owners))
}

fn owns_replicas(entry: &Entry<'_>, versions: &[Replicas<'_>]) -> bool {
    let version = versions.iter().find(|version| version.api_version == entry.api_version);
    let path = version.and_then(|version| version.path.as_deref());
    path.is_some_and(|path| entry.set.overlaps(&Set::of_fields(&[path])))
}

fn written(read: &Value, entries: Vec<Entry<'_>>) -> Value {
    let slots = entries::encode(entries).into_iter();
    let list = slots.map(|slot| match slot {
        Slot::Written(entry) => entry,
        Slot::Kept(at) => read.get(at).cloned().unwrap_or_default(),
    });
    Value::Array(list.collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(manager: &str, operation: &str, api_version: &str, fields: Value, subresource: Option<&str>) -> Value {
        let mut entry = json!({"manager": manager, "operation": operation, "apiVersion": api_version,
            "fieldsType": "FieldsV1", "fieldsV1": fields});
        if let Some(subresource) = subresource {
            entry["subresource"] = subresource.into();
        }
        entry
    }

    fn replicas() -> Value {
        json!({"f:spec": {"f:replicas": {}}})
    }

    fn versions() -> Vec<Replicas<'static>> {
        vec![
            Replicas { api_version: "apps/v1", path: Some(vec!["spec", "replicas"]) },
            Replicas { api_version: "apps/v2", path: None },
        ]
    }

    #[test]
    fn a_scale_is_owned_by_those_who_own_the_replicas() {
        let fields = json!([
            entry("helm", "Apply", "apps/v1", json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}), None),
            entry("old", "Update", "apps/v2", replicas(), None),
            entry("other", "Update", "apps/v1", json!({"f:spec": {"f:paused": {}}}), None),
        ]);
        let scale = of_scale(&fields, &versions()).unwrap();
        assert_eq!(scale, json!([entry("helm", "Apply", "autoscaling/v1", replicas(), None)]));
        // An applier is the same in every version, so nothing has changed.
        assert_eq!(of_scaled(&fields, &scale, "apps/v1", &versions()).unwrap(), fields);
    }

    #[test]
    fn whoever_scales_takes_the_replicas_from_the_object() {
        let helm = entry("helm", "Apply", "apps/v1", json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}), None);
        let fields = json!([helm, entry("gone", "Apply", "apps/v0", replicas(), None)]);
        let scale = json!([entry("hpa", "Update", "autoscaling/v1", replicas(), Some("scale"))]);
        assert_eq!(
            of_scaled(&fields, &scale, "apps/v1", &versions()).unwrap(),
            json!([
                entry("helm", "Apply", "apps/v1", json!({"f:spec": {"f:paused": {}}}), None),
                entry("hpa", "Update", "apps/v1", replicas(), Some("scale")),
            ])
        );
        assert!(of_scaled(&fields, &scale, "apps/v2", &versions()).is_err());
    }
}
