//! The objects of a Kubernetes API server, their versions and the log that watches read; in memory, or durable in a
//! folder.
//!
//! ```
//! use pillion_store::{Key, Options, Store, Write};
//! use serde_json::{Map, json};
//!
//! # fn object(value: serde_json::Value) -> Map<String, serde_json::Value> { serde_json::from_value(value).unwrap() }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = Store::memory(Options::default());
//! let before = store.resource_version();
//! let web = Key::new("pods", "default", "web");
//!
//! let pod = object(json!({"kind": "Pod", "metadata": {"name": "web", "namespace": "default"}}));
//! let created = store.write(Write::Create { key: web.clone(), object: pod }).await?;
//! assert_eq!(
//!     created.object.bytes,
//!     r#"{"kind":"Pod","metadata":{"name":"web","namespace":"default","resourceVersion":"2"}}"#
//! );
//!
//! let pods = store.list("pods", Some("default"));
//! assert_eq!((pods.len(), pods.resource_version()), (1, 2));
//!
//! let mut watch = store.watch("pods", None, before)?;
//! assert_eq!(watch.next().await.unwrap()?.key, web);
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//! write ─▶ serialise ─▶ check the precondition, take the next resourceVersion ─▶ publish ─▶ acknowledge
//!                        memory: under a mutex                                     │
//!                        durable: one thread, many writes to one fsync             ▼
//!                                                        per resource: objects (persistent map) + log (bounded)
//!                                                                            │                      │
//!                                                        get, list, list_at ◀┘        each Watch ◀──┘ a cursor
//! ```
//!
//! # Invariants
//!
//! - One counter gives every write, a deletion too, a resourceVersion greater than any before it, also after a restart.
//! - An update or deletion takes effect only on the resourceVersion that its author read.
//! - What [`Store::list`] shows at version *v* is exactly what the writes up to *v* made, and a [`Watch`] after *v*
//!   yields exactly the writes after *v*, in order and once each, or says that it cannot ([`Expired`]).
//! - Reading never waits for the disk.
//! - In memory nothing waits for anything: [`Store::write`] is ready at its first poll, so a paused clock stays put.
//! - A durable write that was acknowledged survives the end of the process at any moment. One that was not
//!   acknowledged is there whole or not at all.
//! - The log of a resource is bounded in events and in bytes, and however many watches there are, it exists once.
#![forbid(unsafe_code)]

mod durable;
mod event;
mod key;
mod log;
mod objects;
mod options;
mod state;
mod store;
mod stored;
mod text;
mod watch;
mod write;
mod write_error;

pub use durable::OpenError;
pub use event::{Event, EventKind};
pub use key::Key;
pub use log::Expired;
pub use objects::Snapshot;
pub use options::Options;
pub use state::ListAtError;
pub use store::Store;
pub use stored::Stored;
pub use watch::Watch;
pub use write::Write;
pub use write_error::{StorageError, WriteError};
