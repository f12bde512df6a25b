//! JSON patches (RFC 6902) and JSON merge patches (RFC 7386) as kube-apiserver applies them.
//!
//! kube-apiserver applies them with `evanphx/json-patch`, which is more lenient than the RFC: `replace` adds a key that is not there, a
//! missing key tests equal to `null`, negative indices count from the end. Objects that a patch reaches into are written with sorted keys,
//! which shows where an error quotes the outcome.

use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::{Map, Value};

use crate::decode::{self, MAX_DEPTH, Parsed, StrictError, SyntaxError, TypeError};
use crate::schema::Schemas;

/// More operations than this are refused.
pub const MAX_OPERATIONS: usize = 10_000;

/// All `copy` operations of a patch together may add this many bytes.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// Why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch is not JSON.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The patch is not of the form of a patch.
    #[error(transparent)]
    Form(#[from] TypeError),
    /// A merge patch that is no object.
    #[error("Invalid JSON Patch")]
    Merge,
    /// Too many operations.
    #[error("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooLarge(usize),
    /// An operation does not fit the object. kube-apiserver answers without these words.
    #[error("{0}")]
    Apply(String),
}

#[derive(Clone, Debug, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Value>,
    /// What a strict decoder refuses.
    pub strict: Vec<StrictError>,
}

static OPERATION: LazyLock<Schemas> = LazyLock::new(|| {
    let table = r#"{"operation":{"go":"handlers.jsonPatchOp","fields":[{"name":"op","type":"string"},{"name":"path","type":"string"},
        {"name":"from","type":"string"},{"name":"value","type":"any"}]},
        "patch":{"go":"","fields":[{"name":"operations","type":"[]operation"}]}}"#;
    Schemas::from_table(table).unwrap_or_default()
});

impl JsonPatch {
    /// Reads a patch.
    ///
    /// # Errors
    /// It is not JSON, no list of operations, or has too many of them.
    pub fn parse(text: &[u8]) -> Result<JsonPatch, PatchError> {
        let parsed = decode::parse(text)?;
        let mut strict = Vec::new();
        if let Some((_, operations)) = OPERATION.get("patch").and_then(|patch| patch.field("operations")) {
            strict = decode::check(operations, &parsed)?;
        }
        let operations = match parsed.value {
            Value::Array(operations) => operations,
            _ => Vec::new(),
        };
        if operations.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(operations.len()));
        }
        Ok(JsonPatch { operations, strict })
    }

    /// Applies it.
    ///
    /// # Errors
    /// The first operation that does not fit.
    pub fn apply(&self, mut object: Value) -> Result<Value, PatchError> {
        let mut copied = 0;
        for operation in &self.operations {
            apply(&mut object, operation, &mut copied).map_err(|error| in_operation(operation, error))?;
        }
        self.sort_keys(&mut object);
        Ok(object)
    }

    /// Sorts the keys of all objects that an operation reached into.
    fn sort_keys(&self, object: &mut Value) {
        let mut sorted = HashSet::new();
        let paths =
            self.operations.iter().flat_map(|operation| [operation["path"].as_str(), operation["from"].as_str()]);
        for path in paths.flatten() {
            let mut place = Some(&mut *object);
            let mut end = 0;
            for token in path.split('/') {
                end += token.len() + 1;
                place = if end == token.len() + 1 {
                    place
                } else {
                    place.and_then(|place| step(place, &decoded(token)).ok()?)
                };
                let Some(Value::Object(map)) = &mut place else { continue };
                // The last token is what was put there, which is as it was given.
                if end <= path.len() && sorted.insert(path.get(..end)) {
                    map.sort_keys();
                }
            }
        }
    }
}

fn apply(object: &mut Value, operation: &Value, copied: &mut usize) -> Result<(), PatchError> {
    let word = |name: &str| operation[name].as_str().ok_or_else(|| wrong(format!("operation missing {name} field")));
    let given = operation.get("value");
    let value = || given.cloned().unwrap_or_default();
    match operation["op"].as_str().unwrap_or("unknown") {
        "add" => add(object, word("path")?, value()),
        "remove" => remove(object, word("path")?).map(drop),
        "replace" => replace(object, word("path")?, value()),
        "test" => test(object, word("path")?, given),
        "move" => {
            let moved = remove(object, word("from")?)?;
            add(object, word("path")?, moved)
        }
        "copy" => {
            let (container, key) = find(object, word("from")?)?;
            let value = step(container, &key)?.cloned().unwrap_or_default();
            *copied += if value.is_null() { 0 } else { value.to_string().len() };
            if *copied > MAX_COPIED {
                return Err(wrong("the accumulated size increase of copy is too large"));
            }
            add(object, word("path")?, value)
        }
        other => Err(wrong(format!("Unexpected kind: {other}"))),
    }
}

/// An error in the words of `evanphx/json-patch`, which names the operation first.
fn in_operation(operation: &Value, error: PatchError) -> PatchError {
    let text = |key: &str| operation[key].as_str().unwrap_or_default();
    let (kind, path) = (text("op"), text("path"));
    match error {
        PatchError::Apply(message) if message.starts_with("doc is missing path") => {
            wrong(format!("{kind} operation does not apply: {message}: missing value"))
        }
        PatchError::Apply(message) if message.starts_with("Unable to") => {
            wrong(format!("error in {kind} for path: '{path}': {message}: missing value"))
        }
        other => other,
    }
}

fn wrong(message: impl Into<String>) -> PatchError {
    PatchError::Apply(message.into())
}

/// The object or list that holds what a path leads to, and the key of it there.
fn find<'a>(object: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), PatchError> {
    let missing = || wrong(format!("doc is missing path: {path:?}"));
    let (containers, key) = path.rsplit_once('/').ok_or_else(missing)?;
    let mut place = object;
    for token in containers.split('/').skip(1) {
        place = step(place, &decoded(token)).ok().flatten().ok_or_else(missing)?;
    }
    if place.is_object() || place.is_array() { Ok((place, decoded(key))) } else { Err(missing()) }
}

fn decoded(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// What a container has at a key: nothing if an object has no such key, an error if a list has no such index.
fn step<'a>(container: &'a mut Value, key: &str) -> Result<Option<&'a mut Value>, PatchError> {
    match container {
        Value::Array(items) => {
            let index = index(key, items.len())?;
            Ok(items.get_mut(index))
        }
        Value::Object(map) => Ok(map.get_mut(key)),
        _ => Ok(None),
    }
}

/// An index below `length`. Negative ones count from the end.
fn index(key: &str, length: usize) -> Result<usize, PatchError> {
    let invalid = || wrong(format!("Unable to access invalid index: {key}"));
    let index: i64 = key.parse().map_err(|_| invalid())?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let index = if index < 0 { index.saturating_add(length) } else { index };
    if index < length { usize::try_from(index).map_err(|_| invalid()) } else { Err(invalid()) }
}

fn add(object: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    let (container, key) = find(object, path)?;
    match container {
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => items.insert(index(&key, items.len() + 1)?, value),
        Value::Object(map) => drop(map.insert(key, value)),
        _ => {}
    }
    Ok(())
}

fn remove(object: &mut Value, path: &str) -> Result<Value, PatchError> {
    let (container, key) = find(object, path)?;
    let removed = match container {
        Value::Array(items) => Some(items.remove(index(&key, items.len())?)),
        Value::Object(map) => map.shift_remove(&key),
        _ => None,
    };
    removed.ok_or_else(|| wrong(format!("Unable to remove nonexistent key: {key}")))
}

fn replace(object: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    check_depth(path, &value)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(wrong("replace operation value must be object or array"));
        }
        *object = value;
        return Ok(());
    }
    let (container, key) = find(object, path)?;
    match container {
        Value::Array(items) => {
            let index = index(&key, items.len())?;
            if let Some(item) = items.get_mut(index) {
                *item = value;
            }
        }
        Value::Object(map) => drop(map.insert(key, value)),
        _ => {}
    }
    Ok(())
}

fn test(object: &mut Value, path: &str, expected: Option<&Value>) -> Result<(), PatchError> {
    let actual = if path.is_empty() {
        Some(&*object)
    } else {
        let (container, key) = find(object, path)?;
        step(container, &key)?.map(|value| &*value)
    };
    let same = match (actual.filter(|actual| !actual.is_null()), expected) {
        (None, expected) => expected.is_none_or(Value::is_null),
        (Some(actual), expected) => expected == Some(actual),
    };
    if same { Ok(()) } else { Err(wrong(format!("testing value {path} failed"))) }
}

/// Operations could nest an object without end, and everything that walks it recurses.
fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or_default(),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or_default(),
            _ => 0,
        }
    }
    if path.split('/').count() + depth(value) > MAX_DEPTH { Err(wrong(SyntaxError::Depth.to_string())) } else { Ok(()) }
}

/// Reads a merge patch.
///
/// # Errors
/// It is not JSON, or no object.
pub fn parse_merge_patch(text: &[u8]) -> Result<(Map<String, Value>, Vec<StrictError>), PatchError> {
    let Parsed { value, duplicates } = decode::parse(text)?;
    match value {
        Value::Object(patch) => Ok((patch, duplicates.into_iter().map(StrictError::Duplicate).collect())),
        Value::Null => Err(PatchError::Merge),
        other => Err(decode::no_object(&other).into()),
    }
}

/// Merges a merge patch into an object.
pub fn merge(object: &mut Value, patch: Map<String, Value>) {
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(map) = object else { return };
    for (key, value) in patch {
        match (map.get_mut(&key), value) {
            (_, Value::Null) => drop(map.shift_remove(&key)),
            (Some(old @ Value::Object(_)), Value::Object(value)) => merge(old, value),
            (_, mut value) => {
                prune_nulls(&mut value);
                map.insert(key, value);
            }
        }
    }
    map.sort_keys();
}

fn prune_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(prune_nulls);
            map.sort_keys();
        }
        Value::Array(items) => items.iter_mut().for_each(prune_nulls),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, PatchError> {
        JsonPatch::parse(patch.to_string().as_bytes())?.apply(object)
    }

    /// What kube-apiserver 1.35 does with the same requests.
    #[test]
    fn patches_apply_as_kube_apiserver_applies_them() {
        let object = || json!({"data": {"k": "v"}, "list": [1, 2, {"x": 1}]});
        for (patch, data, list) in [
            (json!([{"op": "replace", "path": "/data/z", "value": "1"}]), json!({"k": "v", "z": "1"}), None),
            (json!([{"op": "copy", "path": "/data/q", "from": "/data/zz"}]), json!({"k": "v", "q": null}), None),
            (json!([{"op": "test", "path": "/data/zz", "value": null}]), json!({"k": "v"}), None),
            (json!([{"op": "test", "path": "/data/zz"}]), json!({"k": "v"}), None),
            (json!([{"op": "add", "path": "/data/y"}]), json!({"k": "v", "y": null}), None),
            (json!([{"op": "add", "path": "/data/a~1b~0", "value": "1"}]), json!({"a/b~": "1", "k": "v"}), None),
            (json!([{"op": "move", "path": "/data/m", "from": "/data/k"}]), json!({"m": "v"}), None),
            (
                json!([{"op": "add", "path": "/list/-", "value": 4}]),
                json!({"k": "v"}),
                Some(json!([1, 2, {"x": 1}, 4])),
            ),
            (
                json!([{"op": "add", "path": "/list/1", "value": 4}]),
                json!({"k": "v"}),
                Some(json!([1, 4, 2, {"x": 1}])),
            ),
            (json!([{"op": "remove", "path": "/list/-1"}]), json!({"k": "v"}), Some(json!([1, 2]))),
            (
                json!([{"op": "replace", "path": "/list/2/x", "value": 2}]),
                json!({"k": "v"}),
                Some(json!([1, 2, {"x": 2}])),
            ),
        ] {
            let outcome = patched(object(), patch.clone()).unwrap();
            assert_eq!(outcome["data"], data, "{patch}");
            assert_eq!(outcome["list"], list.unwrap_or_else(|| json!([1, 2, {"x": 1}])), "{patch}");
        }
    }

    #[test]
    fn operations_that_do_not_fit_are_refused() {
        for operation in [
            json!({"op": "test", "path": "/data/k", "value": "x"}),
            json!({"op": "test", "path": "/data/k"}),
            json!({"op": "remove", "path": "/data/z"}),
            json!({"op": "foo", "path": "/data/z"}),
            json!({"op": "add", "path": "/foo/z", "value": "1"}),
            json!({"op": "add", "path": "data", "value": "1"}),
            json!({"op": "move", "path": "/data/q", "from": "/data/zz"}),
            json!({"path": "/data/zz", "value": null}),
            json!({"op": "add", "value": null}),
            json!({"op": "add", "path": "/list/3", "value": 1}),
            json!({"op": "remove", "path": "/list/-9"}),
            json!({"op": "remove", "path": ""}),
            json!({"op": "replace", "path": "", "value": 5}),
            json!({"op": "add", "path": "", "value": {}}),
            json!(null),
        ] {
            let outcome = patched(json!({"data": {"k": "v"}, "list": [1, 2]}), json!([operation]));
            assert!(matches!(outcome, Err(PatchError::Apply(_))), "{operation} {outcome:?}");
        }
    }

    #[test]
    fn what_is_no_patch_is_refused_in_the_words_of_go() {
        let error = |text: &str| JsonPatch::parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(error(""), "unexpected end of JSON input");
        assert_eq!(error("{}"), "json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp");
        assert_eq!(error("[5]"), "json: cannot unmarshal number into Go value of type handlers.jsonPatchOp");
        assert_eq!(
            error(r#"[{"op":5}]"#),
            "json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"
        );
        let many = json!(vec![json!({"op": "test"}); MAX_OPERATIONS + 1]).to_string();
        assert_eq!(error(&many), "The allowed maximum operations in a JSON patch is 10000, got 10001");
        let merge = |text: &str| parse_merge_patch(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(merge("[]"), "json: cannot unmarshal array into Go value of type map[string]interface {}");
        assert_eq!(merge("null"), "Invalid JSON Patch");
    }

    #[test]
    fn unknown_and_duplicate_fields_of_operations_are_told() {
        let patch = JsonPatch::parse(br#"[{"op":"test","path":"/a","foo":1,"op":"test"}]"#).unwrap();
        let strict: Vec<String> = patch.strict.iter().map(ToString::to_string).collect();
        assert_eq!(strict, [r#"unknown field "[0].foo""#, r#"duplicate field "[0].op""#]);
    }

    #[test]
    fn objects_that_a_patch_reaches_into_have_sorted_keys() {
        let object = || json!({"kind": "K", "metadata": {"name": "x", "a": 1}, "data": {"z": 1, "k": 2}, "b": 1});
        let outcome = patched(object(), json!([{"op": "add", "path": "/data/y", "value": {"b": 1, "a": 2}}])).unwrap();
        assert_eq!(
            outcome.to_string(),
            r#"{"b":1,"data":{"k":2,"y":{"b":1,"a":2},"z":1},"kind":"K","metadata":{"name":"x","a":1}}"#
        );
        let mut outcome = object();
        merge(&mut outcome, json!({"data": {"y": {"b": 1, "a": null}, "k": null}}).as_object().unwrap().clone());
        assert_eq!(
            outcome.to_string(),
            r#"{"b":1,"data":{"y":{"b":1},"z":1},"kind":"K","metadata":{"name":"x","a":1}}"#
        );
    }

    #[test]
    fn operations_cannot_nest_without_end() {
        let operations: Vec<Value> =
            (1..400).map(|n| json!({"op": "add", "path": "/a".repeat(n), "value": {}})).collect();
        assert!(matches!(patched(json!({}), json!(operations)), Err(PatchError::Apply(_))));
        let doubling: Vec<Value> = (0..300).map(|_| json!({"op": "copy", "from": "/a", "path": "/a/b"})).collect();
        assert!(matches!(patched(json!({"a": {}}), json!(doubling)), Err(PatchError::Apply(_))));
    }

    proptest! {
        #[test]
        fn merging_the_same_patch_again_changes_nothing(value in 0..9, nested in any::<bool>()) {
            let patch = if nested { json!({"a": {"b": value, "c": null}}) } else { json!({"a": value, "d": null}) };
            let patch = patch.as_object().unwrap();
            let mut once = json!({"a": {"c": 1}, "d": 2});
            merge(&mut once, patch.clone());
            let mut twice = once.clone();
            merge(&mut twice, patch.clone());
            prop_assert_eq!(once, twice);
        }
    }
}
