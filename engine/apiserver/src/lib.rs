//! The Kubernetes REST API over a [`Store`](pillion_store::Store), as an axum [`Router`](axum::Router).
//!
//! The same router is used in process by `kube::Client::new`, with no socket and in virtual time, and on a TLS port by real kubectl.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use axum::body::Body;
//! use axum::http::Request;
//! use pillion_apiserver::{ApiServer, Config};
//! use tower::ServiceExt as _;
//!
//! let server = ApiServer::new(Config::in_memory());
//! server.bootstrap().await?;
//! let request = Request::get("/api/v1/namespaces/default").body(Body::empty())?;
//! let response = server.router().oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!  request ─▶ path, query, media ─▶ verbs ─┬─▶ read, list, watch ──────────────────────────────▶ respond
//!                                          └─▶ body ─▶ create, update, patch, delete
//!                                                        └─▶ change: managedFields ─▶ admission ─▶ rules ─▶ store
//! ```
//!
//! # Invariants
//! - Where a real kube-apiserver answers differently, this one is wrong; `pillion-differential` compares them, and docs/embedded.md lists what is left.
//! - Nothing here waits on a socket or a thread when the store is in memory and webhooks are registered in process: virtual time stays exact.
//! - A write of a large object is carried out beside the threads that serve all others, a few at a time.
//! - An answer to a write is sent after the store has it.
//! - A request on a port that has begun to write is carried out to its end, also when its client has gone. A server that was killed between two
//!   writes of one request does the rest when it starts again ([`ApiServer::bootstrap`]).

mod admission;
mod admission_plugins;
mod attributes;
mod authentication;
mod body;
mod bootstrap;
mod call;
mod change;
mod compiled;
mod condition;
mod config;
mod conversion;
mod create;
mod credentials;
mod custom;
mod definition;
mod delete;
mod discovery;
mod endpoint;
mod https_clients;
mod kinds;
mod list;
mod long;
mod media;
mod meta;
mod metrics;
mod nonresource;
mod openapi;
mod owners;
mod patch;
mod path;
mod policy;
mod query;
mod read;
mod respond;
mod review;
mod scale;
mod selection;
mod serve;
mod served;
mod server;
mod service_address;
mod state;
mod status;
mod storage;
mod stored;
mod subresource;
mod token;
mod unfinished;
mod update;
mod upgrade;
mod user;
mod verbs;
mod versioned;
mod watch;
mod webhook;
mod webhook_client;

pub use config::Config;
pub use credentials::{Credentials, CredentialsError};
pub use serve::ServeError;
pub use server::ApiServer;
pub use status::Refusal;
pub use token::{TokenError, TokenSigner};
pub use user::User;
