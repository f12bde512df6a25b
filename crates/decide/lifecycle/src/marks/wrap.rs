//! Marked containers under `pillion-wrap`: every command of the pod is run by it, and it tells the sidecars when the work is done.

use pillion_api::pod::{Object, name_of};
use pillion_note::{ContainerKey, ContainerList, Draft, Position};
use serde_json::{Value, json};

use super::table::IGNORE_ERRORS;
use super::{Mark, Means, name_in, names_of};

/// The init container that copies the wrapper, and the volume that it copies it to.
const NAME: &str = "pillion-wrap";
/// Where the wrapper is, read-only.
const FOLDER: &str = "/pillion-wrap";
/// The wrapper.
const PROGRAM: &str = "/pillion-wrap/pillion-wrap";
/// The volume in which the wrappers tell each other how far they are.
const STATE: &str = "pillion-wrap-state";
/// No kubelet gives a container less, in seconds.
const MINIMUM_GRACE: i64 = crate::termination::MINIMUM;
/// Where that is.
const STATE_FOLDER: &str = "/pillion-wrap-state";

/// The user of the image.
const USER: i64 = 65532;

/// Why the commands cannot be wrapped; `None` if they can.
pub(super) fn obstacle(draft: &Draft<'_>, marks: &[Mark], means: &Means) -> Option<String> {
    if means.wrap_image.is_none() {
        return Some("the manager has no image with pillion-wrap (--wrap-image)".to_owned());
    }
    for (key, container) in draft.containers(ContainerList::Containers) {
        if container.0.get("command").and_then(Value::as_array).is_none_or(Vec::is_empty) {
            return Some(format!("the command of container {:?} is not in the manifest", container.name()));
        }
        if container.0.get("restartPolicy").is_some_and(|policy| !policy.is_null()) {
            return Some(format!("container {:?} has a restartPolicy of its own", container.name()));
        }
        let is_marked = marks.iter().any(|mark| mark.key == key);
        if is_marked && container.0.get("lifecycle").and_then(|lifecycle| lifecycle.get("preStop")).is_some() {
            return Some(format!(
                "container {:?} has a preStop hook, which only the kubelet can run",
                container.name()
            ));
        }
        if is_marked && IGNORE_ERRORS.is_on(container) {
            let (name, variable) = (container.name(), IGNORE_ERRORS.place.name());
            return Some(format!("the errors of container {name:?} are to be ignored ({variable})"));
        }
    }
    None
}

/// Wraps the commands of all containers but those that are native sidecars.
pub(super) fn make(draft: &mut Draft<'_>, marks: &[Mark], native: &[Mark], policy: &str, image: &str) {
    let is_one_of = |marks: &[Mark], key: ContainerKey| marks.iter().any(|mark| mark.key == key);
    let containers: Vec<ContainerKey> = draft.containers(ContainerList::Containers).map(|(key, _)| key).collect();
    let work: Vec<String> = containers
        .iter()
        .filter(|key| !is_one_of(marks, **key) && !is_one_of(native, **key))
        .map(|key| name_in(draft, *key))
        .collect();
    let grace = draft.field("terminationGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(30).max(MINIMUM_GRACE);
    for key in containers {
        let name = name_in(draft, key);
        let mut command = vec![json!(PROGRAM)];
        if is_one_of(marks, key) {
            command.extend([json!("sidecar"), json!(format!("--grace={grace}")), json!(format!("--policy={policy}"))]);
            command.extend(work.iter().map(|name| json!(format!("--work={name}"))));
        } else {
            command.push(json!("work"));
        }
        command.extend([json!(format!("--name={name}")), json!(format!("--state={STATE_FOLDER}")), json!("--")]);
        if let Some(container) = draft.container_mut(key) {
            wrap(container, command);
        }
    }
    if !names_of(draft, ContainerList::InitContainers).iter().any(|name| name == NAME) {
        let is_roots_pod =
            draft.field("securityContext").and_then(|context| context.get("runAsUser")) == Some(&json!(0));
        draft.insert(ContainerList::InitContainers, Position::Last, installer(image, is_roots_pod));
    }
    for volume in [NAME, STATE] {
        if !draft.volumes().any(|known| name_of(known) == volume) {
            draft.add_volume(object(json!({"name": volume, "emptyDir": {}})));
        }
    }
}

/// A container that is wrapped already stays as it is.
fn wrap(container: &mut Object, mut wrapper: Vec<Value>) {
    let own = container.get("command").and_then(Value::as_array).cloned().unwrap_or_default();
    if own.first() == Some(&json!(PROGRAM)) {
        return;
    }
    wrapper.extend(own);
    container.insert("command".to_owned(), Value::Array(wrapper));
    let mounts = container.entry("volumeMounts").or_insert_with(|| json!([]));
    if mounts.is_null() {
        *mounts = json!([]);
    }
    if let Some(mounts) = mounts.as_array_mut() {
        mounts.push(json!({"name": NAME, "mountPath": FOLDER, "readOnly": true}));
        mounts.push(json!({"name": STATE, "mountPath": STATE_FOLDER}));
    }
}

/// Copies the wrapper to where the others find it. Requests equal limits, so that the pod's class of service stays what it is, and it is as
/// harmless as the Pod Security Standard `restricted` wants it, whatever the pod says of its other containers.
fn installer(image: &str, is_roots_pod: bool) -> Object {
    let resources = json!({"cpu": "50m", "memory": "16Mi"});
    let mut security = json!({
        "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"},
    });
    // Elsewhere the image's own user, or the one that the pod or the cluster says, is not root.
    if is_roots_pod {
        security["runAsUser"] = json!(USER);
    }
    object(json!({
        "name": NAME,
        "image": image,
        "command": ["/usr/bin/pillion-wrap", "install", FOLDER],
        "resources": {"limits": resources, "requests": resources},
        "securityContext": security,
        "volumeMounts": [{"name": NAME, "mountPath": FOLDER}],
    }))
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
