//! SidecarSets as an API server stores them: many, and nearly all of them of the newest version and without a mistake.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::shape::{CONTAINER, VOLUME};
use super::{DecodeError, SidecarSet, SidecarSetSpec, SidecarSetStatus, decode};
use crate::field::Path;
use crate::names;

/// As [`decode`], from the text of an object and without its `managedFields`. In most cases no [`Value`](serde_json::Value) is made of it on the way.
///
/// A list in the place of an object, which no API server stores because the definition says `type: object`, is not always reported.
///
/// ```
/// use pillion_api::sidecarset::decode_stored;
/// let text = r#"{"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"}}"#;
/// assert_eq!(decode_stored(serde_json::from_str(text)?)?.name(), "mesh");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`decode`], and JSON that is nested too deep.
pub fn decode_stored(object: &RawValue) -> Result<SidecarSet, DecodeError> {
    if let Some(set) = usual(object.get()) {
        return Ok(set);
    }
    let mut set = decode(serde_json::from_str(object.get())?)?;
    set.metadata.managed_fields = None;
    Ok(set)
}

/// The set, if it is of the newest version and every value is written as its type is.
fn usual(text: &str) -> Option<SidecarSet> {
    let Stored { api_version, kind, metadata, mut spec, status } = serde_json::from_str(text).ok()?;
    if api_version != names::V1BETA1 || kind != names::SIDECARSET_KIND {
        return None;
    }
    // Types know all other fields; of these, only the tables do.
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    let objects = containers.map(|container| (&CONTAINER, &mut container.container));
    let mut errors = Vec::new();
    for (shape, object) in objects.chain(spec.volumes.iter_mut().map(|volume| (&VOLUME, volume))) {
        shape.check_fields(object, &Path::root(), &mut errors);
        shape.normalise(object);
    }
    errors.is_empty().then_some(SidecarSet { api_version, kind, metadata, spec, status })
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Stored {
    api_version: String,
    kind: String,
    #[serde(deserialize_with = "without_managed_fields")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: SidecarSetSpec,
    #[serde(default)]
    status: Option<SidecarSetStatus>,
}

/// The metadata without `managedFields`, which can be most of an object and which nobody reads.
fn without_managed_fields<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ObjectMeta, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata {
        annotations: Option<BTreeMap<String, String>>,
        creation_timestamp: Option<Time>,
        deletion_grace_period_seconds: Option<i64>,
        deletion_timestamp: Option<Time>,
        finalizers: Option<Vec<String>>,
        generate_name: Option<String>,
        generation: Option<i64>,
        labels: Option<BTreeMap<String, String>>,
        name: Option<String>,
        namespace: Option<String>,
        owner_references: Option<Vec<OwnerReference>>,
        resource_version: Option<String>,
        self_link: Option<String>,
        uid: Option<String>,
    }
    let read = Metadata::deserialize(deserializer)?;
    Ok(ObjectMeta {
        annotations: read.annotations,
        creation_timestamp: read.creation_timestamp,
        deletion_grace_period_seconds: read.deletion_grace_period_seconds,
        deletion_timestamp: read.deletion_timestamp,
        finalizers: read.finalizers,
        generate_name: read.generate_name,
        generation: read.generation,
        labels: read.labels,
        managed_fields: None,
        name: read.name,
        namespace: read.namespace,
        owner_references: read.owner_references,
        resource_version: read.resource_version,
        self_link: read.self_link,
        uid: read.uid,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn stored(object: &Value) -> Result<SidecarSet, DecodeError> {
        decode_stored(serde_json::from_str(&object.to_string()).unwrap())
    }

    fn object() -> Value {
        json!({
            "apiVersion": names::V1BETA1, "kind": "SidecarSet",
            "metadata": {
                "name": "mesh", "generateName": "me", "uid": "7d2c", "resourceVersion": "5", "generation": 2, "selfLink": "/mesh",
                "labels": {"team": "net"}, "annotations": {names::HASH: "h1"}, "finalizers": ["f"], "deletionGracePeriodSeconds": 0,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-02T00:00:00Z", "namespace": "n",
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "one", "uid": "1", "controller": true}],
            },
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "initContainers": [{"name": "init", "restartPolicy": "Always"}],
                "containers": [{
                    "name": "proxy", "image": "envoy:1.30", "transferEnv": [{"sourceContainerName": "app", "envName": "A"}],
                    "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}, "x-future": null,
                }],
                "volumes": [{"name": "tmp", "emptyDir": {}}], "updateStrategy": {"partition": "50%"}, "revisionHistoryLimit": 3,
            },
            "status": {"matchedPods": 5, "observedGeneration": 1},
        })
    }

    #[test]
    fn a_usual_set_is_what_its_value_is() {
        let text = object().to_string();
        assert_eq!(usual(&text), Some(decode(object()).unwrap()));
        let mut managed = object();
        managed["metadata"]["managedFields"] = json!([{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]);
        assert_eq!(usual(&managed.to_string()), usual(&text));
        managed["spec"]["revisionHistoryLimit"] = json!(3.0);
        assert_eq!(usual(&managed.to_string()), None);
        assert_eq!(stored(&managed).unwrap(), decode(object()).unwrap());
    }

    /// Each value of a set is replaced by values of every type.
    #[test]
    fn a_set_with_any_value_is_read_or_refused_as_its_value_is() {
        let others = [
            json!(null),
            json!(true),
            json!(7),
            json!(7.0),
            json!(0.5),
            json!("x"),
            json!([]),
            json!({}),
            json!([null]),
        ];
        let mut paths = Vec::new();
        paths_of(&object(), "", &mut paths);
        assert!(paths.len() > 50, "{paths:?}");
        for path in paths {
            for other in &others {
                let mut changed = object();
                let value = changed.pointer_mut(&path).unwrap();
                if value.is_object() && other.is_array() {
                    continue;
                }
                *value = other.clone();
                match (stored(&changed), decode(changed)) {
                    (Ok(stored), Ok(decoded)) => assert_eq!(stored, decoded, "{path} {other}"),
                    (stored, decoded) => {
                        let text = |result: Result<SidecarSet, DecodeError>| result.map_err(|error| error.to_string());
                        assert_eq!(text(stored), text(decoded), "{path} {other}");
                    }
                }
            }
        }
    }

    fn paths_of(value: &Value, at: &str, paths: &mut Vec<String>) {
        let mut below = |key: &str, value: &Value| {
            let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
            paths_of(value, &at, paths);
            paths.push(at);
        };
        match value {
            Value::Object(fields) => fields.iter().for_each(|(key, value)| below(key, value)),
            Value::Array(items) => items.iter().enumerate().for_each(|(i, item)| below(&i.to_string(), item)),
            _ => {}
        }
    }

    #[test]
    fn json_that_is_nested_too_deep_is_refused() {
        let text = format!(r#"{{"kind": {}{}}}"#, "[".repeat(200), "]".repeat(200));
        let error = decode_stored(serde_json::from_str(&text).unwrap()).unwrap_err();
        insta::assert_snapshot!(error, @"recursion limit exceeded at line 1 column 136");
    }
}
