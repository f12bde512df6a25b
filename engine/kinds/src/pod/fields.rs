//! Fields of a pod that field selectors may name.

use serde_json::Value;

use pillion_rules::pod::read::{flag, list, text};

/// Value of a selectable field; `None` if it is not one.
///
/// ```
/// let pod = serde_json::json!({"spec": {"nodeName": "node-1"}});
/// assert_eq!(pillion_kinds::pod::selectable(&pod, "spec.nodeName").as_deref(), Some("node-1"));
/// assert_eq!(pillion_kinds::pod::selectable(&pod, "spec.hostNetwork").as_deref(), Some("false"));
/// assert_eq!(pillion_kinds::pod::selectable(&pod, "spec.hostname"), None);
/// ```
pub fn selectable(pod: &Value, field: &str) -> Option<String> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    Some(match field {
        "spec.nodeName" => text(spec, "nodeName").to_owned(),
        "spec.restartPolicy" => text(spec, "restartPolicy").to_owned(),
        "spec.schedulerName" => text(spec, "schedulerName").to_owned(),
        "spec.serviceAccountName" => text(spec, "serviceAccountName").to_owned(),
        "spec.hostNetwork" => flag(spec, "hostNetwork").to_string(),
        "status.phase" => text(status, "phase").to_owned(),
        "status.podIP" => list(status, "podIPs").first().map_or("", |ip| text(ip, "ip")).to_owned(),
        // It may be named, and is empty whatever the pod has.
        "status.podIPs" => String::new(),
        "status.nominatedNodeName" => text(status, "nominatedNodeName").to_owned(),
        _ => return None,
    })
}
