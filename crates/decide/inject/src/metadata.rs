//! `patchPodMetadata`: annotations that a set writes on the pod.

use std::collections::BTreeMap;

use pillion_api::pod::Pod;
use pillion_api::sidecarset::{PatchPolicy, SidecarSet};
use serde_json::Value;

use crate::note::Denied;

/// Applies the annotations of `set` to `annotations`, which hold what was decided so far over those of the pod.
pub(crate) fn patch(set: &SidecarSet, pod: &Pod, annotations: &mut BTreeMap<String, String>) -> Result<(), Denied> {
    for patch in &set.spec.patch_pod_metadata {
        for (key, value) in &patch.annotations {
            let current = annotations.get(key).map(String::as_str).or_else(|| pod.annotation(key));
            let decided = match patch.patch_policy.as_ref().unwrap_or(&PatchPolicy::Retain) {
                PatchPolicy::Retain => current.is_none().then(|| value.clone()),
                PatchPolicy::Overwrite => Some(value.clone()),
                PatchPolicy::MergePatchJson => {
                    Some(merge(current.unwrap_or_default(), value).map_err(|reason| Denied::Metadata {
                        set: set.name().to_owned(),
                        key: key.clone(),
                        reason,
                    })?)
                }
                PatchPolicy::Unknown(_) => None,
            };
            if let Some(decided) = decided {
                annotations.insert(key.clone(), decided);
            }
        }
    }
    Ok(())
}

/// Merges JSON texts (RFC 7396). The answer has sorted keys and no spaces; a text that the merge would not change is
/// kept to the letter, so that merging twice is merging once.
fn merge(current: &str, patch: &str) -> Result<String, String> {
    let patch_json: Value = serde_json::from_str(patch).map_err(|error| format!("the patch is not JSON: {error}"))?;
    if current.is_empty() {
        let mut merged = Value::Object(serde_json::Map::new());
        json_patch::merge(&mut merged, &patch_json);
        // Without a null in it the patch is its own result, and is written as the user wrote it.
        return Ok(if merged == patch_json { patch.to_owned() } else { sorted(merged).to_string() });
    }
    let before: Value = serde_json::from_str(current).map_err(|error| format!("its value is not JSON: {error}"))?;
    let mut after = before.clone();
    json_patch::merge(&mut after, &patch_json);
    Ok(if after == before { current.to_owned() } else { sorted(after).to_string() })
}

fn sorted(mut value: Value) -> Value {
    value.sort_all_objects();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_sorts_keys_and_keeps_what_does_not_change() {
        assert_eq!(merge("", r#"{ "log-agent": 1 }"#).unwrap(), r#"{ "log-agent": 1 }"#);
        assert_eq!(merge(r#"{"log-agent":1}"#, r#"{"envoy":2}"#).unwrap(), r#"{"envoy":2,"log-agent":1}"#);
        assert_eq!(merge(r#"{"a":1,"b":2}"#, r#"{"a":null}"#).unwrap(), r#"{"b":2}"#);
        assert_eq!(merge(r#"{ "a": 1 }"#, r#"{"a":1}"#).unwrap(), r#"{ "a": 1 }"#);
        assert_eq!(merge("", r#"{"a":null,"b":1}"#).unwrap(), r#"{"b":1}"#);
    }

    #[test]
    fn what_is_not_json_is_named() {
        assert!(merge("plain", "{}").unwrap_err().starts_with("its value is not JSON"));
        assert!(merge("{}", "{").unwrap_err().starts_with("the patch is not JSON"));
    }
}
