//! What puts load on an API server: the embedded one and kube-apiserver with etcd, on one machine, from the same code.
//!
//! ```text
//!  serve (a child, in memory) ─┐
//!  serve (a child, durable) ───┼─▶ fill with pods ─▶ lists ─▶ writes ─▶ watches ─▶ measures ─┐
//!  kube-apiserver + etcd ──────┘          one client for all: HTTP/1.1 over TLS              └─▶ table of ratios
//! ```
//!
//! # Invariants
//! - Every server gets the same requests, in the same order, from the same code.
//! - A client is one connection that is open before the clock starts. What is sent is written before, but for names and versions.
//! - A server's processor time and memory are those in `/proc`, of all processes that make it up.
#![forbid(unsafe_code)]

pub mod client;
pub mod measure;
pub mod process;
pub mod serve;
pub mod server;
