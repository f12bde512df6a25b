//! The two hashes of a SidecarSet, byte compatible with Kruise's.
//!
//! Pods carry them. A pod whose hash differs is not up to date; one whose hash differs even without the images cannot
//! be brought up to date in place.

use pillion_rules::safe_encode;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{SidecarContainer, SidecarSet, go_json};

/// The hash of the containers, and of the init containers if one of them is a native sidecar.
///
/// ```
/// use pillion_api::sidecarset;
/// let set = |image: &str| sidecarset::decode(serde_json::json!({
///     "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
///     "spec": {"containers": [{"name": "proxy", "image": image}]}
/// }));
/// assert_ne!(sidecarset::hash(&set("envoy:1.30")?), sidecarset::hash(&set("envoy:1.31")?));
/// # Ok::<(), sidecarset::DecodeError>(())
/// ```
pub fn hash(set: &SidecarSet) -> String {
    digest(&hashed_text(set, |_| {}))
}

/// As [`hash`], with every image left out: what an update in place cannot change.
pub fn hash_without_image(set: &SidecarSet) -> String {
    digest(&hashed_text(set, |container| {
        container.shift_remove("image");
    }))
}

fn hashed_text(set: &SidecarSet, edit: fn(&mut Map<String, Value>)) -> String {
    let mut hashed = Map::new();
    let mut add = |name: &str, containers: &[SidecarContainer]| {
        let mut list: Value = go_json::field(name, &containers).unwrap_or_default();
        list.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut).for_each(edit);
        hashed.insert(name.to_owned(), list);
    };
    add("containers", &set.spec.containers);
    // Kruise hashes no plain init container, and all init containers once there is a native sidecar.
    if set.spec.init_containers.iter().any(SidecarContainer::is_native_sidecar) {
        add("initContainers", &set.spec.init_containers);
    }
    go_json::text(&Value::Object(hashed))
}

fn digest(text: &str) -> String {
    let nibbles = Sha256::digest(text).into_iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    safe_encode(&nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect::<String>())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sidecarset::{apply_defaults, decode};

    fn set(spec: &Value) -> SidecarSet {
        decode(json!({
            "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "test"}, "spec": spec
        }))
        .unwrap()
    }

    fn one_container() -> Value {
        json!({"name": "container1", "image": "test-image"})
    }

    /// The rows of Kruise's `hash_test.go`.
    #[test]
    fn hashes_are_those_of_kruise() {
        let plain = set(&json!({"containers": [one_container()]}));
        let with_plain_init = set(&json!({"containers": [one_container()], "initContainers": [one_container()]}));
        let native = json!({"name": "container1", "image": "test-image", "restartPolicy": "Always"});
        let with_native = set(&json!({"containers": [one_container()], "initContainers": [native]}));

        for set in [plain, with_plain_init] {
            assert_eq!(hash(&set), "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78");
            assert_eq!(hash_without_image(&set), "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759");
        }
        assert_eq!(hash(&with_native), "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w");
        assert_eq!(
            hash_without_image(&with_native),
            "5725fw8bwbx249bw57v5892c847dzf48bww9zb7c86xb95264fdz26654847b2c8"
        );
    }

    /// The row of Kruise's `sidecarset_mutating_test.go`.
    #[test]
    fn hashes_after_defaulting_are_those_of_kruise() {
        let mut set = set(&json!({"containers": [{"name": "dns-f", "image": "dns:1.0"}]}));
        apply_defaults(&mut set);
        assert_eq!(hash(&set), "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684");
        assert_eq!(hash_without_image(&set), "82684vwf9d4cb4wz4vffx4ddfbb47ww4z4wwxdbwb8w2zbb7zvf4524cdd49bv94");
    }

    #[test]
    fn the_hashed_text_always_has_three_empty_objects() {
        assert_eq!(
            hashed_text(&set(&json!({"containers": [one_container()]})), |_| {}),
            r#"{"containers":[{"name":"container1","image":"test-image","resources":{},"upgradeStrategy":{},"shareVolumePolicy":{}}]}"#
        );
        assert_eq!(hashed_text(&set(&json!({})), |_| {}), r#"{"containers":null}"#);
    }

    #[test]
    fn both_versions_have_the_same_hash() {
        let object = |version: &str| json!({"apiVersion": version, "kind": "SidecarSet", "spec": {"containers": [one_container()]}});
        let [old, new] =
            [crate::names::V1ALPHA1, crate::names::V1BETA1].map(|version| decode(object(version)).unwrap());
        assert_eq!(hash(&old), hash(&new));
    }

    #[test]
    fn both_spellings_of_a_resources_policy_have_the_same_hash() {
        let kruise = set(&json!({"containers": [{"name": "a", "resourcesPolicy":
            {"targetContainersMode": "sum", "resourcesExpr": {"limits": {"cpu": "cpu*50%"}}}}]}));
        let proposal = set(&json!({"containers": [{"name": "a", "resourcesPolicy":
            {"targetContainerMode": "sum", "resourceExpr": {"limits": {"cpu": "cpu*50%"}}}}]}));
        assert_eq!(hash(&kruise), hash(&proposal));
    }

    #[test]
    fn what_kruise_does_not_know_comes_last_sorted_and_only_when_set() {
        let text = |extra: Value| {
            let mut container = one_container();
            container.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            hashed_text(&set(&json!({"containers": [container]})), |_| {})
        };
        let known = text(json!({}));
        assert_eq!(text(json!({"sidecar": null, "zebra": null})), known);
        let head = known.strip_suffix("}]}").unwrap();
        assert_eq!(
            text(json!({"zebra": {"b": 1, "a": "<"}, "sidecar": true, "failPodOnSidecarError": false})),
            format!(r#"{head},"failPodOnSidecarError":false,"sidecar":true,"zebra":{{"a":"\u003c","b":1}}}}]}}"#)
        );
    }

    #[test]
    fn a_new_field_of_kubernetes_moves_the_hash() {
        let with = |lifecycle: Value| hash(&set(&json!({"containers": [{"name": "a", "lifecycle": lifecycle}]})));
        assert_ne!(with(json!({"stopSignal": "SIGUSR1"})), with(json!({})));
    }
}
