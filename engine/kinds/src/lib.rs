//! Kubernetes' own kinds: which resources the embedded API server serves, how objects of them are completed and checked, and the columns
//! that `kubectl get` shows.
//!
//! ```
//! use pillion_kinds::resource;
//! use serde_json::json;
//!
//! let jobs = resource::all().iter().find(|resource| resource.plural == "jobs").unwrap();
//! let mut job = json!({"metadata": {"name": "a", "namespace": "b", "uid": "1"}, "spec": {"template": {"spec": {}}}});
//! (jobs.rules.default)(&mut job);
//! (jobs.rules.prepare_create)(&mut job);
//! assert_eq!(job["spec"]["backoffLimit"], 6);
//! let errors = (jobs.rules.validate)(&job);
//! assert_eq!(errors[0].to_string(), "spec.template.spec.containers: Required value");
//! ```
//!
//! ```text
//!  decoded object ──rules.default──▶ complete object ──rules.prepare_*──▶ ──rules.validate*──▶ Vec<field::Error>
//!                                                                      └──table::row──▶ cells for kubectl
//! ```
//!
//! # Invariants
//! - Pure: no clock, no IO, no randomness. What depends on time takes `now`.
//! - Objects are the JSON that came, already decoded against the type's schema: a field that is there has the JSON type that it should have.
//! - Messages are those of kube-apiserver.
#![forbid(unsafe_code)]

mod access_review;
mod admissionregistration;
mod apps;
mod autoscaling;
mod batch;
mod condition;
mod core;
mod custom_resource_definition;
mod int_or_percent;
mod lease;
pub mod pod;
mod pod_disruption_budget;
mod priority_class;
pub mod resource;
mod rules;
mod storage;
mod stored_only;
pub mod table;
mod webhook_client;
mod workload;

pub use batch::schedule;
pub use core::namespace;
pub use core::service;
