//! A sidecar that hands over to a second one is injected as a pair: the one that works and an empty one.

use std::collections::BTreeMap;

use pillion_api::names;
use pillion_api::pod::{Object, Pod};
use pillion_api::sidecarset::SidecarContainer;
use serde_json::{Value, json};

/// The names of the pair.
pub(crate) fn names_of(sidecar: &str) -> [String; 2] {
    [format!("{sidecar}-1"), format!("{sidecar}-2")]
}

/// The two containers; the first works, the second has the empty image.
pub(crate) fn pair(sidecar: &SidecarContainer, container: &Object) -> [Object; 2] {
    let [working, idle] = names_of(sidecar.name());
    let mut first = named(container, &working);
    let mut second = named(container, &idle);
    let empty = sidecar.upgrade_strategy.hot_upgrade_empty_image.clone().unwrap_or_default();
    second.insert("image".to_owned(), Value::String(empty));
    for (container, name) in [(&mut first, &working), (&mut second, &idle)] {
        if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
            env.push(version(names::SIDECARSET_VERSION, names::HOT_UPGRADE_VERSION_PREFIX, name));
            env.push(version(names::SIDECARSET_VERSION_ALT, names::HOT_UPGRADE_VERSION_ALT_PREFIX, name));
        }
    }
    [first, second]
}

fn named(container: &Object, name: &str) -> Object {
    let mut container = container.clone();
    container.insert("name".to_owned(), Value::String(name.to_owned()));
    container
}

fn version(variable: &str, prefix: &str, container: &str) -> Value {
    json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.annotations['{prefix}{container}']")}}})
}

/// The annotations of the pairs of `sidecars`: which container works, and the versions of both.
pub(crate) fn annotations(pod: &Pod, sidecars: &[String]) -> BTreeMap<String, String> {
    let mut annotations = BTreeMap::new();
    if sidecars.is_empty() {
        return annotations;
    }
    // An unreadable map starts anew, as upstream's does.
    let mut working: BTreeMap<String, String> = pod
        .annotation(names::WORKING_HOT_UPGRADE_CONTAINER)
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    for sidecar in sidecars {
        let [first, second] = names_of(sidecar);
        for (container, own, other) in [(&first, "1", "0"), (&second, "0", "1")] {
            annotations.insert(format!("{}{container}", names::HOT_UPGRADE_VERSION_PREFIX), own.to_owned());
            annotations.insert(format!("{}{container}", names::HOT_UPGRADE_VERSION_ALT_PREFIX), other.to_owned());
        }
        working.insert(sidecar.clone(), first);
    }
    let working: serde_json::Map<String, Value> = working.into_iter().map(|(k, v)| (k, Value::String(v))).collect();
    annotations.insert(names::WORKING_HOT_UPGRADE_CONTAINER.to_owned(), Value::Object(working).to_string());
    annotations
}
