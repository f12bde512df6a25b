//! `JSONPath` in the dialect of `k8s.io/client-go/util/jsonpath`, which kubectl and the printer columns of custom resources use.
//!
//! ```
//! use pillion_jsonpath::JsonPath;
//! use serde_json::json;
//!
//! let ready = JsonPath::parse(r#".status.conditions[?(@.type=="Ready")].status"#)?;
//! let pod = json!({"status": {"conditions": [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "False"}]}});
//! assert_eq!(*ready.find(&pod).unwrap()[0], json!("False"));
//!
//! let error = JsonPath::parse(".spec.list[x]").unwrap_err();
//! assert_eq!(error.to_string(), r#"".spec.list[x]" is not a JSONPath: "[x]" cannot be read"#);
//! # Ok::<(), pillion_jsonpath::ParseError>(())
//! ```
//!
//! ```text
//!  text ──parse──▶ JsonPath ──find(object)──▶ values, borrowed from the object
//! ```
//!
//! # Invariants
//! - Templates around a path (`{range}`, plain text) are not supported: what uses this crate wants values, not text.
//! - A field that is not there leads nowhere and is no error. An index out of bounds is one, and so is a comparison of values of
//!   different types, as they are for kubectl.
#![forbid(unsafe_code)]

mod parse;
mod path;

pub use parse::ParseError;
pub use path::{JsonPath, Mismatch};
