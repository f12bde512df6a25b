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
//!  tests/real.rs ─────▶ TestCluster::real ──────┐
//!                                               ├─▶ run ─▶ a namespace ─▶ scenario::…(&Namespace) ─▶ Ok
//!  tests/embedded ────▶ TestCluster::embedded ──┘    │                          │
//!        │                    │                      └─ deletes the namespace   └─ Err: objects, events, logs are printed
//!        │                    ├─▶ client ─▶ kube's watchers and controllers, hours of virtual time in milliseconds
//!        └─▶ Faults ─▶ client ┘
//! ```
//!
//! # Two engines
//! [`TestCluster::real`] is a whole Kubernetes. [`TestCluster::embedded`] is our API server in this process, without a
//! socket: what needs a controller or a node does not happen there. Its time is tokio's: in a test with
//! `start_paused = true` it moves only when everybody waits, so that times can be compared exactly. Such a test must not
//! wait on a socket, since to tokio that is idleness.
//!
//! # Invariants
//! - A scenario touches its own namespace only, and cluster-wide objects only under that namespace's name.
//! - A scenario waits for conditions, never for time; a condition that does not come is a failure that says what was seen.
//! - Two runs of a test on the embedded cluster send the same requests and get the same answers, faults included.

pub mod faults;
pub mod pod_program;
pub mod scenario;

mod diagnostics;
mod namespace;
mod scenarios;
mod story;
mod test_cluster;
mod wait;
mod webhook;

pub use namespace::Namespace;
pub use story::Story;
pub use test_cluster::TestCluster;
