//! Probes of containers, as the kubelet makes them: HTTP, TCP, gRPC and commands; and when their results count.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//! use pillion_probe::{Action, NoCommands, Outcome, Probe, Results, Timing, check};
//!
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
//! let action = Action::Tcp { host: "127.0.0.1".into(), port: listener.local_addr()?.port() };
//! let probe = Probe { action, timeout: Duration::from_secs(1) };
//! assert_eq!(check(&probe, &NoCommands).await, Outcome::Success);
//!
//! // One failure of three does not count yet.
//! let (timing, mut results) = (Timing::default(), Results::default());
//! assert_eq!(results.add(true, &timing), Some(true));
//! assert_eq!(results.add(false, &timing), None);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  Timing ─▶ first_look, next_look ─▶ the caller's timer ─▶ check ─┬─▶ http ─┐
//!                                                                  ├─▶ tcp  ─┤
//!                                                                  ├─▶ grpc ─┼─▶ Outcome ─▶ Results ─▶ what counts
//!                                                                  └─▶ Exec ─┘
//! ```
//!
//! # Invariants
//! - When a probe is made and what its results mean is pure: `now` is an argument, and nothing here has a timer of its own but the timeout
//!   of a probe.
//! - Whatever a server sends, a bounded part of it is kept.
//! - A probe asks the host that it names and no other: a redirect elsewhere is an answer, and is not followed.
//! - Neither a Kubernetes client nor its types are needed: whatever can run in a pod can use this.
#![forbid(unsafe_code)]

mod action;
mod check;
mod exec;
mod grpc;
mod http;
mod outcome;
mod tcp;
#[cfg(test)]
mod tests;
mod timing;

pub use action::{Action, HttpGet, Probe};
pub use check::check;
pub use exec::{Exec, ExecError, ExecOutput, NoCommands};
pub use http::Answer;
pub use outcome::{LONGEST_OUTPUT, Outcome};
pub use timing::{FirstLook, Results, Timing};
