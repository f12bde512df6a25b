//! Every test that runs on a cluster. A scenario is written once, against a [`kube::Client`] and a namespace of its own,
//! and does not know which engine answers.
//!
//! ```no_run
//! use pillion_scenarios::{TestCluster, scenario};
//!
//! # async fn example() -> anyhow::Result<()> {
//! let cluster = TestCluster::real().await?;
//! cluster.run("a-job-completes", scenario::jobs::a_job_with_a_native_sidecar_completes).await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  tests/real.rs ──▶ TestCluster::run ──▶ a namespace ──▶ scenario::…(&Namespace) ──▶ Ok
//!                          │                                      │
//!                          └── deletes the namespace              └── Err: objects, events and logs are printed
//! ```
//!
//! # Invariants
//! - A scenario touches its own namespace only, and cluster-wide objects only under that namespace's name.
//! - A scenario waits for conditions, never for time; a condition that does not come is a failure that says what was seen.

pub mod pod_program;
pub mod scenario;

mod diagnostics;
mod namespace;
mod test_cluster;
mod wait;
mod webhook;

pub use namespace::Namespace;
pub use test_cluster::TestCluster;
