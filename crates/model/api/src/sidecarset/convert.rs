//! Between v1alpha1 and v1beta1, at the level of JSON, so that nothing is lost on the way there and back.
//!
//! | v1alpha1 | v1beta1 |
//! |---|---|
//! | `spec.namespace: shop` | `spec.namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}` |
//! | label `apps.kruise.io/sidecarset-custom-version` | `spec.customVersion` |
//!
//! Either rule covers something up: that it was a namespace and which selector stood beside it; that there was a label
//! of that name. What the other version cannot say is remembered in an annotation, which counts for as long as the
//! fields that it is about are unchanged.

use serde_json::{Map, Value, json};

use crate::names;

/// The object in v1beta1. One that is not v1alpha1 stays as it is.
pub fn to_v1beta1(mut object: Value) -> Value {
    if change_version(&mut object, names::V1ALPHA1, names::V1BETA1) {
        namespace_to_selector(&mut object);
        label_to_custom_version(&mut object);
    }
    object
}

/// The object in v1alpha1. One that is not v1beta1 stays as it is.
pub fn to_v1alpha1(mut object: Value) -> Value {
    if change_version(&mut object, names::V1BETA1, names::V1ALPHA1) {
        selector_to_namespace(&mut object);
        custom_version_to_label(&mut object);
    }
    object
}

fn change_version(object: &mut Value, from: &str, to: &str) -> bool {
    let version = object.get_mut("apiVersion").filter(|version| *version == from);
    version.map(|version| *version = to.into()).is_some()
}

fn namespace_to_selector(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let Some(Value::String(namespace)) = spec.shift_remove("namespace") else { return };
    if namespace.is_empty() {
        return;
    }
    let hidden = spec.insert("namespaceSelector".to_owned(), selector_of(&namespace));
    let record = match hidden {
        // A namespace's name has no brace, so the two forms cannot be taken for each other.
        None if !namespace.starts_with('{') => namespace,
        hidden => json!({"namespace": namespace, "namespaceSelector": hidden}).to_string(),
    };
    set_metadata(object, "annotations", names::V1ALPHA1_NAMESPACE, &record);
}

fn selector_to_namespace(object: &mut Value) {
    let Some(record) = metadata(object, "annotations", names::V1ALPHA1_NAMESPACE) else { return };
    let mut record = match serde_json::from_str(record) {
        Ok(Value::Object(fields)) if record.starts_with('{') => fields,
        _ => Map::from_iter([("namespace".to_owned(), record.into())]),
    };
    let Some(Value::String(namespace)) = record.shift_remove("namespace") else { return };
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    if spec.get("namespaceSelector") != Some(&selector_of(&namespace)) {
        return;
    }
    spec.shift_remove("namespaceSelector");
    spec.insert("namespace".to_owned(), namespace.into());
    spec.extend(record.shift_remove_entry("namespaceSelector").filter(|(_, selector)| !selector.is_null()));
    remove_metadata(object, "annotations", names::V1ALPHA1_NAMESPACE);
}

fn selector_of(namespace: &str) -> Value {
    json!({"matchLabels": {names::NAMESPACE_NAME: namespace}})
}

fn label_to_custom_version(object: &mut Value) {
    let version = metadata(object, "labels", names::CUSTOM_VERSION).filter(|version| !version.is_empty());
    let Some(version) = version.map(str::to_owned) else { return };
    let record = metadata(object, "annotations", names::V1BETA1_CUSTOM_VERSION);
    let record = record.and_then(|record| serde_json::from_str::<Value>(record).ok()).unwrap_or_default();
    let (label, custom_version) = (record.get("label"), record.get("customVersion"));
    if custom_version.or(label).is_some_and(|shown| *shown == version)
        && let Some(label) = label.and_then(Value::as_str)
    {
        set_metadata(object, "labels", names::CUSTOM_VERSION, label);
        remove_metadata(object, "annotations", names::V1BETA1_CUSTOM_VERSION);
        if custom_version.is_none() {
            return;
        }
    } else {
        remove_metadata(object, "labels", names::CUSTOM_VERSION);
    }
    if let Some(spec) = object_at(object, "spec") {
        spec.insert("customVersion".to_owned(), version.into());
    }
}

fn custom_version_to_label(object: &mut Value) {
    let version = object.get_mut("spec").and_then(Value::as_object_mut);
    let version = version.and_then(|spec| spec.shift_remove("customVersion"));
    let version = version.as_ref().and_then(Value::as_str).filter(|version| !version.is_empty());
    let label = metadata(object, "labels", names::CUSTOM_VERSION);
    if let Some(label) = label.filter(|label| version.is_some() || !label.is_empty()) {
        let mut record = json!({"label": label});
        if let Some(version) = version {
            record["customVersion"] = version.into();
        }
        set_metadata(object, "annotations", names::V1BETA1_CUSTOM_VERSION, &record.to_string());
    }
    if let Some(version) = version {
        set_metadata(object, "labels", names::CUSTOM_VERSION, version);
    }
}

fn metadata<'a>(object: &'a Value, map: &str, key: &str) -> Option<&'a str> {
    object.get("metadata")?.get(map)?.get(key)?.as_str()
}

fn set_metadata(object: &mut Value, map: &str, key: &str, value: &str) {
    let Some(metadata) = object_at(object, "metadata") else { return };
    let entries = metadata.entry(map).or_insert_with(|| json!({}));
    if let Value::Object(entries) = entries {
        entries.insert(key.to_owned(), value.into());
    }
}

/// Takes the entry out, and the map with it when nothing else is in it.
fn remove_metadata(object: &mut Value, map: &str, key: &str) {
    let Some(metadata) = object_at(object, "metadata") else { return };
    if let Some(Value::Object(entries)) = metadata.get_mut(map) {
        entries.shift_remove(key);
        if entries.is_empty() {
            metadata.shift_remove(map);
        }
    }
}

fn object_at<'a>(object: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    object.as_object_mut()?.entry(field).or_insert_with(|| json!({})).as_object_mut()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(api_version: &str, metadata: &Value, spec: &Value) -> Value {
        json!({"apiVersion": api_version, "kind": "SidecarSet", "metadata": metadata, "spec": spec})
    }

    #[test]
    fn a_namespace_becomes_a_selector_and_comes_back() {
        let old = object(names::V1ALPHA1, &json!({"name": "a"}), &json!({"namespace": "shop", "future": 1}));
        let new = to_v1beta1(old.clone());
        assert_eq!(new["spec"], json!({"future": 1, "namespaceSelector": selector_of("shop")}));
        assert_eq!(new["metadata"]["annotations"], json!({names::V1ALPHA1_NAMESPACE: "shop"}));
        assert_eq!(to_v1alpha1(new), old);
    }

    #[test]
    fn the_namespace_wins_over_a_selector_that_is_not_lost() {
        let selector = json!({"matchLabels": {"tier": "gold"}});
        let spec = json!({"namespace": "shop", "namespaceSelector": selector});
        let old = object(names::V1ALPHA1, &json!({"annotations": {"note": "n"}}), &spec);
        let new = to_v1beta1(old.clone());
        assert_eq!(new["spec"]["namespaceSelector"], selector_of("shop"));
        assert_eq!(to_v1alpha1(new), old);
    }

    #[test]
    fn a_selector_that_was_changed_since_is_not_taken_for_the_namespace() {
        let mut new = to_v1beta1(object(names::V1ALPHA1, &json!({}), &json!({"namespace": "shop"})));
        new["spec"]["namespaceSelector"] = selector_of("bank");
        assert_eq!(to_v1alpha1(new)["spec"], json!({"namespaceSelector": selector_of("bank")}));
    }

    #[test]
    fn a_custom_version_is_a_label_in_v1alpha1() {
        let old = object(names::V1ALPHA1, &json!({"labels": {names::CUSTOM_VERSION: "v1"}}), &json!({}));
        let new = object(names::V1BETA1, &json!({}), &json!({"customVersion": "v1"}));
        assert_eq!(to_v1beta1(old.clone()), new);
        assert_eq!(to_v1alpha1(new), old);
    }

    #[test]
    fn a_custom_version_that_was_changed_since_wins_over_what_was_remembered() {
        let metadata = json!({"labels": {names::CUSTOM_VERSION: "label"}});
        let mut old = to_v1alpha1(object(names::V1BETA1, &metadata, &json!({"customVersion": "v1"})));
        assert_eq!(old["metadata"]["labels"][names::CUSTOM_VERSION], "v1");
        old["metadata"]["labels"][names::CUSTOM_VERSION] = "v2".into();
        let new = to_v1beta1(old);
        assert_eq!(new["spec"]["customVersion"], "v2");
        assert_eq!(new["metadata"].get("labels"), None);
    }

    /// Metadata and spec with everything that conversion looks at, each there or not.
    fn parts(own: &'static str) -> impl Strategy<Value = (Value, Value)> {
        let text = proptest::option::of("[a-c{]{1,2}");
        let selector = proptest::option::of(prop_oneof![
            Just(json!({})),
            "[a-c{]".prop_map(|name| selector_of(&name)),
            Just(json!({"matchLabels": {"a": "b"}})),
        ]);
        (text.clone(), text.clone(), text, selector).prop_map(move |(label, other, value, selector)| {
            let (mut metadata, mut spec) = (json!({"name": "a"}), json!({"containers": [{"name": "c"}]}));
            if let Some(label) = label {
                metadata["labels"] = json!({names::CUSTOM_VERSION: label});
            }
            if let Some(other) = other {
                metadata["labels"]["other"] = other.clone().into();
                metadata["annotations"] = json!({"other": other});
            }
            if let Some(value) = value {
                spec[own] = value.into();
            }
            if let Some(selector) = selector {
                spec["namespaceSelector"] = selector;
            }
            (metadata, spec)
        })
    }

    proptest! {
        #[test]
        fn v1alpha1_comes_back_as_it_was((metadata, spec) in parts("namespace")) {
            let object = object(names::V1ALPHA1, &metadata, &spec);
            prop_assert_eq!(to_v1alpha1(to_v1beta1(object.clone())), object);
        }

        #[test]
        fn v1beta1_comes_back_as_it_was((metadata, spec) in parts("customVersion")) {
            let object = object(names::V1BETA1, &metadata, &spec);
            prop_assert_eq!(to_v1beta1(to_v1alpha1(object.clone())), object);
        }
    }
}
