//! One sidecar as it goes into one pod.

use pillion_api::names;
use pillion_api::pod::{Container, Object, name_of};
use pillion_api::sidecarset::SidecarContainer;
use serde_json::{Value, json};

use crate::share::Shared;

/// The container of `sidecar` with what it shares with the app, marked as injected.
pub(crate) fn container(sidecar: &SidecarContainer, shared: &Shared<'_>) -> Object {
    let own = Container(&sidecar.container);
    // The environment is made anew below. A container without one is copied as it is, which takes less time.
    let mut container: Object = if own.0.contains_key("env") {
        own.0.iter().filter(|(key, _)| *key != "env").map(|(key, value)| (key.clone(), value.clone())).collect()
    } else {
        own.0.clone()
    };

    // A path is used once, whether by a mount or by a device; what the sidecar says itself comes first.
    let mut paths: Vec<&str> = own.volume_mounts().map(|mount| text(mount, "mountPath")).collect();
    paths.extend(own.volume_devices().map(|device| text(device, "devicePath")));
    let mounts = shared.mounts.iter().filter(|mount| is_first(&mut paths, text(mount, "mountPath"))).copied().collect();
    append(&mut container, "volumeMounts", mounts);
    let devices =
        shared.devices.iter().filter(|device| is_first(&mut paths, text(device, "devicePath"))).copied().collect();
    append(&mut container, "volumeDevices", devices);

    let is_mark = |variable: &&Object| name_of(variable) == names::IS_INJECTED;
    let mut env: Vec<Value> = own.env().filter(|variable| !is_mark(variable)).cloned().map(Value::Object).collect();
    env.push(json!({"name": names::IS_INJECTED, "value": "true"}));
    let mut seen: Vec<&str> = own.env().map(name_of).chain([names::IS_INJECTED]).collect();
    let transferred = shared.env.iter().filter(|variable| is_first(&mut seen, name_of(variable)));
    env.extend(transferred.map(|variable| Value::Object((*variable).clone())));
    container.insert("env".to_owned(), Value::Array(env));
    container
}

/// Whether a text is not among those seen, which it is from then on. They are few, so that a set would cost more than it saves.
fn is_first<'a>(seen: &mut Vec<&'a str>, text: &'a str) -> bool {
    let is_new = !seen.contains(&text);
    if is_new {
        seen.push(text);
    }
    is_new
}

fn text<'a>(object: &'a Object, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Appends to a list of a container; a list that gets nothing stays as it is, absent included.
fn append(container: &mut Object, key: &str, more: Vec<&Object>) {
    if more.is_empty() {
        return;
    }
    let more = more.into_iter().cloned().map(Value::Object);
    match container.get_mut(key).and_then(Value::as_array_mut) {
        Some(list) => list.extend(more),
        None => {
            container.insert(key.to_owned(), Value::Array(more.collect()));
        }
    }
}
