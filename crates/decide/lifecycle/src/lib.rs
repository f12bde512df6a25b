//! When the containers of a pod start, restart and stop, and what the pod says of itself: one pure function.
//!
//! ```
//! use pillion_lifecycle::{Action, Marked, NodeFacts, Snapshot, Stage, plan, record};
//!
//! let pod = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "web", "namespace": "default", "uid": "6a1c"},
//!     "spec": {
//!         "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
//!         "containers": [{"name": "web", "image": "web:1"}],
//!     },
//! }))?;
//! let node = NodeFacts { sandbox: true, ..NodeFacts::default() };
//! let mut containers = std::collections::BTreeMap::new();
//! let now = "2026-01-01T00:00:00Z".parse()?;
//!
//! // The sidecar comes first.
//! let first = plan(&Snapshot { pod: &pod, marked: &Marked::NONE, containers: &containers, node: &node, stop: None, now });
//! assert!(matches!(&first.actions[..], [Action::Start { container, attempt: 0, .. }] if container == "proxy"));
//! assert_eq!(first.status.phase.as_deref(), Some("Pending"));
//!
//! // While the node is at it, there is nothing more to do.
//! record(&mut containers, &first.actions, now);
//! let next = plan(&Snapshot { pod: &pod, marked: &Marked::NONE, containers: &containers, node: &node, stop: None, now });
//! assert!(next.actions.is_empty());
//! assert_eq!(next.stage, Stage::Active);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! ```text
//!  pod, marks ──┐                      ┌─▶ actions ─▶ the node does them ──┐
//!  facts ───────┼─▶ Snapshot ─▶ plan ──┼─▶ status, notes ─▶ API server     │
//!  now ─────────┘      ▲               └─▶ wake_at ─▶ time                 │
//!                      └──── record, exits, probes, hooks, API, time ◀─────┘
//!
//!  plan:  view (pod and facts side by side)
//!           ├─ ending?  termination: preStop ▸ turn ▸ stop signal ▸ kill
//!           ├─ living?  order: init ▸ sidecars ▸ regular;  restart, back_off, resize
//!           ├─ work done?  work: no unmarked container runs or will;  ending: what that means for marked sidecars
//!           └─ status:  container_status ▸ phase ▸ conditions
//! ```
//!
//! It decides as the kubelet of Kubernetes 1.35 does, which has the same in `computePodActions`, `killContainer`,
//! `getPhase`, `generateAPIPodStatus` and its status manager.
//!
//! # Invariants
//!
//! - The same snapshot gives the same plan: no clock, no IO, no chance.
//! - A plan never asks for what is under way. After [`record`] the next plan of the same moment is empty.
//! - `wake_at` is in the future, and between now and then only facts change the plan.
//! - Of one container at most one attempt is alive.
//! - In a new sandbox all init containers run again before the regular ones, whatever was done in the sandbox before.
//! - A terminal phase is reported when nothing runs any more, and is never taken back.
//! - Marked sidecars (`sidecar: true`) are stopped together, once, when every other regular container has ended for good; what becomes of
//!   them after that does not change the phase.
//! - What is being stopped goes its way: a deletion with a shorter grace period does not hurry it, as in the kubelet.
//!
//! # Where this differs from the kubelet
//!
//! - Waits are exact; the kubelet stretches each by a random part of up to a half.
//! - `CrashLoopBackOff` and `ImagePullBackOff` are reported one second after the fact; the kubelet reports them when it next
//!   looks at the pod.
//! - A deletion takes effect at once, not only after a hook or a stop that is under way in the living pod.
//! - A pod with `restartPolicy: Never` that loses its sandbox after its init containers and before its regular ones starts over. The kubelet
//!   leaves it Pending for ever.
#![forbid(unsafe_code)]

mod action;
mod back_off;
pub mod cases;
mod conditions;
mod container_status;
mod ending;
mod facts;
pub mod marks;
pub mod modes;
mod observed;
mod order;
mod phase;
mod plan;
#[cfg(test)]
mod properties;
mod resize;
pub mod resources;
mod restart;
mod role;
#[cfg(test)]
mod simulation;
mod status;
mod termination;
#[cfg(test)]
mod tests;
pub mod timeline;
mod verdict;
mod view;
mod work;

pub use action::{Action, Note, Plan, Stage, record};
pub use facts::{
    Attempt, BackOff, ContainerFacts, Held, Hook, NodeFacts, Snapshot, State, StopOrder, Stopping, Unhealthy, Why,
};
pub use plan::plan;
pub use role::{Marked, Role};
pub use verdict::{Verdict, verdict};
