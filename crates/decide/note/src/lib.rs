//! What all decisions about a pod share: the [`Draft`] that each step changes, the [`Note`]s that say why, the reasons for
//! which a pod is [`Denied`], and the [`Draw`] of inputs that a pure function cannot obtain itself.
//!
//! ```
//! use pillion_api::pod::Pod;
//! use pillion_note::{ContainerList, Draft, Note, Position, Reason, Subject};
//! use serde_json::json;
//!
//! let pod = Pod::new(json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}))?;
//! let mut draft = Draft::new(&pod);
//! let proxy = json!({"name": "proxy", "image": "proxy:1"}).as_object().cloned().unwrap_or_default();
//! draft.insert(ContainerList::Containers, Position::Last, proxy);
//! draft.set_annotation("example.com/injected", "proxy");
//! draft.note(Note::info(Subject::sidecar_set("mesh"), Reason::Injected, "injects proxy"));
//!
//! let mut patched = pod.as_value().clone();
//! json_patch::patch(&mut patched, &draft.patch())?;
//! assert_eq!(patched, draft.to_value());
//! assert_eq!(patched["spec"]["containers"][1]["name"], "proxy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  Pod ──▶ Draft ──▶ step ──▶ step ──▶ … ──▶ one JSON patch + notes
//!          as it came, and as it is now       (notes remain when a step refuses the pod)
//! ```
//!
//! # Invariants
//! - The patch turns the pod as it came into the pod as it is now, and is empty when nothing was decided.
//! - The patch has no path that no step decided on: fields of a newer Kubernetes stay as they came.
//! - A draft copies a container only when a step changes it.
#![forbid(unsafe_code)]

mod denied;
mod draft;
mod draw;
mod note;

pub use denied::Denied;
pub use draft::{ContainerKey, ContainerList, Draft, Position};
pub use draw::Draw;
pub use note::{Note, Reason, Severity, Subject};
