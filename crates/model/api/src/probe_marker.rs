//! `PodProbeMarker`: probes whose results mark pods, as Kruise defines them.

use serde_json::{Value, json};

pub const KIND: &str = "PodProbeMarker";
/// Its plural name.
pub const PLURAL: &str = "podprobemarkers";
/// The name of its definition.
pub const DEFINITION: &str = "podprobemarkers.apps.kruise.io";

/// Pod conditions that Kubernetes itself writes: no probe may.
pub const CONDITIONS_OF_KUBERNETES: [&str; 9] = [
    "AllContainersRestarting",
    "ContainersReady",
    "DisruptionTarget",
    "Initialized",
    "PodReadyToStartContainers",
    "PodResizeInProgress",
    "PodResizePending",
    "PodScheduled",
    "Ready",
];

/// The definition, for clusters without Kruise. What Kruise's webhook refuses is refused by the schema.
pub fn crd() -> Value {
    let names = json!({"kind": KIND, "listKind": "PodProbeMarkerList", "plural": PLURAL, "singular": "podprobemarker"});
    let columns = json!([
        {"name": "MATCHED", "type": "integer", "jsonPath": ".status.matchedPods"},
        {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {
            "group": "apps.kruise.io",
            "names": names,
            "scope": "Namespaced",
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true, "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema()},
            }],
        },
    })
}

fn schema() -> Value {
    let text = json!({"type": "string"});
    let map = json!({"type": "object", "additionalProperties": text});
    // With bounds, since the API server estimates what comparing two selectors can cost.
    let value = json!({"type": "string", "maxLength": 63});
    let expression = json!({"type": "object", "required": ["key", "operator"], "properties": {
        "key": {"type": "string", "maxLength": 317}, "operator": value, "values": {"type": "array", "maxItems": 100, "items": value},
    }});
    let labels = json!({"type": "object", "maxProperties": 100, "additionalProperties": value});
    let selector = json!({
        "type": "object",
        "properties": {"matchLabels": labels, "matchExpressions": {"type": "array", "maxItems": 100, "items": expression}},
        "x-kubernetes-validations": [
            {"rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)", "message": "selector must not be empty"},
            {"rule": "self == oldSelf", "message": "field is immutable"},
        ],
    });
    let policy = json!({"type": "object", "required": ["state"], "properties": {
        "state": {"type": "string", "enum": ["Succeeded", "Failed"]}, "labels": map, "annotations": map,
    }});
    let port = json!({"x-kubernetes-int-or-string": true});
    let header = json!({"type": "object", "required": ["name", "value"], "properties": {"name": text, "value": text}});
    let get = json!({"type": "object", "required": ["port", "path"], "properties": {
        "path": text, "port": port, "scheme": {"type": "string", "enum": ["HTTP", "HTTPS"]}, "httpHeaders": {"type": "array", "items": header},
    }});
    let seconds = json!({"type": "integer", "format": "int32", "minimum": 0});
    let probe = json!({
        "type": "object",
        "properties": {
            "exec": {"type": "object", "properties": {"command": {"type": "array", "items": text}}},
            "httpGet": get,
            "tcpSocket": {"type": "object", "required": ["port"], "properties": {"port": port}},
            "initialDelaySeconds": seconds, "timeoutSeconds": seconds, "periodSeconds": seconds,
            "successThreshold": seconds, "failureThreshold": seconds,
        },
        "x-kubernetes-validations": [{
            "rule": "[has(self.exec), has(self.httpGet), has(self.tcpSocket)].filter(given, given).size() == 1",
            "message": "one of exec, httpGet and tcpSocket is required",
        }],
    });
    let reserved: Vec<String> = CONDITIONS_OF_KUBERNETES.iter().map(|name| format!("'{name}'")).collect();
    let item = json!({
        "type": "object", "required": ["name", "containerName", "probe"],
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 63, "pattern": "^[^#]+$"},
            "containerName": {"type": "string", "minLength": 1, "maxLength": 63},
            "probe": probe,
            "podConditionType": {"type": "string", "maxLength": 316, "pattern": "^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9])?$"},
            "markerPolicy": {"type": "array", "maxItems": 2, "items": policy, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["state"]},
        },
        "x-kubernetes-validations": [{
            "rule": "has(self.podConditionType) || has(self.markerPolicy)", "message": "podConditionType or markerPolicy is required",
        }, {
            "rule": format!("!has(self.podConditionType) || !(self.podConditionType in [{}])", reserved.join(", ")),
            "message": "podConditionType is a condition of Kubernetes itself",
        }],
    });
    json!({
        "type": "object",
        "properties": {
            "apiVersion": text, "kind": text, "metadata": {"type": "object"},
            "spec": {"type": "object", "required": ["selector", "probes"], "properties": {
                "selector": selector,
                "probes": {"type": "array", "maxItems": 32, "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            }},
            "status": {"type": "object", "properties": {
                "observedGeneration": {"type": "integer", "format": "int64"}, "matchedPods": {"type": "integer", "format": "int64"},
            }},
        },
    })
}
