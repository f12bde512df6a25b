//! What is in the way of an installation of Pillion, and what is wrong with one: findings, each with its remedy.
//!
//! ```
//! use pillion_check::{Severity, Snapshot, findings};
//! use serde_json::json;
//!
//! let snapshot = Snapshot { version: Ok(json!({"gitVersion": "v1.28.4"})), ..Snapshot::empty("2026-01-01T00:00:00Z".parse()?) };
//! let findings = findings(&snapshot);
//! assert_eq!((findings[0].check, findings[0].severity), ("kubernetes", Severity::Error));
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! ```text
//!  `pillion check` reads ─▶ Snapshot ─┬─▶ preflight: version, rights, other webhooks, OpenKruise, VPA, definition
//!                                     └─▶ health: Deployment, registration, certificate, Leases, SidecarSets, pods
//!                                              └─▶ [Finding]: severity, message, remedy
//! ```
//!
//! # Invariants
//! - Findings are a function of the snapshot: nothing here reads a clock or talks to an API server.
//! - What could not be read is a finding, and says which right is missing. It is never reported as fine.
//! - Whatever needs action has the severity `error` and a remedy.
#![forbid(unsafe_code)]

mod certificate;
mod definition;
mod finding;
mod health;
mod missed;
mod preflight;
mod sets;
mod snapshot;
mod webhooks;

pub use finding::{Finding, Severity};
pub use health::certificate_secret;
pub use missed::{Missed, MissedPods};
pub use snapshot::{Answer, Replica, Snapshot};

/// Everything that there is to say about a cluster.
pub fn findings(snapshot: &Snapshot) -> Vec<Finding> {
    let mut findings = preflight::findings(snapshot);
    findings.extend(webhooks::findings(snapshot));
    findings.extend(definition::findings(snapshot));
    findings.extend(health::findings(snapshot));
    findings.extend(sets::findings(snapshot));
    findings
}
