//! Pods: defaults, validation, what each kind of update may change, and the admission plugins that are always there.
//!
//! A new pod goes through these steps, in this order; all but the webhooks are functions of this module. The order of the plugins is that of
//! kubernetes `pkg/kubeapiserver/options/plugins.go`.
//!
//! ```text
//!  decoded ─▶ apply_defaults
//!          ─▶ apply_limit_ranges          LimitRanger
//!          ─▶ apply_service_account       ServiceAccount (takes the account, and five random characters)
//!          ─▶ apply_priority              Priority (takes the class)
//!          ─▶ apply_default_tolerations   DefaultTolerationSeconds
//!          ─▶ mutating webhooks, after which defaults are applied again
//!          ─▶ prepare_create ─▶ validate ─▶ warnings
//!          ─▶ validate_limit_ranges, validate_service_account, validating webhooks, quota
//! ```
//!
//! Updates of the pod itself go through [`keep_priority`] and [`apply_default_tolerations`]; a resize through [`validate_limit_ranges`]. `RuntimeClass`
//! and the other plugins change nothing of a pod on a cluster that does not configure them.
//!
//! What is stored was valid once, so that validation of an update knows no exceptions for old mistakes.

mod changes;
mod ephemeral_containers;
mod fields;
mod prepare;
mod priority;
mod qos;
mod resize;
mod status;
mod tolerations;
mod update;
mod warnings;

#[cfg(test)]
mod tests;

pub use self::ephemeral_containers::validate_ephemeral_containers;
pub use self::fields::selectable;
pub use self::prepare::{
    prepare_create, prepare_ephemeral_containers, prepare_resize, prepare_status, prepare_template, prepare_update,
};
pub use self::priority::{apply_priority, default_priority_class, keep_priority};
pub use self::qos::qos_class;
pub use self::resize::validate_resize;
pub use self::status::{status_warnings, validate_status};
pub use self::tolerations::apply_default_tolerations;
pub use self::update::validate_update;
pub use self::warnings::{template_warnings, warnings};
pub use pillion_rules::pod::{
    SIDECAR_FIELD, apply_defaults, apply_limit_ranges, apply_service_account, apply_template_defaults,
    drop_sidecar_field, service_account_name, validate, validate_limit_ranges, validate_service_account,
    validate_template,
};

use crate::rules::{Rules, WITH_STATUS};

/// The rules of pods, for the table of resources. `pods/resize` and `pods/ephemeralcontainers` have functions of their own.
pub const RULES: Rules = Rules {
    default: apply_defaults,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    prepare_status,
    validate_status,
    warnings,
    selectable,
    reset_on_status: &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
    ..WITH_STATUS
};
