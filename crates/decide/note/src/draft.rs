//! The pod as it came beside the pod as it is now.

mod list;

use std::collections::BTreeMap;

use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation};
use pillion_api::pod::{Container, Object, Pod, name_of};
use serde_json::Value;

use crate::note::Note;
use list::{Entry, List};

/// One of the pod's two lists of containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContainerList {
    /// `spec.initContainers`, native sidecars included.
    InitContainers,
    /// `spec.containers`.
    Containers,
}

/// Where in its list a container is inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Before the containers that the pod came with, after those that were inserted there earlier.
    First,
    /// At the end.
    Last,
}

/// A container of a draft. It stays valid while other containers come and go, and when the container is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerKey(usize);

/// A pod while it is being decided about. Each step changes it and leaves notes; [`Draft::patch`] is taken at the end.
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    pod: &'a Pod,
    /// The annotations that were set, over those of `pod`.
    annotations: BTreeMap<String, String>,
    /// The fields of `spec` that were set, over those of `pod`.
    fields: BTreeMap<&'static str, Value>,
    init_containers: List<'a>,
    containers: List<'a>,
    volumes: List<'a>,
    image_pull_secrets: List<'a>,
    notes: Vec<Note>,
    /// Whether somebody will read how each value was reached.
    wants_details: bool,
    /// The key of the next container that is inserted.
    next_key: usize,
}

impl<'a> Draft<'a> {
    /// A draft in which nothing has been decided yet.
    pub fn new(pod: &'a Pod) -> Draft<'a> {
        let mut next_key = 0;
        let mut list = |name| List::new(name, pod, &mut next_key);
        Draft {
            pod,
            annotations: BTreeMap::new(),
            fields: BTreeMap::new(),
            init_containers: list("initContainers"),
            containers: list("containers"),
            volumes: list("volumes"),
            image_pull_secrets: list("imagePullSecrets"),
            notes: Vec::new(),
            wants_details: true,
            next_key,
        }
    }

    /// The same without notes about details, which would be written and read by nobody.
    #[must_use]
    pub fn without_details(self) -> Draft<'a> {
        Draft { wants_details: false, ..self }
    }

    /// Whether notes about how each value was reached are wanted.
    pub fn wants_details(&self) -> bool {
        self.wants_details
    }

    /// The pod as it came.
    pub fn pod(&self) -> &'a Pod {
        self.pod
    }

    /// An annotation as it is now.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str).or_else(|| self.pod.annotation(key))
    }

    pub fn set_annotation(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.annotations.insert(key.into(), value.into());
    }

    /// A field of `spec` as it is now, other than the lists that have methods of their own.
    pub fn field(&self, name: &str) -> Option<&Value> {
        self.fields.get(name).or_else(|| self.pod.as_value()["spec"].get(name)).filter(|value| !value.is_null())
    }

    /// Sets a field of `spec`, such as `shareProcessNamespace`, other than the lists that have methods of their own.
    pub fn set_field(&mut self, name: &'static str, value: Value) {
        self.fields.insert(name, value);
    }

    /// The containers of a list as they are now, in order.
    pub fn containers(&self, list: ContainerList) -> impl Iterator<Item = (ContainerKey, Container<'_>)> {
        self.list(list).entries.iter().map(|entry| (ContainerKey(entry.key), Container(&entry.object)))
    }

    /// A container as it is now; `None` after it was removed.
    pub fn container(&self, key: ContainerKey) -> Option<Container<'_>> {
        self.entry(key).map(|entry| Container(&entry.object))
    }

    /// A container to be changed; `None` after it was removed. What stays equal does not appear in the patch.
    pub fn container_mut(&mut self, key: ContainerKey) -> Option<&mut Object> {
        [&mut self.init_containers, &mut self.containers]
            .into_iter()
            .find_map(|list| list.entry_mut(key.0))
            .map(|entry| entry.object.to_mut())
    }

    /// The container of this name that the pod came with, whatever became of it since. Of two with the same name, which the
    /// API server will refuse, it is the last.
    pub fn original(&self, list: ContainerList, name: &str) -> Option<ContainerKey> {
        let is_meant = |entry: &&Entry<'_>| {
            let origin = entry.origin.and_then(|origin| self.list(list).original(origin));
            origin.is_some_and(|origin| name_of(origin) == name)
        };
        self.list(list).entries.iter().rfind(is_meant).map(|entry| ContainerKey(entry.key))
    }

    /// Whether a container belongs to the pod itself: it came with the pod, was not replaced, and no SidecarSet injected it
    /// before.
    pub fn is_own(&self, key: ContainerKey) -> bool {
        self.entry(key).is_some_and(|entry| entry.is_own && !Container(&entry.object).is_injected())
    }

    pub fn insert(&mut self, list: ContainerList, position: Position, container: Object) -> ContainerKey {
        let key = self.next_key;
        self.next_key += 1;
        self.list_mut(list).insert(position, Entry::inserted(key, container));
        ContainerKey(key)
    }

    /// Puts another container in the place of one, which is no longer the pod's own.
    pub fn replace(&mut self, key: ContainerKey, container: Object) {
        let lists = [&mut self.init_containers, &mut self.containers];
        if let Some(entry) = lists.into_iter().find_map(|list| list.entry_mut(key.0)) {
            entry.is_own = false;
            *entry.object.to_mut() = container;
        }
    }

    /// Moves a container to the end of a list. It stays the pod's own if it was.
    pub fn move_last(&mut self, key: ContainerKey, to: ContainerList) {
        let entry = self.init_containers.remove(key.0).or_else(|| self.containers.remove(key.0));
        if let Some(entry) = entry {
            self.list_mut(to).insert(Position::Last, Entry { origin: None, ..entry });
        }
    }

    pub fn remove(&mut self, key: ContainerKey) {
        self.init_containers.remove(key.0).or_else(|| self.containers.remove(key.0));
    }

    /// The volumes as they are now.
    pub fn volumes(&self) -> impl Iterator<Item = &Object> {
        self.volumes.objects()
    }

    pub fn add_volume(&mut self, volume: Object) {
        self.volumes.insert(Position::Last, Entry::inserted(0, volume));
    }

    /// The references to secrets for pulling images, as they are now.
    pub fn image_pull_secrets(&self) -> impl Iterator<Item = &Object> {
        self.image_pull_secrets.objects()
    }

    /// Adds a reference to a secret for pulling images.
    pub fn add_image_pull_secret(&mut self, secret: Object) {
        self.image_pull_secrets.insert(Position::Last, Entry::inserted(0, secret));
    }

    /// Keeps the first reference to each secret. To the API server the list is a map by name.
    pub fn deduplicate_image_pull_secrets(&mut self) {
        let mut seen: Vec<String> = Vec::new();
        self.image_pull_secrets.entries.retain(|entry| {
            let name = name_of(&entry.object);
            let is_first = !seen.iter().any(|known| known == name);
            if is_first {
                seen.push(name.to_owned());
            }
            is_first
        });
    }

    /// Leaves a note.
    pub fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// The notes so far.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// The notes, at the end.
    pub fn into_notes(self) -> Vec<Note> {
        self.notes
    }

    /// The patch as [`Draft::patch`] gives it, and the notes. What was inserted is moved into the patch.
    pub fn finish(mut self) -> (Patch, Vec<Note>) {
        let notes = std::mem::take(&mut self.notes);
        (self.into_patch(), notes)
    }

    /// The pod as it is now.
    pub fn to_value(&self) -> Value {
        let mut pod = self.pod.as_value().clone();
        if !self.annotations.is_empty()
            && let Some(annotations) = child(&mut pod, "metadata").and_then(|metadata| child(metadata, "annotations"))
        {
            for (key, value) in &self.annotations {
                annotations[key.as_str()] = Value::String(value.clone());
            }
        }
        for (name, value) in &self.fields {
            if let Some(spec) = child(&mut pod, "spec") {
                spec[*name] = value.clone();
            }
        }
        for list in self.lists() {
            if list.is_changed()
                && let Some(spec) = child(&mut pod, "spec")
            {
                spec[list.name] = list.to_value();
            }
        }
        pod
    }

    /// The JSON patch that turns the pod as it came into the pod as it is now.
    pub fn patch(&self) -> Patch {
        self.clone().into_patch()
    }

    fn into_patch(self) -> Patch {
        let mut operations = Vec::new();
        patch_annotations(self.pod, self.annotations, &mut operations);
        let spec = &self.pod.as_value()["spec"];
        let mut below_spec = Vec::new();
        for (name, value) in self.fields {
            if spec.get(name) != Some(&value) {
                below_spec.push(add(pointer(["spec", name]), value));
            }
        }
        for list in [self.init_containers, self.containers, self.volumes, self.image_pull_secrets] {
            list.into_patch(&mut below_spec);
        }
        if spec.is_null() && !below_spec.is_empty() {
            operations.push(add(pointer(["spec"]), Value::Object(Object::new())));
        }
        operations.extend(below_spec);
        Patch(operations)
    }

    fn lists(&self) -> [&List<'a>; 4] {
        [&self.init_containers, &self.containers, &self.volumes, &self.image_pull_secrets]
    }

    fn list(&self, list: ContainerList) -> &List<'a> {
        match list {
            ContainerList::InitContainers => &self.init_containers,
            ContainerList::Containers => &self.containers,
        }
    }

    fn list_mut(&mut self, list: ContainerList) -> &mut List<'a> {
        match list {
            ContainerList::InitContainers => &mut self.init_containers,
            ContainerList::Containers => &mut self.containers,
        }
    }

    fn entry(&self, key: ContainerKey) -> Option<&Entry<'a>> {
        self.init_containers.entries.iter().chain(&self.containers.entries).find(|entry| entry.key == key.0)
    }
}

fn patch_annotations(pod: &Pod, annotations: BTreeMap<String, String>, operations: &mut Vec<PatchOperation>) {
    let is_new = |(key, value): &(String, String)| pod.annotation(key) != Some(value.as_str());
    let mut changed = annotations.into_iter().filter(is_new).peekable();
    if changed.peek().is_none() {
        return;
    }
    let metadata = &pod.as_value()["metadata"];
    if metadata.is_null() {
        operations.push(add(pointer(["metadata"]), Value::Object(Object::new())));
    }
    if metadata["annotations"].is_null() {
        let all = changed.map(|(key, value)| (key, Value::String(value))).collect();
        operations.push(add(pointer(["metadata", "annotations"]), Value::Object(all)));
    } else {
        operations
            .extend(changed.map(|(key, value)| add(pointer(["metadata", "annotations", &key]), Value::String(value))));
    }
}

/// The object at `key`, created if it is absent or null.
fn child<'v>(object: &'v mut Value, key: &str) -> Option<&'v mut Value> {
    let entry = object.as_object_mut()?.entry(key).or_insert(Value::Null);
    if entry.is_null() {
        *entry = Value::Object(Object::new());
    }
    Some(entry)
}

fn pointer<'t>(tokens: impl IntoIterator<Item = &'t str>) -> PointerBuf {
    PointerBuf::from_tokens(tokens)
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}
