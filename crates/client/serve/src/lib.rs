//! An HTTP server that stays reachable: its connections are bounded in number and time, and when there are too many, the one that does
//! the least is closed.
//!
//! The embedded API server and the manager's webhooks are both served by it.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::io::Result<()> {
//! use std::net::TcpListener;
//! use std::time::Duration;
//!
//! use axum::{Router, routing::get};
//! use pillion_serve::Server;
//!
//! let listener = TcpListener::bind("127.0.0.1:0")?;
//! let server = Server::new(listener, Router::new().route("/healthz", get(async || "ok")))?;
//! let handle = server.handle();
//! let serving = tokio::spawn(server.run());
//!
//! // No new connections; requests that are under way have five seconds to end.
//! handle.stop(Duration::from_secs(5));
//! serving.await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!                       ┌─ no room: close the connection that does the least ─┐
//!  listener ─▶ accept ──┤                                                     ├─▶ TLS ─▶ HTTP/1.1, HTTP/2 ─▶ Router
//!              NODELAY  └─ room ──────────────────────────────────────────────┘              │
//!                                         Activity: waiting ▸ receiving ▸ answering ◀────────┘
//! ```
//!
//! # Invariants
//! - There are never more than [`Bounds::connections`] connections, nor more than a quarter of the files that the process may open.
//! - A connection that answers a request is never closed to make room; one that has not sent a whole request yet is closed first.
//! - A connection that sends no whole request in time is closed, whatever it sends instead.
//! - HTTP/2 is spoken only over TLS, where the server offers it ([`tls`]) and the client agrees to it.
//! - Time is tokio's.
#![forbid(unsafe_code)]

mod activity;
mod body;
mod bounds;
mod certificate;
mod connection;
mod registry;
mod server;

pub use bounds::Bounds;
pub use certificate::{CertificateError, tls, tls_http1};
pub use server::{Handle, Server};
