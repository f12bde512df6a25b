//! The fields that a refused update would change.

use serde_json::Value;

use pillion_rules::field::Path;
use pillion_rules::value::same;

/// The paths of the fields below `path` that are not the same: `changes spec.containers[0].command, spec.hostNetwork`.
pub(super) fn changed_fields(old: &Value, new: &Value, path: &Path) -> String {
    let mut changed = Vec::new();
    collect(old, new, path, &mut changed);
    format!("changes {}", changed.join(", "))
}

fn collect(old: &Value, new: &Value, path: &Path, changed: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|field| !before.contains_key(*field));
            for field in before.keys().chain(added) {
                collect(&old[field], &new[field], &path.child(field), changed);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (i, (old, new)) in before.iter().zip(after).enumerate() {
                collect(old, new, &path.index(i), changed);
            }
        }
        _ if same(old, new) => {}
        _ => changed.push(path.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_named_as_deep_as_they_are() {
        let old = json!({"containers": [{"name": "a", "ports": []}], "hostNetwork": true, "volumes": [{"name": "v"}]});
        let new = json!({"containers": [{"name": "a", "command": ["b"]}], "volumes": [], "nodeName": "n"});
        assert_eq!(
            changed_fields(&old, &new, &Path::new("spec")),
            "changes spec.containers[0].command, spec.hostNetwork, spec.volumes, spec.nodeName"
        );
    }
}
