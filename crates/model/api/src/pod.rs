//! A pod is the JSON that came, with typed views on it.
//!
//! ```
//! use pillion_api::pod::Pod;
//! let pod = Pod::new(serde_json::json!({
//!     "metadata": {"name": "web-0", "labels": {"app": "web"}},
//!     "spec": {"containers": [{"name": "app", "resources": {"limits": {"cpu": "2"}}, "newField": 1}]}
//! }))?;
//! assert_eq!(pod.label("app"), Some("web"));
//! assert_eq!(pod.containers().next().and_then(|c| c.limit("cpu")).unwrap().to_string(), "2");
//! assert_eq!(pod.as_value()["spec"]["containers"][0]["newField"], 1);
//! # Ok::<(), pillion_api::field::Error>(())
//! ```

use std::collections::BTreeMap;

use pillion_quantity::Quantity;
use serde_json::{Map, Value};

use crate::field::{Error, Path};
use crate::names;

/// A JSON object.
pub type Object = Map<String, Value>;

/// The JSON of a pod whose parts that Pillion reads have the right types. `null` is the same as absent, as in Go.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    object: Value,
}

impl Pod {
    /// Takes the JSON of a pod.
    ///
    /// # Errors
    /// The first field that Pillion reads and that has the wrong type. Everything else is the API server's to judge.
    pub fn new(object: Value) -> Result<Pod, Error> {
        check_pod(&object)?;
        Ok(Pod { object })
    }

    /// The JSON.
    pub fn as_value(&self) -> &Value {
        &self.object
    }

    /// The JSON, given back.
    pub fn into_value(self) -> Value {
        self.object
    }

    /// `metadata.name`, or `metadata.generateName` while it has none, or "".
    pub fn name(&self) -> &str {
        let metadata = |key| self.object["metadata"][key].as_str().filter(|name| !name.is_empty());
        metadata("name").or_else(|| metadata("generateName")).unwrap_or_default()
    }

    /// `metadata.namespace`, or `default`.
    pub fn namespace(&self) -> &str {
        self.object["metadata"]["namespace"].as_str().filter(|name| !name.is_empty()).unwrap_or("default")
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"].get(key)?.as_str()
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        strings(&self.object["metadata"]["labels"])
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["annotations"].get(key)?.as_str()
    }

    /// The same pod with these annotations set.
    #[must_use]
    pub fn with_annotations(&self, annotations: &BTreeMap<String, String>) -> Pod {
        let mut object = self.object.clone();
        if let Some(metadata) =
            entry_object(&mut object, "metadata").and_then(|metadata| entry_object(metadata, "annotations"))
        {
            for (key, value) in annotations {
                metadata[key.as_str()] = Value::String(value.clone());
            }
        }
        Pod { object }
    }

    /// The app's containers, and the sidecars that are already among them.
    pub fn containers(&self) -> impl Iterator<Item = Container<'_>> {
        objects(&self.object["spec"]["containers"]).map(Container)
    }

    /// The init containers, native sidecars included.
    pub fn init_containers(&self) -> impl Iterator<Item = Container<'_>> {
        objects(&self.object["spec"]["initContainers"]).map(Container)
    }

    /// The volumes.
    pub fn volumes(&self) -> impl Iterator<Item = &Object> {
        objects(&self.object["spec"]["volumes"])
    }

    /// The references to secrets for pulling images.
    pub fn image_pull_secrets(&self) -> impl Iterator<Item = &Object> {
        objects(&self.object["spec"]["imagePullSecrets"])
    }

    /// Whether the pod has ended or is being deleted.
    pub fn is_inactive(&self) -> bool {
        matches!(self.object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"))
            || !self.object["metadata"]["deletionTimestamp"].is_null()
    }
}

/// One container of a pod or of a SidecarSet.
#[derive(Clone, Copy, Debug)]
pub struct Container<'a>(pub &'a Object);

impl<'a> Container<'a> {
    /// Its name, or "".
    pub fn name(self) -> &'a str {
        name_of(self.0)
    }

    /// Its environment variables.
    pub fn env(self) -> impl Iterator<Item = &'a Object> {
        self.list("env")
    }

    /// The environment variable `name`.
    pub fn env_var(self, name: &str) -> Option<&'a Object> {
        self.env().find(|variable| name_of(variable) == name)
    }

    /// Its volume mounts.
    pub fn volume_mounts(self) -> impl Iterator<Item = &'a Object> {
        self.list("volumeMounts")
    }

    /// Its raw block devices.
    pub fn volume_devices(self) -> impl Iterator<Item = &'a Object> {
        self.list("volumeDevices")
    }

    /// Whether a SidecarSet put it there.
    pub fn is_injected(self) -> bool {
        self.env_var(names::IS_INJECTED)
            .is_some_and(|variable| variable.get("value").and_then(Value::as_str) == Some("true"))
    }

    /// Whether it is, as an init container, a native sidecar.
    pub fn is_native_sidecar(self) -> bool {
        self.0.get("restartPolicy").and_then(Value::as_str) == Some("Always")
    }

    /// Its limit of a resource.
    pub fn limit(self, resource: &str) -> Option<Quantity> {
        self.quantity("limits", resource)
    }

    /// Its request of a resource.
    pub fn request(self, resource: &str) -> Option<Quantity> {
        self.quantity("requests", resource)
    }

    fn quantity(self, list: &str, resource: &str) -> Option<Quantity> {
        quantity(self.0.get("resources")?.get(list)?.get(resource)?).ok()
    }

    fn list(self, key: &str) -> impl Iterator<Item = &'a Object> {
        self.0.get(key).into_iter().flat_map(objects)
    }
}

/// The `name` of an object in a list, or "".
pub fn name_of(object: &Object) -> &str {
    object.get("name").and_then(Value::as_str).unwrap_or_default()
}

/// The object at `key`, made if it is absent or null.
fn entry_object<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Value> {
    let entry = object.as_object_mut()?.entry(key).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(Object::new());
    }
    Some(entry)
}

fn quantity(value: &Value) -> Result<Quantity, serde_json::Error> {
    serde::Deserialize::deserialize(value)
}

fn objects(list: &Value) -> impl Iterator<Item = &Object> {
    list.as_array().into_iter().flatten().filter_map(Value::as_object)
}

fn strings(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    map.as_object().into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
}

fn check_pod(pod: &Value) -> Result<(), Error> {
    let root = Path::root();
    let metadata_path = Path::new("metadata");
    let spec_path = Path::new("spec");
    let pod = need_object(pod, &root)?;
    if let Some(metadata) = object_at(pod, &root, "metadata")? {
        string_at(metadata, &metadata_path, "name")?;
        string_at(metadata, &metadata_path, "namespace")?;
        check_strings(metadata, &metadata_path, "labels")?;
        check_strings(metadata, &metadata_path, "annotations")?;
    }
    let Some(spec) = object_at(pod, &root, "spec")? else { return Ok(()) };
    for list in ["initContainers", "containers"] {
        for (path, container) in objects_at(spec, &spec_path, list)? {
            check_container(container, &path)?;
        }
    }
    for list in ["volumes", "imagePullSecrets"] {
        for (path, object) in objects_at(spec, &spec_path, list)? {
            string_at(object, &path, "name")?;
        }
    }
    Ok(())
}

fn check_container(container: &Object, path: &Path) -> Result<(), Error> {
    string_at(container, path, "name")?;
    string_at(container, path, "restartPolicy")?;
    for (path, variable) in objects_at(container, path, "env")? {
        string_at(variable, &path, "name")?;
        string_at(variable, &path, "value")?;
    }
    for (path, mount) in objects_at(container, path, "volumeMounts")? {
        string_at(mount, &path, "name")?;
        string_at(mount, &path, "mountPath")?;
        string_at(mount, &path, "subPathExpr")?;
    }
    for (path, device) in objects_at(container, path, "volumeDevices")? {
        string_at(device, &path, "name")?;
        string_at(device, &path, "devicePath")?;
    }
    let Some(resources) = object_at(container, path, "resources")? else { return Ok(()) };
    let resources_path = path.child("resources");
    for list in ["limits", "requests"] {
        for (resource, value) in object_at(resources, &resources_path, list)?.into_iter().flatten() {
            let path = resources_path.child(list).child(resource);
            quantity(value).map_err(|error| Error::invalid(&path, value.clone(), error.to_string()))?;
        }
    }
    Ok(())
}

fn need_object<'a>(value: &'a Value, path: &Path) -> Result<&'a Object, Error> {
    value.as_object().ok_or_else(|| Error::type_invalid(path, value.clone(), "must be an object"))
}

fn at<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    object.get(key).filter(|value| !value.is_null())
}

fn object_at<'a>(object: &'a Object, path: &Path, key: &str) -> Result<Option<&'a Object>, Error> {
    at(object, key).map(|value| need_object(value, &path.child(key))).transpose()
}

fn string_at(object: &Object, path: &Path, key: &str) -> Result<(), Error> {
    match at(object, key) {
        None | Some(Value::String(_)) => Ok(()),
        Some(value) => Err(Error::type_invalid(&path.child(key), value.clone(), "must be a string")),
    }
}

fn check_strings(object: &Object, path: &Path, key: &str) -> Result<(), Error> {
    let path = path.child(key);
    for (name, value) in at(object, key).map(|map| need_object(map, &path)).transpose()?.into_iter().flatten() {
        if !value.is_string() && !value.is_null() {
            return Err(Error::type_invalid(&path.key(name), value.clone(), "must be a string: put it in quotes"));
        }
    }
    Ok(())
}

fn objects_at<'a>(object: &'a Object, path: &Path, key: &str) -> Result<Vec<(Path, &'a Object)>, Error> {
    let path = path.child(key);
    let Some(list) = at(object, key) else { return Ok(Vec::new()) };
    let list = list.as_array().ok_or_else(|| Error::type_invalid(&path, list.clone(), "must be a list"))?;
    list.iter()
        .enumerate()
        .map(|(i, item)| need_object(item, &path.index(i)).map(|item| (path.index(i), item)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_the_same_as_absent() {
        let pod =
            Pod::new(json!({"metadata": {"labels": null}, "spec": {"containers": null, "volumes": null}})).unwrap();
        assert_eq!(pod.containers().count(), 0);
        assert_eq!(pod.namespace(), "default");
    }

    #[test]
    fn a_wrong_type_is_answered_with_its_path() {
        let refused = |pod: Value| Pod::new(pod).unwrap_err().to_string();
        assert_eq!(refused(json!([])), "Invalid value: []: must be an object");
        assert_eq!(
            refused(json!({"metadata": {"annotations": {"a": true}}})),
            "metadata.annotations[a]: Invalid value: true: must be a string: put it in quotes"
        );
        assert_eq!(
            refused(json!({"spec": {"containers": [{"name": "a"}, {"env": {}}]}})),
            "spec.containers[1].env: Invalid value: {}: must be a list"
        );
        let quantity = refused(json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1 core"}}}]}}));
        assert!(
            quantity.starts_with(r#"spec.containers[0].resources.limits.cpu: Invalid value: "1 core": "#),
            "{quantity}"
        );
    }
}
