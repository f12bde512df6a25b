//! Owner references that name one owner twice.

use serde_json::Value;

use crate::call::Warnings;

/// Keeps the first reference to each owner, and warns the client.
pub(crate) fn deduplicate(object: &mut Value, warnings: &Warnings, after_admission: bool) {
    let Some(references) = object["metadata"].get_mut("ownerReferences").and_then(Value::as_array_mut) else { return };
    let mut seen: Vec<Value> = Vec::new();
    let mut repeated: Vec<String> = Vec::new();
    references.retain(|reference| {
        if !seen.contains(reference) {
            seen.push(reference.clone());
            return true;
        }
        let uid = reference["uid"].as_str().unwrap_or_default().to_owned();
        if !repeated.contains(&uid) {
            repeated.push(uid);
        }
        false
    });
    if repeated.is_empty() {
        return;
    }
    repeated.sort();
    let when = if after_admission { " after mutating admission happens" } else { "" };
    warnings.add(format!(
        ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
        repeated.join(", ")
    ));
}
