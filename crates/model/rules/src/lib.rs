//! Rules of the Kubernetes API server that hold without a server: for names, labels and selectors, for metadata, and for pods.
//!
//! ```
//! use pillion_rules::pod;
//! use serde_json::json;
//!
//! let mut web = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"containers": [{"name": "web"}]}});
//! pod::apply_defaults(&mut web);
//! assert_eq!(web["spec"]["restartPolicy"], "Always");
//! let errors = pod::validate(&web);
//! assert_eq!(errors[0].to_string(), "spec.containers[0].image: Required value");
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - Objects are the JSON that came, already decoded against the type's schema: a field that is there has the JSON type that it should have.
//! - Messages are those of kube-apiserver.
#![forbid(unsafe_code)]

pub mod address;
pub mod field;
pub mod format;
pub mod metadata;
pub mod pod;
pub mod quantities;
pub mod resource_name;
mod safe_letters;
pub mod selector;
pub mod value;
pub mod volume_claim;

pub use safe_letters::{SAFE_LETTERS, safe_encode};
