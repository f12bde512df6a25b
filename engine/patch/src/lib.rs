//! Objects as JSON: read as Go reads them, patched in every way that Kubernetes has, and selected.
//!
//! ```
//! use pillion_patch::{decode, schema, strategic};
//! use serde_json::json;
//!
//! let deployment = schema::builtin().get("io.k8s.api.apps.v1.Deployment").expect("it is in the table");
//! let body = decode::parse(br#"{"spec": {"replicas": 2, "replicas": 3, "template": {"spec": {"containers": [{"name": "web"}]}}}}"#)?;
//! let decoded = decode::decode(deployment, body)?;
//! assert_eq!(decoded.strict[0].to_string(), r#"duplicate field "spec.replicas""#);
//!
//! let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "web", "image": "web:2"}]}}}});
//! let patched = strategic::strategic_merge(deployment, decoded.object, patch)?;
//! assert_eq!(patched["spec"]["template"]["spec"]["containers"], json!([{"name": "web", "resources": {}, "image": "web:2"}]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  bytes ──protobuf::decode──▶ Envelope ──protobuf::to_json(schema)──▶ Value ──decode::decode(schema)──▶ …
//!  bytes ──decode::parse──▶ Parsed ──decode::decode(schema)──▶ Decoded ──┬──json::JsonPatch, json::merge──▶ Value ──decode──▶ …
//!                                                                        ├──strategic::strategic_merge──▶ Value ──decode::convert──▶ …
//!                                                                        └──apply──▶ …
//!  ?labelSelector=, ?fieldSelector= ──▶ label_selector, field_selector ──matches──▶ bool
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - No text, value or patch makes anything here panic; what was parsed, and what a patch makes of it, is never deeper than a bound.
//! - What `decode` returns, it returns again for what it returned (but for the zero time, which Go writes as `null`).
//! - Messages are those of kube-apiserver 1.35, byte for byte, where it has one.
#![forbid(unsafe_code)]

pub mod apply;
pub mod decode;
pub mod field_selector;
pub mod json;
pub mod label_selector;
pub mod print;
#[cfg(test)]
mod properties;
pub mod protobuf;
pub mod schema;
pub mod strategic;
