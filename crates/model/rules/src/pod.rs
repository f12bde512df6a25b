//! Pods as the API server completes and judges them. What an update may change, and the rest of what only a server does with pods, is in the
//! engine's `kinds`.
//!
//! ```text
//!  decoded ─▶ apply_defaults
//!          ─▶ apply_limit_ranges          LimitRanger
//!          ─▶ apply_service_account       ServiceAccount (takes the account, and five random characters)
//!          ─▶ validate
//!          ─▶ validate_limit_ranges, validate_service_account
//! ```

pub mod defaults;
pub mod internal;
mod limit_range;
pub mod read;
pub mod resources;
mod service_account;
mod sidecar_field;
pub mod validation;

pub use self::defaults::{
    apply_basic_container_defaults, apply_basic_volume_defaults, apply_defaults, apply_template_defaults,
    default_requests,
};
pub use self::limit_range::{apply_limit_range, apply_limit_ranges, validate_limit_ranges};
pub use self::resources::aggregate;
pub use self::service_account::{apply_service_account, service_account_name, validate_service_account};
pub use self::sidecar_field::{SIDECAR_FIELD, drop_sidecar_field, endless_work};
pub use self::validation::{split_subscript, validate, validate_template};
