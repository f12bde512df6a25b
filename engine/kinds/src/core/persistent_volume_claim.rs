//! `PersistentVolumeClaims`. They are stored, and not checked. StatefulSets make them.

use pillion_rules::field::Path;
use pillion_rules::quantities::quantity;
use pillion_rules::value::{fill, fill_text, object_mut, set};
use serde_json::{Value, json};

use crate::rules::Rules;
use crate::stored_only::NAMESPACED_WITH_STATUS;

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |claim| set(claim, "status", json!({"phase": "Pending"})),
    ..NAMESPACED_WITH_STATUS
};

pub(crate) fn default(claim: &mut Value) {
    fill(object_mut(claim, "spec"), "volumeMode", "Filesystem");
    fill_text(object_mut(claim, "status"), "phase", "Pending");
}

/// Warns of a size that is no whole number of bytes.
pub(crate) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let fractional = |field: &'static str| {
        let value = quantity(&spec["resources"][field]["storage"])?;
        (value.milli_value() % 1000 != 0).then(|| {
            let path = path.child("resources").child(field).key("storage");
            format!("{path}: fractional byte value \"{value}\" is invalid, must be an integer")
        })
    };
    ["requests", "limits"].into_iter().filter_map(fractional).collect()
}
