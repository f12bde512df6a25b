//! Rollouts of SidecarSets: which running pods are updated next and how, which revisions there are, what the status says, and which
//! new pods get an older revision.
//!
//! ```
//! use std::sync::Arc;
//! use pillion_rollout::{PodView, Refusals, Snapshot, Step, Target, Texts, plan};
//! # use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
//! # use serde_json::json;
//! # let old = mk_set("mesh", json!({"app": "web"}), json!({"containers": [{"name": "proxy", "image": "envoy:1.30"}]}));
//! # let new = mk_set("mesh", json!({"app": "web"}), json!({"containers": [{"name": "proxy", "image": "envoy:1.31"}]}));
//! let pod = mk_injected_pod("web-0", json!({"app": "web"}), [mk_container("app")], &[&old]);
//! let views = [PodView::new(&pod, &mut Texts::default())];
//! let target = Target::new(Arc::new(new));
//! let snapshot = Snapshot {
//!     target: &target,
//!     revisions: &[],
//!     is_used_elsewhere: &|_| false,
//!     is_in_scope: &|_| true,
//!     refusals: &Refusals::default(),
//!     system_namespace: "kruise-system",
//! };
//! let now = "2026-01-01T00:00:00Z".parse()?;
//!
//! let next = plan(&snapshot, &views, now);
//! assert_eq!(next.status.matched_pods, 1);
//! let Step::Update { images, .. } = &next.updates[0].step else { panic!("the pod is updated") };
//! assert_eq!((images[0].from.as_str(), images[0].to.as_str()), ("envoy:1.30", "envoy:1.31"));
//! let change = target.change(&next.updates[0], &pod, now);
//! assert!(change.patch.to_string().contains("/spec/containers/0/image"));
//! # Ok::<(), jiff::Error>(())
//! ```
//!
//! ```text
//!  Pod ──▶ PodView (compact) ──▶ Tally: one look at each pod ──▶ order, scatter ──▶ partition, maxUnavailable ──▶ steps
//!  SidecarSet ──▶ Target ──────────▲        │                                                                       │
//!  ControllerRevisions ──▶ History ─────────┴──▶ Hold (paused, failed), Progress (late) ──▶ status, conditions      │
//!                                                                                                                   ▼
//!  Pod as it is when it is written ──▶ Target::change ──▶ a JSON patch of images and records, and the pod's condition
//!
//!  new pod ──▶ Places (one object for each set) ──▶ whether a place of the partition is free
//!  PodViews, Pace ──▶ forecast: the same plan again and again in virtual time ──▶ waves, and what would block
//! ```
//!
//! # Invariants
//! - Pure: the same snapshot and `now` give the same plan, in whatever order the pods come.
//! - All state is in the cluster: in the pods' annotations, the ControllerRevisions and the set's status. Each step is one write to a pod,
//!   and a plan made after any part of the writes leads to the same end.
//! - No update makes more pods unavailable than `maxUnavailable`, and none leaves fewer pods on older revisions than the partition. A pod and
//!   the successor that its Deployment has already created count once.
//! - A pod is looked at once in a pass; sorting the pods that can be updated is all that takes longer than that.
//! - A revision that a pod has, that is pinned, or that a canary or a place uses is never trimmed.
#![forbid(unsafe_code)]

mod amount;
mod change;
mod conditions;
mod forecast;
mod headcount;
mod health;
mod hot_upgrade;
mod image;
mod images;
mod order;
mod outlook;
mod pace;
mod pinned;
mod places;
mod plan;
mod pod_names;
mod progress;
mod refusals;
mod restart;
mod revision;
mod revisions;
mod scatter;
mod standing;
mod tally;
mod target;
mod text;
mod trouble;
mod view;
mod waiting;
mod workload;

pub use amount::{max_unavailable, partition};
pub use change::Change;
pub use conditions::{AVAILABLE, BLOCKED, COMPLETE, DEADLINE_EXCEEDED, PROGRESSING, UPDATING};
pub use forecast::{Forecast, ForecastPod, Rest, Wave, forecast};
pub use images::ImageChange;
pub use pace::{Basis, Estimate, Pace};
pub use pinned::{PINNED_REVISION, missing_pin};
pub use places::{Applicant, Confirmation, Creator, Grant, Limit, Observed, Origin, Places, PlacesError};
pub use plan::{Plan, PodName, PodUpdate, Snapshot, Step, plan};
pub use pod_names::{counted, is_or_are};
pub use refusals::Refusals;
pub use restart::{Eviction, Restart, Unrestartable, restart};
pub use revision::StoredRevision;
pub use revisions::{RevisionWrite, history};
pub use standing::{PodState, Standing, UpdatePath};
pub use target::Target;
pub use text::{Text, Texts};
pub use view::{
    BeforeView, ContainerView, Ended, InPlaceView, InjectedSet, Owner, Phase, PodParts, PodView, Trouble, WorkingView,
};
pub use workload::Workload;
