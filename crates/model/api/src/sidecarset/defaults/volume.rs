//! The defaults of a Kubernetes volume that Kruise's webhook writes.

use serde_json::{Map, Value};

use super::{object, objects, set_field_ref_version, set_if_absent};

/// `rw-r--r--`, which JSON can only say in decimal.
const MODE: i32 = 0o644;

pub(super) fn apply_defaults(volume: &mut Map<String, Value>) {
    // A source that we do not know is one, too.
    if volume.iter().all(|(key, value)| key == "name" || value.is_null()) {
        volume.insert("emptyDir".to_owned(), Value::Object(Map::new()));
    }
    if let Some(host_path) = object(volume, "hostPath") {
        set_if_absent(host_path, "type", "");
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = object(volume, source) {
            set_if_absent(source, "defaultMode", MODE);
        }
    }
    if let Some(downward_api) = object(volume, "downwardAPI") {
        objects(downward_api, "items").for_each(set_field_ref_version);
    }
    let Some(projected) = object(volume, "projected") else { return };
    for source in objects(projected, "sources") {
        if let Some(downward_api) = object(source, "downwardAPI") {
            objects(downward_api, "items").for_each(set_field_ref_version);
        }
        if let Some(token) = object(source, "serviceAccountToken") {
            set_if_absent(token, "expirationSeconds", 3600);
        }
    }
}
