//! What is injected into one pod: the plan, and the JSON patch that carries it out.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use json_patch::jsonptr::PointerBuf;
use json_patch::{AddOperation, Patch, PatchOperation, RemoveOperation, ReplaceOperation};
use pillion_api::pod::{Container, Object, Pod, name_of};
use pillion_api::sidecarset::{PodInjectPolicy, SidecarContainer};
use serde_json::Value;

use crate::catalog::{Body, Catalog};
use crate::note::{Denied, Note};
use crate::resources::Policy;
use crate::revision::{self, Draw};
use crate::selection::{self, Namespace};
use crate::share::App;
use crate::{build, hot_upgrade, metadata, record};

/// What is injected into one pod.
#[derive(Clone, Debug, Default)]
pub struct Injection {
    /// Init containers, in the order in which they are placed.
    pub init_containers: Vec<Placed>,
    /// Containers, in the order in which they are placed.
    pub containers: Vec<Placed>,
    /// Volumes that the pod does not have yet.
    pub volumes: Vec<Object>,
    /// References to secrets that the pod does not have yet.
    pub image_pull_secrets: Vec<Object>,
    /// Annotations to set.
    pub annotations: BTreeMap<String, String>,
    /// What was decided and why.
    pub notes: Vec<Note>,
}

/// One container and its place in the pod.
#[derive(Clone, Debug)]
pub struct Placed {
    /// The SidecarSet that it comes from.
    pub sidecar_set: String,
    /// The container.
    pub container: Object,
    /// Where it goes.
    pub place: Place,
    pub(crate) policy: Option<Arc<Policy>>,
}

impl Placed {
    /// The container's name.
    pub fn name(&self) -> &str {
        name_of(&self.container)
    }
}

/// Where in the pod's list a container goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In front of what is there.
    Before,
    /// Behind what is there.
    After,
    /// In the place of the container at this position, which has the same name.
    Replace(usize),
}

/// Plans the structure of a pod: everything that its SidecarSets inject but the resources that [`Injection::size`]
/// computes afterwards. `now` is the time of admission; the template of a workload has none, and gives the same plan
/// whenever it is asked for.
///
/// # Errors
/// A pinned revision is missing, or an annotation of the pod cannot be read or merged.
pub fn plan(
    pod: &Pod,
    namespace: &Namespace,
    catalog: &Catalog,
    draw: &Draw,
    now: Option<Timestamp>,
) -> Result<Injection, Denied> {
    let mut injection = Injection::default();
    let mut bodies = Vec::new();
    for entry in selection::select(pod, namespace, catalog) {
        bodies.push(revision::choose(entry, pod, draw, &mut injection.notes)?);
    }
    for body in &bodies {
        metadata::patch(&body.set, pod, &mut injection.annotations)?;
    }
    // What follows sees the annotations that were just written, as if the pod had come with them.
    let patched = if injection.annotations.is_empty() {
        Cow::Borrowed(pod)
    } else {
        Cow::Owned(pod.with_annotations(&injection.annotations))
    };
    let app = app(&patched, &bodies);
    let mut hot_upgrades = Vec::new();
    for body in &bodies {
        injection.add_set(body, &app, &mut hot_upgrades);
    }
    if injection.init_containers.is_empty() && injection.containers.is_empty() {
        injection.image_pull_secrets.clear();
        return Ok(injection);
    }
    // Init containers run one after the other: their order is by name, whatever set they come from.
    injection.init_containers.sort_by(|a, b| a.name().cmp(b.name()));
    place(&mut injection.init_containers, pod.init_containers(), &mut injection.notes);
    place(&mut injection.containers, pod.containers(), &mut injection.notes);
    injection.annotations.extend(record::annotations(&patched, &bodies, now)?);
    injection.annotations.extend(hot_upgrade::annotations(&patched, &hot_upgrades));
    Ok(injection)
}

/// The app's own containers. One that a sidecar of the same name replaces is not among them.
fn app<'a>(pod: &'a Pod, bodies: &[&Body]) -> App<'a> {
    let injected: HashSet<String> =
        bodies.iter().flat_map(|body| body.set.spec.containers.iter().flat_map(pod_names)).collect();
    let own = |container: &Container<'_>| !container.is_injected() && !injected.contains(container.name());
    App { pod, containers: pod.containers().filter(own).collect() }
}

/// The names that a sidecar's containers have in a pod.
fn pod_names(sidecar: &SidecarContainer) -> Vec<String> {
    if sidecar.is_hot_upgrade() {
        hot_upgrade::names_of(sidecar.name()).to_vec()
    } else {
        vec![sidecar.name().to_owned()]
    }
}

impl Injection {
    fn add_set(&mut self, body: &Body, app: &App<'_>, hot_upgrades: &mut Vec<String>) {
        let spec = &body.set.spec;
        let set = body.set.name();
        for (sidecar, policy) in spec.init_containers.iter().zip(&body.init_containers) {
            // A plain init container ends before there is anything to hand over.
            let is_pair = sidecar.is_hot_upgrade() && sidecar.is_native_sidecar();
            let built = self.built(sidecar, policy.as_ref(), body, app, is_pair, hot_upgrades);
            self.init_containers.extend(built);
        }
        for (sidecar, policy) in spec.containers.iter().zip(&body.containers) {
            let built = self.built(sidecar, policy.as_ref(), body, app, sidecar.is_hot_upgrade(), hot_upgrades);
            self.containers.extend(built);
        }
        for secret in &spec.image_pull_secrets {
            let known = app.pod.image_pull_secrets().chain(&self.image_pull_secrets).any(|s| name_of(s) == secret.name);
            if !known {
                self.image_pull_secrets
                    .push(Object::from_iter([("name".to_owned(), Value::String(secret.name.clone()))]));
            }
        }
        if !spec.init_containers.is_empty() || !spec.containers.is_empty() {
            let names = |list: &[SidecarContainer]| list.iter().map(|c| c.name().to_owned()).collect::<Vec<_>>();
            let all = [names(&spec.init_containers), names(&spec.containers)].concat().join(", ");
            self.notes.push(Note::info(set, "Injected", format!("injects {all}")));
        }
    }

    fn built(
        &mut self,
        sidecar: &SidecarContainer,
        policy: Option<&Arc<Policy>>,
        body: &Body,
        app: &App<'_>,
        is_pair: bool,
        hot_upgrades: &mut Vec<String>,
    ) -> Vec<Placed> {
        let set = body.set.name();
        let shared = app.shared_with(sidecar, set, &mut self.notes);
        let container = build::container(sidecar, &shared);
        self.add_volumes(sidecar, body, app.pod);
        let place = match sidecar.pod_inject_policy {
            Some(PodInjectPolicy::BeforeAppContainer) => Place::Before,
            _ => Place::After,
        };
        let placed = |container| Placed { sidecar_set: set.to_owned(), container, place, policy: policy.cloned() };
        if is_pair {
            hot_upgrades.push(sidecar.name().to_owned());
            hot_upgrade::pair(sidecar, &container).into_iter().map(placed).collect()
        } else {
            vec![placed(container)]
        }
    }

    /// The volumes that the sidecar itself mounts; the pod's own volume of a name wins, then the first set's.
    fn add_volumes(&mut self, sidecar: &SidecarContainer, body: &Body, pod: &Pod) {
        let own = Container(&sidecar.container);
        for mount in own.volume_mounts().chain(own.volume_devices()) {
            let name = name_of(mount);
            let Some(volume) = body.set.spec.volumes.iter().find(|volume| name_of(volume) == name) else { continue };
            let is_same =
                pod.volumes().chain(&self.volumes).find(|known| name_of(known) == name).map(|known| known == volume);
            match is_same {
                None => self.volumes.push(volume.clone()),
                Some(true) => {}
                Some(false) => {
                    let message =
                        format!("mounts the volume {name:?} that the pod has already, not the SidecarSet's own");
                    self.notes.push(Note::info(body.set.name(), "VolumeKept", message).about(sidecar.name()));
                }
            }
        }
    }

    /// The JSON patch that turns `pod` into the injected pod, and the notes. Empty when it is that already.
    pub fn into_patch(self, pod: &Pod) -> (Patch, Vec<Note>) {
        let mut operations = Vec::new();
        let injects = !self.init_containers.is_empty() || !self.containers.is_empty();
        if !self.annotations.is_empty() {
            patch_annotations(self.annotations, pod, &mut operations);
        }
        patch_containers("initContainers", self.init_containers, pod, &mut operations);
        patch_containers("containers", self.containers, pod, &mut operations);
        patch_list("volumes", self.volumes, pod, &mut operations);
        if injects {
            remove_duplicate_secrets(pod, &mut operations);
        }
        patch_list("imagePullSecrets", self.image_pull_secrets, pod, &mut operations);
        (Patch(operations), self.notes)
    }
}

/// Says for each container whether it takes the place of one that the pod has.
fn place<'a>(placed: &mut [Placed], existing: impl Iterator<Item = Container<'a>>, notes: &mut Vec<Note>) {
    let existing: HashMap<&str, (usize, bool)> =
        existing.enumerate().map(|(i, container)| (container.name(), (i, container.is_injected()))).collect();
    for placed in placed {
        let Some((index, is_injected)) = existing.get(name_of(&placed.container)) else { continue };
        placed.place = Place::Replace(*index);
        if !is_injected {
            let message = "replaces the pod's own container of the same name; rename one of them if that is not meant";
            notes.push(
                Note::warning(&placed.sidecar_set, "ContainerReplaced", message).about(name_of(&placed.container)),
            );
        }
    }
}

fn pointer<'a>(tokens: impl IntoIterator<Item = &'a str>) -> PointerBuf {
    PointerBuf::from_tokens(tokens)
}

fn add(path: PointerBuf, value: Value) -> PatchOperation {
    PatchOperation::Add(AddOperation { path, value })
}

fn patch_annotations(annotations: BTreeMap<String, String>, pod: &Pod, operations: &mut Vec<PatchOperation>) {
    let metadata = &pod.as_value()["metadata"];
    if metadata.is_null() {
        operations.push(add(pointer(["metadata"]), Value::Object(Object::new())));
    }
    if metadata["annotations"].is_null() {
        operations.push(add(pointer(["metadata", "annotations"]), Value::Object(Object::new())));
    }
    for (key, value) in annotations {
        if pod.annotation(&key) != Some(value.as_str()) {
            operations.push(add(pointer(["metadata", "annotations", &key]), Value::String(value)));
        }
    }
}

/// A list that is absent or null is made first.
fn ensure_list(list: &str, pod: &Pod, operations: &mut Vec<PatchOperation>) {
    let spec = &pod.as_value()["spec"];
    if spec.is_null() && !operations.iter().any(|operation| operation.path().as_str() == "/spec") {
        operations.push(add(pointer(["spec"]), Value::Object(Object::new())));
    }
    if spec[list].is_null() {
        operations.push(add(pointer(["spec", list]), Value::Array(Vec::new())));
    }
}

fn patch_containers(list: &str, placed: Vec<Placed>, pod: &Pod, operations: &mut Vec<PatchOperation>) {
    if placed.is_empty() {
        return;
    }
    ensure_list(list, pod, operations);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for Placed { container, place, .. } in placed {
        match place {
            Place::Before => before.push(container),
            Place::After => after.push(container),
            Place::Replace(index) => {
                let current = pod.as_value()["spec"][list].get(index).and_then(Value::as_object);
                if current != Some(&container) {
                    let path = pointer(["spec", list, &index.to_string()]);
                    operations
                        .push(PatchOperation::Replace(ReplaceOperation { path, value: Value::Object(container) }));
                }
            }
        }
    }
    for (index, container) in before.into_iter().enumerate() {
        operations.push(add(pointer(["spec", list, &index.to_string()]), Value::Object(container)));
    }
    append(list, after, operations);
}

fn patch_list(list: &str, more: Vec<Object>, pod: &Pod, operations: &mut Vec<PatchOperation>) {
    if !more.is_empty() {
        ensure_list(list, pod, operations);
        append(list, more, operations);
    }
}

fn append(list: &str, more: Vec<Object>, operations: &mut Vec<PatchOperation>) {
    operations.extend(more.into_iter().map(|object| add(pointer(["spec", list, "-"]), Value::Object(object))));
}

/// The list of secrets is a map by name to the API server; a name that is there twice is kept once.
fn remove_duplicate_secrets(pod: &Pod, operations: &mut Vec<PatchOperation>) {
    let mut seen = HashSet::new();
    let doubled: Vec<usize> = pod
        .image_pull_secrets()
        .enumerate()
        .filter(|(_, secret)| !seen.insert(name_of(secret)))
        .map(|(i, _)| i)
        .collect();
    // From the back, so that the positions of the others stay true.
    for index in doubled.into_iter().rev() {
        operations.push(PatchOperation::Remove(RemoveOperation {
            path: pointer(["spec", "imagePullSecrets", &index.to_string()]),
        }));
    }
}
