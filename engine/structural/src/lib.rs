//! Custom resources: what a `CustomResourceDefinition` may say, and what its objects have to be. Schemas, pruning, defaults, validation,
//! ratcheting, rules in CEL; and `ValidatingAdmissionPolicy`, which is the same language over any object.
//!
//! ```
//! use pillion_structural::Structural;
//! use serde_json::json;
//!
//! let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!     "replicas": {"type": "integer", "default": 1, "x-kubernetes-validations": [{"rule": "self <= 5"}]},
//! }}}});
//! let widgets = Structural::compile(&schema).unwrap();
//!
//! let mut widget = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"colour": "red"}});
//! assert_eq!(widgets.coerce(&mut widget).unwrap(), ["spec.colour"]);
//! widgets.apply_defaults(&mut widget);
//! assert_eq!(widget["spec"], json!({"replicas": 1}));
//!
//! widget["spec"]["replicas"] = json!(6);
//! let errors = widgets.validate(&widget, None);
//! assert_eq!(errors[0].to_string(), "spec.replicas: Invalid value: 6: failed rule: self <= 5");
//! ```
//!
//! ```text
//!  openAPIV3Schema ──crd::validate_schema──▶ errors of the `CustomResourceDefinition`
//!        │
//!        └──Structural::compile (once per version)
//!               │
//!  object ──coerce──▶ unknown fields ──apply_defaults──▶ ──validate(new, old)──▶ errors
//!
//!  policy ──policy::Policy::compile──▶ ──evaluate(request)──▶ decisions
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - Messages, their order and their reasons are those of kube-apiserver. Where it walks a map in random order, this goes by name.
//! - Every recursion is over a schema or an expression of bounded depth, or over JSON that a parser with a bound has read.
//! - An evaluation of an expression stops at a cost limit, whatever the expression and the object.
#![forbid(unsafe_code)]

mod cel;
pub mod crd;
mod declared;
mod embedded;
mod escape;
mod field_path;
mod format;
mod go_duration;
mod go_float;
mod go_url;
mod list_type;
mod object_meta;
mod openapi;
pub mod policy;
mod prune;
mod ratchet;
mod rules;
mod schema;
mod structural;

pub use structural::{Part, Report, Structural};

/// The path of an error that is about no field. Go writes it so.
fn no_path() -> pillion_rules::field::Path {
    pillion_rules::field::Path::new("<nil>")
}
