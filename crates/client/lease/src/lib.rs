//! Leader election: of many replicas one leads, by holding a `Lease` of `coordination.k8s.io/v1`.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use pillion_lease::{Config, Elector};
//!
//! let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config::in_memory());
//! server.bootstrap().await?;
//! let (client, clock) = (kube::Client::new(server.router(), "default"), server.clock());
//!
//! let config = Config::new(client, "default", "pillion-manager", "pod-1_3f6c", move || clock.now());
//! let elector = Elector::new(config)?;
//! let leadership = elector.acquire().await;
//! assert_eq!(elector.leader().borrow().as_deref(), Some("pod-1_3f6c"));
//!
//! // Renewed while the work runs, and released when it ends.
//! let outcome = leadership.hold(async { "all done" }).await;
//! assert_eq!(outcome, Ok("all done"));
//! assert_eq!(*elector.leader().borrow(), None);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!           ┌─ a watch of the Lease ─▶ Observation: the record, and when it was first seen
//!  acquire ─┤                               │ free, or not renewed for leaseDurationSeconds of our own time
//!           └─ create, replace ◀────────────┘
//!     │
//!     ▼
//!  hold(work) ─┬─▶ renew every renew period ─▶ Lost, when none has succeeded for the renew deadline, or another holds it
//!              └─▶ work ─▶ release
//! ```
//!
//! # Invariants
//! - At most one replica leads, however the clocks of the machines differ: a candidate waits by its own monotonic clock from the moment it
//!   saw the last renewal, and timestamps are written but never compared. Only the *rates* of two clocks must agree, within the ratio of
//!   lease duration and renew deadline.
//! - The renew deadline counts from the moment when the last successful request was sent, so the work ends before anyone else may begin.
//! - Every write names the `resourceVersion` that it replaces: a late one fails.
//! - A lost lease ends the work: its future is dropped. What the work has spawned elsewhere, or sent already, is not called back.
//! - A Lease that is held [within](Config::within) another one is taken over at once only by the holder of that other one, and only from a holder that
//!   names it: that holder has lost the other Lease, and its work has ended with it.
//! - Time between attempts is tokio's, that of [`Config::runtime`] if there is one.
#![forbid(unsafe_code)]

mod candidate;
mod config;
mod elector;
mod leadership;
mod record;
#[cfg(test)]
mod tests;

pub use config::{Config, InvalidConfig, held_within};
pub use elector::Elector;
pub use leadership::{Leadership, Lost};
