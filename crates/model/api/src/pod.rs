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

pub mod partial;

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

    pub fn label(&self, key: &str) -> Option<&str> {
        self.object["metadata"]["labels"].get(key)?.as_str()
    }

    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        strings(&self.object["metadata"]["labels"])
    }

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
            .is_some_and(|variable| field(variable, "value").and_then(Value::as_str) == Some("true"))
    }

    /// Whether it is, as an init container, a native sidecar.
    pub fn is_native_sidecar(self) -> bool {
        self.0.get("restartPolicy").and_then(Value::as_str) == Some("Always")
    }

    pub fn limit(self, resource: &str) -> Option<Quantity> {
        self.quantity("limits", resource)
    }

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
    field(object, "name").and_then(Value::as_str).unwrap_or_default()
}

/// A field of an object. The objects in a pod's lists are small and many, and comparing a few keys takes less time than hashing one.
pub fn field<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    const SMALL: usize = 8;
    if object.len() > SMALL {
        return object.get(key);
    }
    object.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
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

/// Where in the pod something is. It becomes a path when something is wrong there, which is seldom.
#[derive(Clone, Copy)]
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Child(&'a str),
    Key(&'a str),
    Index(usize),
}

impl<'a> Place<'a> {
    const ROOT: Place<'static> = Place { above: None, step: Step::Root };

    fn at(&'a self, step: Step<'a>) -> Place<'a> {
        Place { above: Some(self), step }
    }

    fn child(&'a self, name: &'a str) -> Place<'a> {
        self.at(Step::Child(name))
    }

    fn path(&self) -> Path {
        let above = self.above.map_or_else(Path::root, Place::path);
        match self.step {
            Step::Root => above,
            Step::Child(name) => above.child(name),
            Step::Key(key) => above.key(key),
            Step::Index(index) => above.index(index),
        }
    }
}

fn check_pod(pod: &Value) -> Result<(), Error> {
    let root = Place::ROOT;
    let (metadata_place, spec_place) = (root.child("metadata"), root.child("spec"));
    let pod = need_object(pod, &root)?;
    if let Some(metadata) = object_at(pod, &metadata_place, "metadata")? {
        string_at(metadata, &metadata_place, "name")?;
        string_at(metadata, &metadata_place, "namespace")?;
        check_strings(metadata, &metadata_place, "labels")?;
        check_strings(metadata, &metadata_place, "annotations")?;
    }
    let Some(spec) = object_at(pod, &spec_place, "spec")? else { return Ok(()) };
    for list in ["initContainers", "containers"] {
        each_at(spec, &spec_place, list, check_container)?;
    }
    for list in ["volumes", "imagePullSecrets"] {
        each_at(spec, &spec_place, list, |object, place| string_at(object, place, "name"))?;
    }
    Ok(())
}

fn check_container(container: &Object, place: &Place<'_>) -> Result<(), Error> {
    string_at(container, place, "name")?;
    string_at(container, place, "restartPolicy")?;
    each_at(container, place, "env", |variable, place| {
        string_at(variable, place, "name")?;
        string_at(variable, place, "value")
    })?;
    each_at(container, place, "volumeMounts", |mount, place| {
        string_at(mount, place, "name")?;
        string_at(mount, place, "mountPath")?;
        string_at(mount, place, "subPathExpr")
    })?;
    each_at(container, place, "volumeDevices", |device, place| {
        string_at(device, place, "name")?;
        string_at(device, place, "devicePath")
    })?;
    let resources_place = place.child("resources");
    let Some(resources) = object_at(container, &resources_place, "resources")? else { return Ok(()) };
    for list in ["limits", "requests"] {
        let list_place = resources_place.child(list);
        for (resource, value) in object_at(resources, &list_place, list)?.into_iter().flatten() {
            quantity(value).map_err(|error| {
                Error::invalid(&list_place.child(resource).path(), value.clone(), error.to_string())
            })?;
        }
    }
    Ok(())
}

fn need_object<'a>(value: &'a Value, place: &Place<'_>) -> Result<&'a Object, Error> {
    value.as_object().ok_or_else(|| Error::type_invalid(&place.path(), value.clone(), "must be an object"))
}

fn at<'a>(object: &'a Object, key: &str) -> Option<&'a Value> {
    field(object, key).filter(|value| !value.is_null())
}

/// The object at `key`, which is at `place`.
fn object_at<'a>(object: &'a Object, place: &Place<'_>, key: &str) -> Result<Option<&'a Object>, Error> {
    at(object, key).map(|value| need_object(value, place)).transpose()
}

fn string_at(object: &Object, place: &Place<'_>, key: &str) -> Result<(), Error> {
    match at(object, key) {
        None | Some(Value::String(_)) => Ok(()),
        Some(value) => Err(Error::type_invalid(&place.child(key).path(), value.clone(), "must be a string")),
    }
}

fn check_strings(object: &Object, place: &Place<'_>, key: &str) -> Result<(), Error> {
    let place = place.child(key);
    for (name, value) in object_at(object, &place, key)?.into_iter().flatten() {
        if !value.is_string() && !value.is_null() {
            let path = place.at(Step::Key(name)).path();
            return Err(Error::type_invalid(&path, value.clone(), "must be a string: put it in quotes"));
        }
    }
    Ok(())
}

/// Checks each object of the list at `key`.
fn each_at(
    object: &Object,
    place: &Place<'_>,
    key: &str,
    check: impl Fn(&Object, &Place<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let place = place.child(key);
    let Some(list) = at(object, key) else { return Ok(()) };
    let list = list.as_array().ok_or_else(|| Error::type_invalid(&place.path(), list.clone(), "must be a list"))?;
    // A variable that was left out of a partial pod is null. To Go, null in a list is an object without fields.
    let is_absent = |item: &Value| key == "env" && item.is_null();
    // What is no object is reported before what is wrong in one, wherever in the list it is.
    for (i, item) in list.iter().enumerate().filter(|(_, item)| !is_absent(item)) {
        need_object(item, &place.at(Step::Index(i)))?;
    }
    for (i, item) in list.iter().enumerate().filter_map(|(i, item)| Some((i, item.as_object()?))) {
        check(item, &place.at(Step::Index(i)))?;
    }
    Ok(())
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
        assert_eq!(
            refused(json!({"spec": {"containers": [{"env": [null, {"name": 5}]}]}})),
            "spec.containers[0].env[1].name: Invalid value: 5: must be a string"
        );
        assert_eq!(
            refused(json!({"spec": {"containers": [null]}})),
            "spec.containers[0]: Invalid value: null: must be an object"
        );
        let quantity = refused(json!({"spec": {"containers": [{"resources": {"limits": {"cpu": "1 core"}}}]}}));
        assert!(
            quantity.starts_with(r#"spec.containers[0].resources.limits.cpu: Invalid value: "1 core": "#),
            "{quantity}"
        );
    }
}
