//! How far a rollout is: what the set's status says, beside the pods as they are.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, revision};
use pillion_rollout::{BLOCKED, COMPLETE, PROGRESSING, PodState, PodView, Target, UpdatePath, Workload};
use serde::Serialize;
use serde_json::Value;

/// How far a rollout is.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) sidecar_set: String,
    pub(crate) outcome: Outcome,
    /// What is to be said about it in one sentence.
    pub(crate) message: String,
    pub(crate) latest_revision: String,
    /// Whether updated pods failed.
    pub(crate) has_paused_itself: bool,
    pub(crate) pods: Counts,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) conditions: Vec<Condition>,
    /// The latest first, then from the newest to the oldest.
    pub(crate) revisions: Vec<RevisionStatus>,
    pub(crate) workloads: Vec<WorkloadStatus>,
    /// Pods that have the latest revision and are not ready, and those whose records cannot be read; the longest first.
    pub(crate) waiting_for: Vec<PodStatus>,
}

/// How a rollout stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Outcome {
    /// The manager has not looked at the set as it is now.
    NotObserved,
    /// Pods are being updated.
    Updating,
    /// `updateStrategy.paused` is true.
    Paused,
    /// `updateStrategy.type` is `NotUpdate`.
    NotUpdate,
    /// Every pod that the strategy updates is updated and ready.
    Complete,
    /// It does not go on by itself.
    Failed,
}

/// How many pods there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Counts {
    pub(crate) matched: usize,
    pub(crate) updated: usize,
    pub(crate) ready: usize,
    pub(crate) updated_ready: usize,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) to_be_recreated: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl Counts {
    fn add(&mut self, update_path: UpdatePath, is_ready: bool) {
        let is_updated = update_path == UpdatePath::Updated;
        self.matched += 1;
        self.updated += usize::from(is_updated);
        self.ready += usize::from(is_ready);
        self.updated_ready += usize::from(is_updated && is_ready);
        self.to_be_recreated += usize::from(update_path == UpdatePath::Recreate);
    }
}

/// The pods of one revision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionStatus {
    /// Empty for pods that record none.
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<i64>,
    pub(crate) is_latest: bool,
    /// `proxy=envoy:1.31`
    pub(crate) images: Vec<String>,
    pub(crate) pods: Counts,
    pub(crate) workloads: Vec<RevisionWorkload>,
}

/// The pods of one workload that have one revision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionWorkload {
    #[serde(flatten)]
    pub(crate) workload: Workload,
    pub(crate) pods: Vec<PodStatus>,
}

/// The pods of one workload.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadStatus {
    #[serde(flatten)]
    pub(crate) workload: Workload,
    pub(crate) pods: Counts,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// `ready`, `proxy: ImagePullBackOff`, …
    pub(crate) state: String,
    #[serde(skip)]
    pub(crate) is_ready: bool,
    /// A command that mends it, if a record on it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mend: Option<String>,
    /// Whether the revision changes more than images for it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) must_be_recreated: bool,
    /// Since when it is waited for, or is as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<Timestamp>,
}

impl Status {
    /// The status of a rollout. `revisions` are the set's, from the oldest to the newest.
    pub(crate) fn of<'p>(target: &Target, revisions: &[Value], pods: impl IntoIterator<Item = &'p PodView>) -> Status {
        let set = target.set();
        let latest = revision::current_name(set);
        let mut counts = Counts::default();
        let mut by_revision: BTreeMap<&str, (Counts, BTreeMap<Workload, Vec<PodStatus>>)> = BTreeMap::new();
        let mut by_workload: BTreeMap<Workload, Counts> = BTreeMap::new();
        let mut waiting_for = Vec::new();
        by_revision.entry(&latest).or_default();
        for pod in pods {
            let Some(standing) = target.standing(pod) else { continue };
            let is_ready = standing.state == PodState::Ready;
            let status = PodStatus {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                state: standing.state.to_string(),
                mend: mend(pod, &standing.state),
                is_ready,
                must_be_recreated: standing.update_path == UpdatePath::Recreate,
                since: standing.since,
            };
            if (standing.update_path == UpdatePath::Updated && !is_ready) || status.mend.is_some() {
                waiting_for.push(status.clone());
            }
            let workload = Workload::of(pod);
            counts.add(standing.update_path, is_ready);
            by_workload.entry(workload.clone()).or_default().add(standing.update_path, is_ready);
            let (of_revision, workloads) = by_revision.entry(standing.revision).or_default();
            of_revision.add(standing.update_path, is_ready);
            workloads.entry(workload).or_default().push(status);
        }
        waiting_for.sort_by(|a, b| (a.since, &a.namespace, &a.name).cmp(&(b.since, &b.namespace, &b.name)));
        let outcome = Outcome::of(set, counts);
        Status {
            sidecar_set: set.name().to_owned(),
            outcome,
            message: message(set, outcome, counts),
            has_paused_itself: outcome == Outcome::Failed
                && set.status.as_ref().is_some_and(|status| status.paused_revision.as_ref() == Some(&latest)),
            pods: counts,
            conditions: set.status.iter().flat_map(|status| &status.conditions).cloned().collect(),
            revisions: revision_list(set, &latest, revisions, by_revision),
            workloads: by_workload.into_iter().map(|(workload, pods)| WorkloadStatus { workload, pods }).collect(),
            latest_revision: latest,
            waiting_for,
        }
    }
}

/// What mends a pod whose record cannot be read. Without the records that say what was injected it has to be recreated.
fn mend(pod: &PodView, state: &PodState) -> Option<String> {
    let PodState::Unreadable { annotation } = state else { return None };
    let (namespace, name) = (&pod.namespace, &pod.name);
    Some(match *annotation {
        names::HASH | names::IN_PLACE_UPDATE_STATE => {
            format!("kubectl annotate pod -n {namespace} {name} {annotation}-")
        }
        _ => format!("kubectl delete pod -n {namespace} {name}"),
    })
}

impl Outcome {
    /// As the set's own status has it. One that knows of no pods although there are some is from before they came.
    fn of(set: &SidecarSet, counts: Counts) -> Outcome {
        let status = set.status.as_ref().filter(|status| status.matched_pods > 0 || counts.matched == 0);
        let observed = status.and_then(|status| status.observed_generation);
        let progressing = status.and_then(|status| status.condition(PROGRESSING));
        let Some(progressing) = progressing.filter(|_| observed >= set.metadata.generation) else {
            return Outcome::NotObserved;
        };
        match (progressing.reason.as_str(), progressing.status.as_str()) {
            (COMPLETE, _) => Outcome::Complete,
            ("Paused", _) => Outcome::Paused,
            // New pods have the latest revision, and become ready.
            ("NotUpdate", _) if counts.updated == counts.matched => Outcome::Updating,
            ("NotUpdate", _) => Outcome::NotUpdate,
            (_, "False") => Outcome::Failed,
            _ => Outcome::Updating,
        }
    }

    /// Whether nothing is going to happen by itself: `Some` with whether all is well.
    pub(crate) fn end(self) -> Option<bool> {
        match self {
            Outcome::Complete => Some(true),
            Outcome::Failed | Outcome::NotUpdate => Some(false),
            // Somebody may resume it.
            Outcome::NotObserved | Outcome::Updating | Outcome::Paused => None,
        }
    }
}

fn message(set: &SidecarSet, outcome: Outcome, counts: Counts) -> String {
    let condition = |kind| set.status.as_ref().and_then(|status| status.condition(kind));
    let said = |kind| condition(kind).map(|condition| condition.message.clone()).unwrap_or_default();
    match outcome {
        Outcome::NotObserved if condition(PROGRESSING).is_none() => {
            "the status has no condition Progressing: no manager rolls this SidecarSet out".to_owned()
        }
        Outcome::NotObserved => {
            let generation = set.metadata.generation.unwrap_or_default();
            format!("the manager has not seen generation {generation} of the SidecarSet and its pods yet")
        }
        Outcome::NotUpdate => {
            let old = counts.matched - counts.updated;
            format!("updateStrategy.type is NotUpdate: {} on older revisions until they are recreated", stay(old))
        }
        Outcome::Failed | Outcome::Paused => {
            let blocked = condition(BLOCKED).filter(|blocked| blocked.status == "True");
            blocked.map_or_else(|| said(PROGRESSING), |blocked| blocked.message.clone())
        }
        Outcome::Updating | Outcome::Complete => said(PROGRESSING),
    }
}

fn stay(pods: usize) -> String {
    if pods == 1 { "1 pod stays".to_owned() } else { format!("{pods} pods stay") }
}

fn revision_list(
    set: &SidecarSet,
    latest: &str,
    stored: &[Value],
    mut pods: BTreeMap<&str, (Counts, BTreeMap<Workload, Vec<PodStatus>>)>,
) -> Vec<RevisionStatus> {
    let mut list = Vec::new();
    let mut push = |name: &str, object: Option<&Value>, (counts, workloads): (Counts, BTreeMap<_, Vec<PodStatus>>)| {
        let mut workloads: Vec<RevisionWorkload> =
            workloads.into_iter().map(|(workload, pods)| RevisionWorkload { workload, pods }).collect();
        for workload in &mut workloads {
            // What is not as it should be comes first.
            workload.pods.sort_by(|a, b| (a.is_ready, &a.name).cmp(&(b.is_ready, &b.name)));
        }
        list.push(RevisionStatus {
            name: name.to_owned(),
            revision: object.and_then(|object| object["revision"].as_i64()),
            is_latest: name == latest,
            images: object.map_or_else(|| images_of(set), |object| images(&object["data"]["spec"])),
            pods: counts,
            workloads,
        });
    };
    let object = |name: &str| stored.iter().find(|object| object["metadata"]["name"] == name);
    let found = pods.remove(latest).unwrap_or_default();
    push(latest, object(latest), found);
    for stored in stored.iter().rev() {
        let name = stored["metadata"]["name"].as_str().unwrap_or_default();
        if let Some(found) = pods.remove(name) {
            push(name, Some(stored), found);
        }
    }
    // Revisions that are gone, and pods that record none.
    for (name, found) in pods {
        push(name, Some(&Value::Null), found);
    }
    list
}

fn images_of(set: &SidecarSet) -> Vec<String> {
    set.sidecars().map(|container| format!("{}={}", container.name(), container.image())).collect()
}

/// The images of the sidecars that a revision holds.
pub(crate) fn images(spec: &Value) -> Vec<String> {
    let list = |name: &str| spec[name].as_array().into_iter().flatten();
    let native = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    native.chain(list("containers")).map(|it| format!("{}={}", text(&it["name"]), text(&it["image"]))).collect()
}
