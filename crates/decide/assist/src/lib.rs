//! What the in-pod agent decides: its configuration, what a probe's answer means, what is written and when, which updates are taken and
//! what a restart does with one that was under way.
//!
//! ```
//! use pillion_assist::{Config, Fields, Ledger, PodName, State, desired};
//!
//! let text = r#"
//! plugins:
//! - name: http_probe
//!   config:
//!     endpoints:
//!     - url: http://localhost:8080/state
//!       storageConfig:
//!         type: InKube
//!         inKube:
//!           markerPolices:
//!           - {state: idle, annotations: {controller.kubernetes.io/pod-deletion-cost: '-10'}}
//! "#;
//! let config = Config::parse(text, Some(&Fields::new())).unwrap();
//! let storage = config.storages().next().unwrap();
//!
//! let mut ledger = Ledger::new(PodName { namespace: "games".into(), name: "web-1".into() });
//! ledger.set("http_probe", desired(storage, &State::succeeded("idle\n")));
//! let writes = ledger.due(jiff::Timestamp::UNIX_EPOCH);
//! assert_eq!(writes[0].path, "/api/v1/namespaces/games/pods/web-1");
//! assert_eq!(writes[0].body["metadata"]["annotations"]["controller.kubernetes.io/pod-deletion-cost"], "-10");
//! ```
//!
//! ```text
//!  config.yaml ─▶ Config ─┬─▶ Endpoint ──(a probe is made)──▶ State ─▶ Streak ─▶ desired ─▶ Ledger ─▶ Write
//!                         │
//!                         └─▶ HotUpdate ◀── Trigger::check ◀── POST, ConfigMap, dropped file, Entry (sidecar-result)
//!                                  └─▶ Journal ──(a restart)──▶ resume
//!  PodProbeMarkers, a pod ─▶ marks ─▶ the annotation that the agent reads; labels and annotations of its results (the manager writes these)
//! ```
//!
//! # Invariants
//! - Whatever is wrong with a configuration is reported with its line and column; a configuration is taken whole or not at all.
//! - What a source wants written is complete: it does not depend on what was written before, so a restart forgets nothing.
//! - What others wrote (entries of `sidecar-result`, triggers, annotations) passes the same checks as a request from outside.
#![forbid(unsafe_code)]

mod config;
mod keep;
mod ledger;
mod marker;
mod origin;
mod parameters;
mod pod_probe;
mod probe_marker;
mod process;
mod restart;
mod state;
mod update;

pub use config::{
    Ask, Config, Credential, Endpoint, Extract, Fields, HotUpdate, HttpAsk, HttpMetric, InKube, Key, Kind, Other,
    Plugin, Policy, Process as PluginProcess, Reload, Resources, RestartPolicy, STATUS_CONDITION, SecretKey, Security,
    StartOrder, Storage, Target, Url, Verify, signal_number,
};
pub use keep::{AgentNamespace, Keep, Mirrored, excess, keep, not_mirrored, prunable};
pub use ledger::{Ledger, Look, PodName, Sent, UNSEEN, Write};
pub use marker::{Desired, REMOVED, condition, desired, desired_of_update};
pub use origin::{check_origin, check_page};
pub use parameters::parameters;
pub use pod_probe::{POD_PROBE, pod_probes};
pub use probe_marker::{Marks, POD_PROBE_MARKERS, ProbeMarker, marks};
pub use process::{Process, select};
pub use restart::{restart, was_healthy};
pub use state::{FAILED, SUCCEEDED, State, Streak, UNKNOWN, shortened};
pub use update::{
    Entry, Journal, LONGEST_ENTRY, OnDisk, RESULTS, Refusal, Resume, Source, Trigger, UpdateOutcome, Version,
    check_host, entries_of, resume, workload_of,
};
