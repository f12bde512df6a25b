//! The resources that are served, and the rules of each.

use serde_json::Value;

use crate::field;

mod catalog;

/// Every resource that is served, by group and in the order that discovery lists them.
pub fn all() -> &'static [Resource] {
    catalog::ALL
}

/// One resource of the API: `pods` of `v1`, `deployments` of `apps/v1`.
#[derive(Debug)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// Version within the group.
    pub version: &'static str,
    /// Name in paths: `pods`.
    pub plural: &'static str,
    /// Name that kubectl accepts and shows: `pod`.
    pub singular: &'static str,
    /// Kind of the object: `Pod`.
    pub kind: &'static str,
    /// Short names that kubectl accepts: `po`.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl accepts: `all`.
    pub categories: &'static [&'static str],
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Verbs of the resource itself, in the order that discovery lists them.
    pub verbs: &'static [&'static str],
    /// What hangs below an object.
    pub subresources: &'static [Subresource],
    /// Name of the type in the table of schemas: `io.k8s.api.core.v1.Pod`.
    pub schema: &'static str,
    /// How it is served.
    pub service: Service,
    /// How objects are completed and checked.
    pub rules: Rules,
    /// What every response warns of.
    pub deprecation: Option<&'static str>,
    /// Where objects are kept, where they are kept as another resource: `events` of `events.k8s.io/v1` are `events` of `v1`.
    pub storage: Option<Storage>,
}

/// The resource that keeps objects of another one, and the way there and back.
///
/// Of the rules of the resource, `default` works on the form that the client sees, and all others on the stored one.
#[derive(Clone, Copy, Debug)]
pub struct Storage {
    /// Group of the resource that keeps the objects; the plural is the same.
    pub group: &'static str,
    /// Version of that group.
    pub version: &'static str,
    /// From this resource's form to the stored one, `apiVersion` included.
    pub to_storage: fn(&mut Value),
    /// From the stored form to this resource's, `apiVersion` included.
    pub from_storage: fn(&mut Value),
}

/// How a resource is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Stored, and something acts on it.
    Full,
    /// Stored so that manifests apply; nothing acts on it, and the client is warned.
    StoredOnly,
    /// Answered and never stored: reviews and bindings.
    Answered,
}

/// Something below an object: `pods/status`.
#[derive(Debug)]
pub struct Subresource {
    /// Last part of the path: `status`.
    pub name: &'static str,
    /// Kind of the body: `Pod`, `Scale`, `Eviction`.
    pub kind: &'static str,
    /// Group of the kind where it is not the resource's own, as discovery lists it.
    pub group: &'static str,
    /// Version of that group, likewise.
    pub version: &'static str,
    /// Verbs in the order that discovery lists them.
    pub verbs: &'static [&'static str],
}

/// What the API server does with objects of a resource. Every function takes the whole object.
#[derive(Clone, Copy, Debug)]
// Each is a fact of its own about the kind.
#[allow(clippy::struct_excessive_bools)]
pub struct Rules {
    /// Fills in defaults after decoding, on every read from a client.
    pub default: fn(&mut Value),
    /// Resets what a client may not set when it creates: status, and fields behind a gate.
    pub prepare_create: fn(&mut Value),
    /// Checks a new object.
    pub validate: fn(&Value) -> Vec<field::Error>,
    /// Takes from the old object (second) what an update of the resource itself may not change (status).
    pub prepare_update: fn(&mut Value, &Value),
    /// Checks an update against the old object (second).
    pub validate_update: fn(&Value, &Value) -> Vec<field::Error>,
    /// Takes from the old object what an update of `/status` may not change: everything but status.
    pub prepare_status: fn(&mut Value, &Value),
    /// Checks an update of `/status`.
    pub validate_status: fn(&Value, &Value) -> Vec<field::Error>,
    /// Warnings for the client about a new or changed object (old is `None` on create).
    pub warnings: fn(&Value, Option<&Value>) -> Vec<String>,
    /// Value of a field that field selectors may name besides `metadata.name` and `metadata.namespace`; `None` for a field that is not selectable.
    pub selectable: fn(&Value, &str) -> Option<String>,
    /// Whether a `PUT` of an object that is not there creates it.
    pub create_on_update: bool,
    /// Whether a `PUT` without `metadata.resourceVersion` replaces whatever is there.
    pub unconditional_update: bool,
    /// Whether deleting without a propagation policy leaves the dependents alone.
    pub orphan_by_default: bool,
    /// What a client may not set with server-side apply through the main resource (`status`) and through `/status`.
    pub reset_on_main: &'static [&'static [&'static str]],
    /// Fields reset when applied through `/status`.
    pub reset_on_status: &'static [&'static [&'static str]],
}
