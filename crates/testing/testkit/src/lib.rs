//! Factories for tests: pods and SidecarSets in few words. Pure; a dev-dependency anywhere.
//!
//! ```
//! use pillion_testkit::{mk_container, mk_pod, mk_set};
//! use serde_json::json;
//!
//! let pod = mk_pod("web-0", json!({"app": "web"}), [mk_container("app")]);
//! assert_eq!(pod.label("app"), Some("web"));
//! let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}));
//! assert_eq!(set.spec.containers[0].name(), "proxy");
//! ```
//!
//! ```text
//!  a few words ──▶ mk_… ──▶ a complete, valid object ──▶ the code under test
//! ```
//!
//! # Invariants
//! - What a factory makes is valid, so that a test fails only for what it says itself.
//! - [`fuzz`] holds what must be true of any input: the fuzzers and the replay of their corpus call the same functions.
#![forbid(unsafe_code)]
#![expect(
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "a test that cannot set its stage should stop there"
)]

pub mod fuzz;

use pillion_api::pod::{Container, Pod};
use pillion_api::sidecarset::{self, SidecarSet};
use pillion_gates::Gates;
use pillion_inject::{Accounts, Catalog, Context, Namespace, Selection};
use pillion_note::{Draft, Draw};
use serde_json::{Value, json};

/// A container with a name and an image.
pub fn mk_container(name: &str) -> Value {
    json!({"name": name, "image": format!("{name}:1.0")})
}

/// A container with cpu and memory limits and requests; "" leaves one out.
pub fn mk_sized(name: &str, limits: (&str, &str), requests: (&str, &str)) -> Value {
    let list = |(cpu, memory): (&str, &str)| {
        let values = [("cpu", cpu), ("memory", memory)].into_iter().filter(|(_, value)| !value.is_empty());
        Value::Object(values.map(|(key, value)| (key.to_owned(), json!(value))).collect())
    };
    json!({"name": name, "image": format!("{name}:1.0"), "resources": {"limits": list(limits), "requests": list(requests)}})
}

/// A pod in namespace `default`.
pub fn mk_pod(name: &str, labels: Value, containers: impl IntoIterator<Item = Value>) -> Pod {
    let containers: Vec<Value> = containers.into_iter().collect();
    Pod::new(json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"containers": containers}
    }))
    .expect("a pod of the right form")
}

/// A SidecarSet as the webhook would store it: the spec with a selector added, defaulted and hashed.
pub fn mk_set(name: &str, match_labels: Value, spec: Value) -> SidecarSet {
    let mut object =
        json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": name}, "spec": spec});
    object["spec"]["selector"] = json!({"matchLabels": match_labels});
    let mut set = sidecarset::decode(object).expect("a SidecarSet of the right form");
    sidecarset::prepare(&mut set);
    set
}

/// A pod with these SidecarSets injected, which runs and is ready. It was created at the beginning of 1970.
pub fn mk_injected_pod(
    name: &str,
    labels: Value,
    containers: impl IntoIterator<Item = Value>,
    sets: &[&SidecarSet],
) -> Pod {
    let pod = mk_pod(name, labels, containers);
    let catalog = Catalog::new(sets.iter().copied().cloned(), &[]).expect("valid sets");
    let draw = Draw::default();
    let selection = Selection::of(&pod, &Namespace::named("default"), &catalog);
    let now = Some(jiff::Timestamp::UNIX_EPOCH);
    let accounts = Accounts::default();
    let context = Context { selection: &selection, accounts: &accounts, draw: &draw, gates: Gates::default(), now };
    let mut draft = Draft::new(&pod);
    pillion_inject::inject(&mut draft, &context).expect("a pod that is not refused");
    let mut object = draft.to_value();
    object["metadata"]["uid"] = json!(format!("uid-{name}"));
    object["metadata"]["resourceVersion"] = json!("1");
    object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
    object["spec"]["nodeName"] = json!("node");
    let pod = Pod::new(object).expect("a pod of the right form");
    let reported = |container: Container<'_>| {
        let image = container.0["image"].as_str().unwrap_or_default();
        json!({"name": container.name(), "image": image, "imageID": mk_image_id(image), "ready": true,
               "restartCount": 0, "state": {"running": {}}})
    };
    let status = json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        "containerStatuses": pod.containers().map(reported).collect::<Vec<_>>(),
        "initContainerStatuses": pod.init_containers().map(reported).collect::<Vec<_>>(),
    });
    let mut object = pod.into_value();
    object["status"] = status;
    Pod::new(object).expect("a pod of the right form")
}

/// What a kubelet reports as the ID of an image. Every image has its own.
pub fn mk_image_id(image: &str) -> String {
    format!("registry.test/{}@sha256:{image}", image.split(':').next().unwrap_or_default())
}
