//! The rules of a kind, and what many kinds have in common.

use serde_json::{Value, json};

use pillion_rules::field;
use pillion_rules::value::{copy_fields, set};

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

/// Rules of a kind that has neither defaults nor a status.
pub(crate) const STORED: Rules = Rules {
    default: |_| {},
    prepare_create: |_| {},
    validate: |_| Vec::new(),
    prepare_update: |_, _| {},
    validate_update: |_, _| Vec::new(),
    prepare_status: |_, _| {},
    validate_status: |_, _| Vec::new(),
    warnings: |_, _| Vec::new(),
    selectable: |_, _| None,
    create_on_update: false,
    unconditional_update: true,
    orphan_by_default: false,
    reset_on_main: &[],
    reset_on_status: &[],
};

/// Rules of a kind with a spec and a status that only `/status` writes.
pub(crate) const WITH_STATUS: Rules = Rules {
    prepare_create: |object| set(object, "status", json!({})),
    prepare_update: |new, old| copy_fields(new, old, &["status"]),
    prepare_status: |new, old| copy_fields(new, old, &["spec"]),
    reset_on_main: &[&["status"]],
    reset_on_status: &[&["spec"]],
    ..STORED
};
