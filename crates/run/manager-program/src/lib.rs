//! The manager as a program: its flags, the connection to the cluster, logs and signals.
//!
//! `pillion-manager` is the program of the image that installations run. It has neither the embedded Kubernetes nor the commands for people in
//! it. `pillion manager` is the same function in the program for people.
//!
//! ```
//! use clap::Parser as _;
//! use pillion_manager_program::Program;
//!
//! let program = Program::try_parse_from(["pillion-manager", "--controllers=webhook,rollout"])?;
//! assert_eq!(program.manager.controllers.len(), 2);
//! # Ok::<(), clap::Error>(())
//! ```
//!
//! ```text
//!  flags ─▶ connection ─▶ Manager ─┬─▶ webhooks, /healthz, /readyz, /metrics
//!                                  └─▶ controllers, until SIGTERM or SIGINT
//! ```
#![forbid(unsafe_code)]

pub mod args;
pub mod connect;
mod error;
mod program;
mod run;

pub use error::{Error, chain, io_reason};
pub use program::Program;
pub use run::run;
