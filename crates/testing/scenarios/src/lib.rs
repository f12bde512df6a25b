//! Every test that runs on a cluster. A scenario is written once, against a [`kube::Client`] and a namespace of its own,
//! and does not know which engine answers.
//!
//! ```
//! use pillion_scenarios::{TestCluster, scenario};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> anyhow::Result<()> {
//! let cluster = TestCluster::embedded().await?;
//! cluster.run("sidecarset", scenario::custom_resources::the_api_server_takes_our_definition_of_sidecarset).await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  tests/real.rs ──┐                    ┌─▶ TestCluster::real ────────┐
//!                  ├─ scenarios! {…} ───┤                             ├─▶ run ─▶ a namespace ─▶ scenario::…(&Namespace)
//!  tests/embedded ─┤                    └─▶ TestCluster::processes ───┘                              │
//!                  │                                                             Story: what happened, the same on both
//!                  ├─▶ TestCluster::simulated ─▶ days of controllers and pods in seconds
//!                  └─▶ TestCluster::embedded, Faults ─▶ kube's watchers and controllers over the API server alone
//! ```
//!
//! # Two engines
//! [`TestCluster::real`] is a whole Kubernetes, [`TestCluster::processes`] the whole embedded engine with containers as processes of
//! this machine: every scenario runs on both, and a [`Story`] is written down once for both. Where they differ, ours is wrong.
//!
//! [`TestCluster::simulated`] and [`TestCluster::embedded`], the API server alone, have tokio's time: in a test with
//! `start_paused = true` it moves only when everybody waits, so that times can be compared exactly. Such a test must not
//! wait on a socket, since to tokio that is idleness.
//!
//! # Invariants
//! - A scenario touches its own namespace only, and cluster-wide objects only under that namespace's name.
//! - A scenario waits for conditions, never for time; a condition that does not come is a failure that says what was seen.
//! - A story has everything that users see of a workload and its pods; what it leaves out is said in `story/text.rs`, with the reason.
//! - A scenario runs once. What may differ between two runs is declared in its story, with the reason; everything else is a failure.
//! - In virtual time two runs of a test send the same requests and get the same answers, faults included.

pub mod faults;
pub mod pod_program;
pub mod scenario;

mod diagnostics;
mod game;
mod namespace;
mod scenarios;
mod story;
mod test_cluster;
mod wait;
mod webhook;

pub use namespace::Namespace;
pub use story::Story;
pub use test_cluster::TestCluster;
