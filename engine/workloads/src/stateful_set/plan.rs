//! What a StatefulSet does next, and what it says of itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSetStatus};
use kube::ResourceExt as _;

use super::identity::{self, POD_NAME, REVISION};
use crate::kinds::StatefulSet;
use crate::pod::PodView;

/// The names of the revision that pods were made of so far, and of the one that they are to be made of.
#[derive(Debug)]
pub(super) struct Revisions {
    pub(super) current: String,
    pub(super) update: String,
}

/// One thing to do.
#[derive(Debug)]
pub(super) enum Action {
    /// Make the pod of a number, of the current revision or of the new one.
    Create {
        ordinal: i32,
        current: bool,
    },
    Delete(Arc<PodView>),
    /// Write on an adopted pod which one it is.
    Identify(Arc<PodView>),
    /// Make volume claims of a pod that waits for them.
    EnsureClaims(i32),
    /// Make the claims of a pod go when they should.
    RetainClaims {
        pod: Arc<PodView>,
        condemned: bool,
    },
}

/// The next steps.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) actions: Vec<Action>,
    pub(super) status: StatefulSetStatus,
}

/// The next steps of a set with its pods.
pub(super) fn plan(
    set: &StatefulSet,
    pods: &[Arc<PodView>],
    revisions: &Revisions,
    collisions: i32,
    now: Timestamp,
) -> Plan {
    let mut working = Working::new(set, pods, revisions, now);
    if set.metadata.deletion_timestamp.is_none() && working.replicas() && working.condemned() {
        working.update();
    }
    let deleted_for_update = working.deleted_for_update;
    let mut status = status(set, pods, revisions, collisions, now);
    status.current_replicas =
        status.current_replicas.map(|count| count - deleted_for_update).filter(|count| *count > 0);
    complete(set, &mut status);
    Plan { actions: working.actions, status }
}

/// The set while it is decided upon.
struct Working<'a> {
    set: &'a StatefulSet,
    revisions: &'a Revisions,
    now: Timestamp,
    /// One thing at a time, in order.
    ordered: bool,
    /// The pods that are wanted, by their place.
    replicas: Vec<Option<&'a Arc<PodView>>>,
    /// The pods that are not, the highest number first.
    condemned: Vec<&'a Arc<PodView>>,
    actions: Vec<Action>,
    deleted_for_update: i32,
}

impl Working<'_> {
    fn new<'a>(
        set: &'a StatefulSet,
        pods: &'a [Arc<PodView>],
        revisions: &'a Revisions,
        now: Timestamp,
    ) -> Working<'a> {
        let mut replicas = vec![None; usize::try_from(wanted(set)).unwrap_or(0)];
        let mut condemned = Vec::new();
        for pod in pods {
            let Some(ordinal) = identity::ordinal(&pod.name_any()) else { continue };
            let place = usize::try_from(ordinal - start(set)).ok().and_then(|place| replicas.get_mut(place));
            match place {
                Some(place) => *place = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Working {
            set,
            revisions,
            now,
            ordered: set.spec.pod_management_policy.as_deref() != Some("Parallel"),
            replicas,
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
            actions: Vec::new(),
            deleted_for_update: 0,
        }
    }

    fn is_unavailable(&self, pod: &PodView) -> bool {
        pod.metadata.deletion_timestamp.is_some() || !pod.is_available(self.set.spec.min_ready_seconds, self.now)
    }

    /// Brings every wanted pod about; whether one may go on after it.
    fn replicas(&mut self) -> bool {
        for place in 0..self.replicas.len() {
            let ordinal = start(self.set) + i32::try_from(place).unwrap_or(i32::MAX);
            let is_ready = match self.replicas[place] {
                None => {
                    self.actions.push(Action::Create { ordinal, current: self.is_made_of_current(ordinal) });
                    false
                }
                Some(pod) => self.replica(pod, ordinal),
            };
            if self.ordered && !is_ready {
                return false;
            }
        }
        true
    }

    /// Keeps one wanted pod as it should be; whether it is.
    fn replica(&mut self, pod: &Arc<PodView>, ordinal: i32) -> bool {
        let terminating = pod.metadata.deletion_timestamp.is_some();
        if pod.is_terminal() {
            if !terminating {
                self.actions.push(Action::Delete(Arc::clone(pod)));
            }
            return false;
        }
        let has_claims = !self.set.spec.volume_claim_templates.is_empty();
        if pod.phase() == "Pending" && has_claims {
            self.actions.push(Action::EnsureClaims(ordinal));
        }
        let ready = pod.phase() == "Running" && !self.is_unavailable(pod);
        if self.ordered && !ready {
            return false;
        }
        if pod.labels().get(POD_NAME) != Some(&pod.name_any()) {
            self.actions.push(Action::Identify(Arc::clone(pod)));
        }
        if has_claims && has_retention(self.set) {
            self.actions.push(Action::RetainClaims { pod: Arc::clone(pod), condemned: false });
        }
        ready
    }

    /// New pods below the partition are of the revision that the others there have.
    fn is_made_of_current(&self, ordinal: i32) -> bool {
        ordinal < start(self.set) + partition(self.set)
    }

    /// Removes the pods that are not wanted, from the end; whether none is left to wait for.
    fn condemned(&mut self) -> bool {
        let condemned = self.condemned.clone();
        if has_retention(self.set) && !self.set.spec.volume_claim_templates.is_empty() {
            let claims = condemned.iter().map(|pod| Action::RetainClaims { pod: Arc::clone(pod), condemned: true });
            self.actions.extend(claims);
        }
        let replicas_are_fine = self.replicas.iter().all(|pod| pod.is_some_and(|pod| !self.is_unavailable(pod)));
        let first_unhealthy = condemned.iter().rposition(|pod| self.is_unavailable(pod)).filter(|_| replicas_are_fine);
        for (place, pod) in condemned.iter().enumerate() {
            let terminating = pod.metadata.deletion_timestamp.is_some();
            if terminating && !self.ordered {
                continue;
            }
            let healthy = pod.phase() == "Running" && !self.is_unavailable(pod);
            if self.ordered && (terminating || !healthy && first_unhealthy != Some(place)) {
                return false;
            }
            self.actions.push(Action::Delete(Arc::clone(pod)));
            if self.ordered {
                return false;
            }
        }
        true
    }

    /// Replaces one pod of an old revision, the highest number first, when all above it are available.
    fn update(&mut self) {
        if is_on_delete(self.set) {
            return;
        }
        let partition = usize::try_from(partition(self.set)).unwrap_or(0);
        for place in (partition..self.replicas.len()).rev() {
            let Some(pod) = self.replicas[place] else { return };
            let terminating = pod.metadata.deletion_timestamp.is_some();
            if pod.labels().get(REVISION) != Some(&self.revisions.update) && !terminating {
                self.actions.push(Action::Delete(Arc::clone(pod)));
                self.deleted_for_update = 1;
                return;
            }
            if self.is_unavailable(pod) {
                return;
            }
        }
    }
}

fn wanted(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// The first number.
fn start(set: &StatefulSet) -> i32 {
    set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0)
}

fn is_on_delete(set: &StatefulSet) -> bool {
    set.spec.update_strategy.type_.as_deref() == Some("OnDelete")
}

/// Pods of a lower place stay as they are.
fn partition(set: &StatefulSet) -> i32 {
    set.spec.update_strategy.rolling_update.as_ref().and_then(|rolling| rolling.partition).unwrap_or(0)
}

fn has_retention(set: &StatefulSet) -> bool {
    let policy = set.spec.persistent_volume_claim_retention_policy.as_ref();
    let policies =
        policy.into_iter().flat_map(|policy| [policy.when_deleted.as_deref(), policy.when_scaled.as_deref()]);
    policies.flatten().any(|policy| policy == "Delete")
}

fn status(
    set: &StatefulSet,
    pods: &[Arc<PodView>],
    revisions: &Revisions,
    collisions: i32,
    now: Timestamp,
) -> StatefulSetStatus {
    let count = |wanted: &dyn Fn(&PodView) -> bool| {
        i32::try_from(pods.iter().filter(|pod| wanted(pod)).count()).unwrap_or(i32::MAX)
    };
    let some = |count: i32| Some(count).filter(|count| *count != 0);
    let is_ready = |pod: &PodView| pod.phase() == "Running" && pod.is_ready();
    let is_of = |pod: &PodView, revision: &String| {
        pod.metadata.deletion_timestamp.is_none() && pod.labels().get(REVISION) == Some(revision)
    };
    StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: count(&|_| true),
        ready_replicas: some(count(&is_ready)),
        available_replicas: Some(count(&|pod| is_ready(pod) && pod.is_available(set.spec.min_ready_seconds, now))),
        current_replicas: some(count(&|pod| is_of(pod, &revisions.current))),
        updated_replicas: some(count(&|pod| is_of(pod, &revisions.update))),
        current_revision: Some(revisions.current.clone()),
        update_revision: Some(revisions.update.clone()),
        collision_count: Some(collisions),
        conditions: set.status.conditions.clone(),
    }
}

/// When all pods are of the new revision, it is the current one.
fn complete(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let is_wanted = |count: Option<i32>| count.unwrap_or(0) == wanted(set);
    if !is_on_delete(set)
        && is_wanted(status.updated_replicas)
        && is_wanted(status.ready_replicas)
        && is_wanted(Some(status.replicas))
    {
        status.current_replicas = status.updated_replicas;
        status.current_revision.clone_from(&status.update_revision);
    }
}

/// The oldest revisions that nothing is made of any more, where more are kept than wanted.
pub(super) fn forgotten(
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    pods: &[Arc<PodView>],
    named: &Revisions,
) -> Vec<Arc<ControllerRevision>> {
    let mut live: BTreeSet<&str> = pods.iter().filter_map(|pod| Some(pod.labels().get(REVISION)?.as_str())).collect();
    live.extend([named.current.as_str(), named.update.as_str()]);
    let mut past: Vec<_> =
        revisions.iter().filter(|revision| !live.contains(revision.name_any().as_str())).cloned().collect();
    let limit = usize::try_from(set.spec.revision_history_limit.unwrap_or(10)).unwrap_or(usize::MAX);
    past.truncate(past.len().saturating_sub(limit));
    past
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);

    fn set(spec: Value) -> StatefulSet {
        let mut set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 3}});
        for (field, value) in spec.as_object().unwrap() {
            set["spec"][field] = value.clone();
        }
        serde_json::from_value(set).unwrap()
    }

    /// Pods by number, each `ready`, `not-ready`, `failed` or `terminating`, and of a revision.
    fn pods(states: &[(i32, &str)]) -> Vec<Arc<PodView>> {
        let pod = |(ordinal, state): &(i32, &str)| {
            let name = format!("web-{ordinal}");
            let (how, revision) = state.split_once(' ').unwrap();
            let ready = if matches!(how, "ready" | "terminating") { "True" } else { "False" };
            let mut pod = json!({
                "metadata": {"name": name, "labels": {REVISION: revision, POD_NAME: name}},
                "status": {"phase": if how == "failed" { "Failed" } else { "Running" }, "conditions": [{"type": "Ready", "status": ready}]},
            });
            if how == "terminating" {
                pod["metadata"]["deletionTimestamp"] = NOW.to_string().into();
            }
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        states.iter().map(pod).collect()
    }

    fn actions(set: &StatefulSet, states: &[(i32, &str)]) -> Vec<String> {
        let revisions = Revisions { current: "old".into(), update: "new".into() };
        let show = |action: &Action| match action {
            Action::Create { ordinal, current } => format!("create {ordinal} {}", if *current { "old" } else { "new" }),
            Action::Delete(pod) => format!("delete {}", pod.name_any()),
            Action::Identify(pod) => format!("identify {}", pod.name_any()),
            Action::EnsureClaims(ordinal) => format!("claims of {ordinal}"),
            Action::RetainClaims { pod, condemned } => format!("retain {} {condemned}", pod.name_any()),
        };
        plan(set, &pods(states), &revisions, 0, NOW).actions.iter().map(show).collect()
    }

    #[test]
    fn pods_come_and_go_one_after_another() {
        let ordered = set(json!({}));
        let none: [&str; 0] = [];
        assert_eq!(actions(&ordered, &[]), ["create 0 new"]);
        assert_eq!(actions(&ordered, &[(0, "not-ready new")]), none);
        assert_eq!(actions(&ordered, &[(0, "ready new")]), ["create 1 new"]);
        assert_eq!(actions(&ordered, &[(0, "terminating new"), (1, "ready new")]), none);
        assert_eq!(actions(&ordered, &[(0, "ready new"), (2, "ready new")]), ["create 1 new"]);
        assert_eq!(actions(&ordered, &[(0, "failed new"), (1, "ready new")]), ["delete web-0"]);
        let two = set(json!({"replicas": 1}));
        let ready = |count: i32| (0..count).map(|ordinal| (ordinal, "ready new")).collect::<Vec<_>>();
        assert_eq!(actions(&two, &ready(3)), ["delete web-2"]);
        assert_eq!(actions(&two, &[(0, "ready new"), (1, "not-ready new"), (2, "ready new")]), ["delete web-2"]);
        assert_eq!(actions(&two, &[(0, "ready new"), (1, "not-ready new"), (2, "not-ready new")]), none);
        assert_eq!(actions(&two, &[(0, "ready new"), (1, "ready new"), (2, "not-ready new")]), ["delete web-2"]);
        assert_eq!(actions(&two, &[(0, "ready new"), (1, "ready new"), (2, "terminating new")]), none);
        assert_eq!(actions(&two, &[(0, "not-ready new"), (1, "ready new")]), none);
    }

    #[test]
    fn parallel_pods_do_not_wait_for_each_other() {
        let parallel = set(json!({"podManagementPolicy": "Parallel"}));
        assert_eq!(actions(&parallel, &[]), ["create 0 new", "create 1 new", "create 2 new"]);
        assert_eq!(
            actions(&parallel, &[(1, "not-ready new"), (4, "ready new"), (3, "terminating new")]),
            ["create 0 new", "create 2 new", "delete web-4"]
        );
    }

    #[test]
    fn an_update_replaces_from_the_end_down_to_the_partition() {
        let old = [(0, "ready old"), (1, "ready old"), (2, "ready old")];
        let none: [&str; 0] = [];
        assert_eq!(actions(&set(json!({})), &old), ["delete web-2"]);
        assert_eq!(actions(&set(json!({})), &[old[0], old[1], (2, "ready new")]), ["delete web-1"]);
        assert_eq!(actions(&set(json!({})), &[old[0], old[1], (2, "not-ready new")]), none);
        assert_eq!(actions(&set(json!({})), &[old[0], old[1]]), ["create 2 new"]);
        let partition = |partition: i32| {
            set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}}))
        };
        assert_eq!(actions(&partition(2), &[old[0], old[1], (2, "ready new")]), none);
        assert_eq!(actions(&partition(2), &[old[0]]), ["create 1 old"]);
        assert_eq!(actions(&partition(2), &[old[0], old[1]]), ["create 2 new"]);
        assert_eq!(actions(&set(json!({"updateStrategy": {"type": "OnDelete"}})), &old), none);
    }

    #[test]
    fn numbers_may_start_elsewhere() {
        let shifted = set(json!({"replicas": 2, "ordinals": {"start": 5}}));
        assert_eq!(actions(&shifted, &[]), ["create 5 new"]);
        assert_eq!(actions(&shifted, &[(5, "ready new"), (6, "ready new"), (0, "ready new")]), ["delete web-0"]);
    }

    #[test]
    fn the_new_revision_is_the_current_one_when_all_pods_have_it() {
        let revisions = Revisions { current: "old".into(), update: "new".into() };
        let status = |states: &[(i32, &str)]| {
            let status = plan(&set(json!({})), &pods(states), &revisions, 0, NOW).status;
            (status.current_revision.unwrap(), status.current_replicas, status.updated_replicas)
        };
        assert_eq!(status(&[(0, "ready old"), (1, "ready old"), (2, "ready new")]), ("old".into(), Some(1), Some(1)));
        assert_eq!(status(&[(0, "ready new"), (1, "ready new"), (2, "not-ready new")]), ("old".into(), None, Some(3)));
        assert_eq!(status(&[(0, "ready new"), (1, "ready new"), (2, "ready new")]), ("new".into(), Some(3), Some(3)));
    }
}
