//! Reading a cluster: what decisions need of it, in pages, with `get` and `list` alone.
//!
//! ```text
//!  Reader (get, list in pages) ─┬─▶ Known: SidecarSets, Namespaces, LimitRanges, what the webhook is called for ─▶ admission::Offline
//!                               │     └─ marking: the gates of its manager, and how marked sidecars end in this cluster
//!                               ├─▶ fleet: workloads and running pods ─▶ pillion-preview
//!                               ├─▶ updates: what becomes of the running pods of an autoscaler
//!                               └─▶ target: the object that the user names, or what may have been meant
//! ```

pub(crate) mod fleet;
pub(crate) mod known;
pub(crate) mod marking;
pub(crate) mod read;
pub(crate) mod target;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod updates;
