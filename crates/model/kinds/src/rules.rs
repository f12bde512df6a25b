//! What the rules of many kinds have in common.

use serde_json::json;

use crate::resource::Rules;
use crate::value::{set, take};

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
    prepare_update: |new, old| take(new, old, &["status"]),
    prepare_status: |new, old| take(new, old, &["spec"]),
    reset_on_main: &[&["status"]],
    reset_on_status: &[&["spec"]],
    ..STORED
};
