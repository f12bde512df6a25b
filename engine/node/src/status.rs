//! What is reported to the API server about a pod: only what has changed, and never that an ended pod lives again.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

/// Lists of the status that the API server merges by a key, so that others can have entries of their own in them.
const KEYED: [(&str, &str); 3] = [("conditions", "type"), ("podIPs", "ip"), ("hostIPs", "ip")];

/// The strategic merge patch that turns `old` into `new`; `None` when they say the same.
pub(crate) fn patch(old: Option<&PodStatus>, new: &PodStatus) -> Option<Value> {
    let terminal = |status: &PodStatus| matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    if old.is_some_and(terminal) && !terminal(new) {
        return None;
    }
    let old = old.map(fields).unwrap_or_default();
    let new = fields(new);
    let mut patch = Map::new();
    for (name, value) in &new {
        let before = old.get(name).unwrap_or(&Value::Null);
        if filled(before) == filled(value) {
            continue;
        }
        let Some((_, key)) = KEYED.iter().find(|(list, _)| list == name) else {
            patch.insert(name.clone(), value.clone());
            continue;
        };
        let change = keyed(before, value, key);
        if !change.is_empty() {
            patch.insert(name.clone(), Value::Array(change));
        }
        let order = value.as_array().into_iter().flatten().map(|entry| json!({*key: entry[key]}));
        patch.insert(format!("$setElementOrder/{name}"), order.collect());
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// As JSON, where times have whole seconds.
fn fields(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(fields)) => fields,
        // A status is an object, and all of it can be written.
        _ => Map::new(),
    }
}

/// Without empty objects: the API server writes `lastState: {}` where nothing was said.
fn filled(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Object(fields) if fields.is_empty() => None,
        Value::Object(fields) => {
            let fields = fields.iter().filter_map(|(name, value)| Some((name.clone(), filled(value)?)));
            Some(fields.collect::<Map<_, _>>()).filter(|fields| !fields.is_empty()).map(Value::Object)
        }
        Value::Array(list) => Some(list.iter().map(|value| filled(value).unwrap_or_default()).collect()),
        other => Some(other.clone()),
    }
}

/// The entries that are new or other, and directives to delete those that are gone.
fn keyed(old: &Value, new: &Value, key: &str) -> Vec<Value> {
    let entries = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let (old, new) = (entries(old), entries(new));
    let gone = old.iter().filter(|before| new.iter().all(|entry| entry[key] != before[key]));
    let deletions = gone.map(|entry| json!({"$patch": "delete", key: entry[key]}));
    let changes = new.iter().filter(|entry| !old.contains(entry)).map(|entry| {
        let before = old.iter().find(|before| before[key] == entry[key]).and_then(Value::as_object);
        let mut change = entry.clone();
        // An entry is merged with the old one, so what it says no more has to be taken back.
        for name in before.into_iter().flat_map(Map::keys).filter(|name| entry.get(*name).is_none()) {
            change[name] = Value::Null;
        }
        change
    });
    changes.chain(deletions).collect()
}

/// Writes a change of the status. The uid makes sure that it is still the same pod.
pub(crate) async fn write(client: &Client, pod: &Pod, change: Value) -> kube::Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": change});
    let parameters = PatchParams { field_manager: Some("kubelet".into()), ..PatchParams::default() };
    pods.patch_status(&pod.name_any(), &parameters, &Patch::Strategic(patch)).await
}

/// Takes an ended pod out of the API server. One that is gone already is as good.
pub(crate) async fn delete(client: &Client, pod: &Pod) -> kube::Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let preconditions = Preconditions { uid: pod.metadata.uid.clone(), resource_version: None };
    let parameters =
        DeleteParams { grace_period_seconds: Some(0), preconditions: Some(preconditions), ..DeleteParams::default() };
    match pods.delete(&pod.name_any(), &parameters).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        other => other.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(value: Value) -> PodStatus {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_changed_is_written() {
        let ready = |value: &str| json!({"type": "Ready", "status": value});
        let unready = json!({"type": "Ready", "status": "False", "reason": "ContainersNotReady"});
        let other = json!({"type": "pillion.dev/other", "status": "True"});
        let old = json!({"phase": "Pending", "message": "m", "podIPs": [{"ip": "10.0.0.1"}], "conditions": [unready, other],
            "containerStatuses": [{"name": "main", "ready": false, "restartCount": 0, "image": "", "imageID": "", "lastState": {}}]});
        let mut same = old.clone();
        same["containerStatuses"][0].as_object_mut().unwrap().remove("lastState");
        let mut ready_now = same.clone();
        ready_now["conditions"] = json!([ready("True"), other]);
        let mut moved = same.clone();
        (moved["phase"], moved["podIPs"]) = (json!("Running"), json!([{"ip": "10.0.0.2"}]));
        moved.as_object_mut().unwrap().remove("message");
        let mut alone = same.clone();
        alone["conditions"] = json!([unready]);
        let mut turned = same.clone();
        turned["conditions"] = json!([other, unready]);
        let table = [
            (same, Value::Null),
            (
                ready_now,
                json!({
                    "conditions": [{"type": "Ready", "status": "True", "reason": null}],
                    "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "pillion.dev/other"}],
                }),
            ),
            (
                moved,
                json!({
                    "phase": "Running", "message": null,
                    "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "delete", "ip": "10.0.0.1"}],
                    "$setElementOrder/podIPs": [{"ip": "10.0.0.2"}],
                }),
            ),
            (
                alone,
                json!({
                    "conditions": [{"$patch": "delete", "type": "pillion.dev/other"}],
                    "$setElementOrder/conditions": [{"type": "Ready"}],
                }),
            ),
            (turned, json!({"$setElementOrder/conditions": [{"type": "pillion.dev/other"}, {"type": "Ready"}]})),
        ];
        for (new, expected) in table {
            let patch = patch(Some(&status(old.clone())), &status(new));
            assert_eq!(patch.unwrap_or_default(), expected);
        }
    }

    #[test]
    fn a_terminal_phase_is_never_taken_back() {
        let (failed, running) = (status(json!({"phase": "Failed"})), status(json!({"phase": "Running"})));
        assert_eq!(patch(Some(&failed), &running), None);
        assert!(patch(Some(&running), &failed).is_some());
    }
}
