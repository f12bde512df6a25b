//! `patchPodMetadata`: annotations that a set writes on the pod.

use std::collections::BTreeMap;

use pillion_api::sidecarset::{PatchPolicy, SidecarSet};
use pillion_note::{Denied, Draft};
use serde_json::Value;
use serde_json::value::RawValue;

/// Writes the annotations of `set` (`patchPodMetadata`).
///
/// # Errors
/// The first annotation that cannot be merged. All others are written.
pub fn patch_pod_metadata(set: &SidecarSet, draft: &mut Draft<'_>) -> Result<(), Denied> {
    let mut result = Ok(());
    for patch in &set.spec.patch_pod_metadata {
        for (key, value) in &patch.annotations {
            let current = draft.annotation(key);
            let decided = match patch.patch_policy.as_ref().unwrap_or(&PatchPolicy::Retain) {
                PatchPolicy::Retain => current.is_none().then(|| value.clone()),
                PatchPolicy::Overwrite => Some(value.clone()),
                PatchPolicy::MergePatchJson => match merge(current.unwrap_or_default(), value) {
                    Ok(merged) => Some(merged),
                    Err(reason) => {
                        let set = set.name().to_owned();
                        result = result.and(Err(Denied::Metadata { set, key: key.clone(), reason }));
                        None
                    }
                },
                PatchPolicy::Unknown(_) => None,
            };
            if let Some(decided) = decided {
                draft.set_annotation(key.as_str(), decided);
            }
        }
    }
    result
}

/// An object whose values are the text that they were written in.
type RawObject = BTreeMap<String, Box<RawValue>>;

/// Merges JSON texts (RFC 7396). What the patch does not touch keeps its text: a number is not rounded, and the keys of
/// an object inside stay in order. A text that the merge would not change is kept to the letter, so that merging twice
/// is merging once.
fn merge(current: &str, patch: &str) -> Result<String, String> {
    let patch: RawObject =
        serde_json::from_str(patch).map_err(|error| format!("the patch is not a JSON object: {error}"))?;
    if current.is_empty() {
        return Ok(merged(RawObject::new(), &patch));
    }
    let before: RawObject =
        serde_json::from_str(current).map_err(|error| format!("its value is not a JSON object: {error}"))?;
    let unchanged = merged(before.clone(), &RawObject::new());
    let after = merged(before, &patch);
    Ok(if after == unchanged { current.to_owned() } else { after })
}

/// The text of `object` with `patch` merged in: sorted keys, no spaces.
fn merged(mut object: RawObject, patch: &RawObject) -> String {
    let mut texts: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in patch {
        if let Ok(inner) = serde_json::from_str::<RawObject>(value.get()) {
            let current =
                object.get(key).and_then(|current| serde_json::from_str(current.get()).ok()).unwrap_or_default();
            texts.insert(key.clone(), merged(current, &inner));
        } else if value.get() != "null" {
            texts.insert(key.clone(), compact(value.get()));
        }
        object.remove(key);
    }
    texts.extend(object.into_iter().map(|(key, value)| (key, compact(value.get()))));
    let fields: Vec<String> = texts.into_iter().map(|(key, value)| format!("{}:{value}", Value::String(key))).collect();
    format!("{{{}}}", fields.join(","))
}

/// JSON without the spaces between its tokens.
fn compact(json: &str) -> String {
    let mut is_string = false;
    let mut is_escaped = false;
    let keeps = |c: &char| {
        let keep = is_string || !c.is_ascii_whitespace();
        if *c == '"' && !is_escaped {
            is_string = !is_string;
        }
        is_escaped = is_string && *c == '\\' && !is_escaped;
        keep
    };
    json.chars().filter(keeps).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_sorts_keys_and_keeps_what_does_not_change() {
        assert_eq!(merge("", r#"{ "log-agent": 1 }"#).unwrap(), r#"{"log-agent":1}"#);
        assert_eq!(merge(r#"{"log-agent":1}"#, r#"{"envoy":2}"#).unwrap(), r#"{"envoy":2,"log-agent":1}"#);
        assert_eq!(merge(r#"{"a":1,"b":2}"#, r#"{"a":null}"#).unwrap(), r#"{"b":2}"#);
        assert_eq!(merge(r#"{ "a": 1 }"#, r#"{"a":1}"#).unwrap(), r#"{ "a": 1 }"#);
        assert_eq!(merge("", r#"{"a":null,"b":{"c":null}}"#).unwrap(), r#"{"b":{}}"#);
        assert_eq!(merge(r#"{"a":5}"#, r#"{"a":{"b":1}}"#).unwrap(), r#"{"a":{"b":1}}"#);
    }

    #[test]
    fn what_the_patch_does_not_touch_keeps_its_text() {
        assert_eq!(
            merge(r#"{"b": 12345678901234567890123, "c": 1e2, "d": 1.10, "e": {"z": " \" ,", "y": []}}"#, r#"{"a":1}"#)
                .unwrap(),
            r#"{"a":1,"b":12345678901234567890123,"c":1e2,"d":1.10,"e":{"z":" \" ,","y":[]}}"#
        );
    }

    #[test]
    fn what_is_not_a_json_object_is_named() {
        assert!(merge("plain", "{}").unwrap_err().starts_with("its value is not a JSON object"));
        assert!(merge("[1]", "{}").unwrap_err().starts_with("its value is not a JSON object"));
        assert!(merge("{}", "5").unwrap_err().starts_with("the patch is not a JSON object"));
    }
}
