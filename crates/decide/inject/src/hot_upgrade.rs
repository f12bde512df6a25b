//! A sidecar that is upgraded by handing over to a second container is injected as a pair: the one that works and an idle one.

use pillion_api::names;
use pillion_api::pod::Object;
use pillion_api::record::hot_upgrade::{
    Working, other_version_annotation, pair as names_of, version_annotation, version_annotations,
};
use pillion_api::sidecarset::SidecarContainer;
use pillion_note::Draft;
use serde_json::{Value, json};

/// The versions of a new pair: the first container works.
const FIRST_VERSIONS: [u64; 2] = [1, 0];

/// The two containers; the first works, the second has the empty image.
pub(crate) fn pair(sidecar: &SidecarContainer, container: &Object) -> [Object; 2] {
    let [working, idle] = names_of(sidecar.name());
    let first = named(container, &working);
    let mut second = named(container, &idle);
    let empty = sidecar.upgrade_strategy.hot_upgrade_empty_image.clone().unwrap_or_default();
    second.insert("image".to_owned(), Value::String(empty));
    [first, second]
}

fn named(container: &Object, name: &str) -> Object {
    let mut container = container.clone();
    container.insert("name".to_owned(), Value::String(name.to_owned()));
    if let Some(env) = container.get_mut("env").and_then(Value::as_array_mut) {
        env.push(annotation_variable(names::SIDECARSET_VERSION, &version_annotation(name)));
        env.push(annotation_variable(names::SIDECARSET_VERSION_ALT, &other_version_annotation(name)));
    }
    container
}

fn annotation_variable(variable: &str, annotation: &str) -> Value {
    json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.annotations['{annotation}']")}}})
}

/// Records the pairs of `sidecars`: which container works, and the versions of both.
pub(crate) fn write(draft: &mut Draft<'_>, sidecars: &[String]) {
    if sidecars.is_empty() {
        return;
    }
    let mut working = Working::parse(draft.annotation(names::WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default());
    for sidecar in sidecars {
        for (key, value) in version_annotations(sidecar, FIRST_VERSIONS) {
            draft.set_annotation(key, value);
        }
        let [first, _] = names_of(sidecar);
        working.set(sidecar, first);
    }
    draft.set_annotation(names::WORKING_HOT_UPGRADE_CONTAINER, working.to_string());
}
