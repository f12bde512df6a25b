//! Label selectors: what they match, whether two of them can match the same object; and the forms of names.
//!
//! ```
//! use pillion_patch::selector::{Requirement, Selector};
//! let web = Selector::new(vec![Requirement::is_in("app", ["web", "api"])]);
//! assert!(web.matches(|key| (key == "app").then_some("web")));
//! assert!(!web.matches(|_| None));
//! ```
//!
//! ```text
//!  LabelSelector ──from_label_selector──▶ Selector ──matches(labels)──▶ bool
//!                                           │
//!                                           └──overlaps(other)──▶ bool
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness.
//! - `overlaps` is exact: it is true if and only if some set of labels satisfies both selectors.
#![forbid(unsafe_code)]

pub mod name;
pub mod selector;
