//! What happens next to the pods of a set.

use std::collections::HashSet;
use std::fmt::Write as _;

use jiff::{SignedDuration, Timestamp};
use pillion_api::sidecarset::SidecarSetStatus;
use pillion_note::{Note, Reason, Subject};

use crate::amount;
use crate::conditions::{self, AVAILABLE, BLOCKED, PROGRESSING};
use crate::images::{self, ImageChange};
use crate::order::Candidate;
use crate::outlook::Outlook;
use crate::pod_names::counted;
use crate::progress::{self, Hold, Progress};
use crate::refusals::Refusals;
use crate::revision::StoredRevision;
use crate::revisions::{History, RevisionWrite};
use crate::tally::Tally;
use crate::target::Target;
use crate::view::PodView;

/// What a plan is made from, besides the pods.
#[derive(Clone, Copy)]
pub struct Snapshot<'a> {
    /// The set.
    pub target: &'a Target,
    /// The ControllerRevisions in the system namespace. Those of other sets are ignored.
    pub revisions: &'a [StoredRevision<'a>],
    /// Whether something besides this set's pods and spec uses a revision: a canary that pins it, or a place of a partition.
    pub is_used_elsewhere: &'a dyn Fn(&str) -> bool,
    /// Whether the set's `namespaceSelector` matches a namespace.
    pub is_in_scope: &'a dyn Fn(&str) -> bool,
    /// The pods that the API server refused to update.
    pub refusals: &'a Refusals,
    /// The namespace of the set's ControllerRevisions.
    pub system_namespace: &'a str,
}

/// What happens next, in the order in which it is to be written. Whatever is not written is planned again.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Revisions to write before anything refers to them.
    pub revisions: Vec<RevisionWrite>,
    /// The status, as it is before the pods are changed.
    pub status: SidecarSetStatus,
    /// Whether the status differs from the stored one.
    pub is_status_changed: bool,
    /// One step for each pod that is changed: hot upgrades that are finished, updates in their order, then conditions.
    pub updates: Vec<PodUpdate>,
    /// Revisions to delete.
    pub trimmed: Vec<String>,
    /// What there is to say that the status does not say already.
    pub notes: Vec<Note>,
    /// Pods of which only events may say why a container does not start: [`Target::explained`] reads them. Without that they count as starting.
    pub unexplained: Vec<PodName>,
    /// When to plan again if nothing changes until then.
    pub requeue_after: Option<SignedDuration>,
}

/// A pod of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodName {
    pub namespace: String,
    pub name: String,
    /// Its UID: a new pod of the same name is another one.
    pub uid: String,
}

/// One step for one pod. [`Target::change`] gives the exact change of the pod as it is when it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodUpdate {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID: a new pod of the same name is another one.
    pub uid: String,
    /// What is done.
    pub step: Step,
}

/// What is done to a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// It gets the latest revision.
    Update {
        /// The latest revision.
        revision: String,
        images: Vec<ImageChange>,
    },
    /// Its hot upgrade is finished: the container that no longer works gets the empty image.
    Reset { images: Vec<ImageChange> },
    /// Its condition is written: whether the latest revision can be reached in place.
    SetUpgradable(bool),
}

impl PodName {
    fn of(pod: &PodView) -> PodName {
        PodName { namespace: pod.namespace.to_string(), name: pod.name.to_string(), uid: pod.uid.to_string() }
    }
}

/// Plans the next step of a rollout. `pods` are all pods that list the set as injected, in any order; each is looked at once.
pub fn plan<'p>(snapshot: &Snapshot<'_>, pods: impl IntoIterator<Item = &'p PodView>, now: Timestamp) -> Plan {
    let (target, set) = (snapshot.target, snapshot.target.set());
    let history = History::new(target, snapshot.revisions, snapshot.system_namespace);
    let mut tally = Tally::new(target, progress::deadline(set));
    for pod in pods {
        let refusal = snapshot.refusals.get(target, &pod.uid);
        tally.observe(target, pod, (snapshot.is_in_scope)(&pod.namespace), refusal, now);
    }

    let strategy = &set.spec.update_strategy;
    let kept = amount::partition(strategy.partition.as_ref(), tally.matched);
    let max_unavailable = amount::max_unavailable(strategy.max_unavailable.as_ref(), tally.matched);
    // Pods that stay on the old revision for other reasons count towards those that the partition keeps.
    let allowed = tally.allowed(kept);
    let remaining = tally.upgradable.min(allowed);
    // Pods that are neither kept nor can be updated in place.
    let unreachable = tally.not_upgradable.count().min(allowed - remaining);
    let has_failed = progress::has_failed(set, &history.latest, &tally, remaining);
    let hold = Hold::of(set, has_failed);
    let (chosen, is_over_budget) = choose(&mut tally, allowed, max_unavailable);

    let mut status = counts(&tally, &history);
    status.observed_generation = set.metadata.generation;
    status.paused_revision = has_failed.then(|| history.latest.clone());
    let progress = Progress::of(set, &status, hold, (remaining, unreachable), now);
    status.last_progress_time.clone_from(&progress.last);
    let outlook = Outlook {
        tally: &tally,
        progress: &progress,
        hold,
        latest: &history.latest,
        remaining,
        unreachable,
        kept: kept.min(tally.not_updated()),
        max_unavailable,
        is_over_budget,
        why_not_upgradable: why_not_upgradable(target, &history, &tally),
    };
    let reports =
        [(PROGRESSING, outlook.progressing()), (AVAILABLE, outlook.available()), (BLOCKED, outlook.blocked())];
    let before = set.status.as_ref();
    let conditions_before = before.map(|before| before.conditions.as_slice()).unwrap_or_default();
    status.conditions =
        conditions::write(conditions_before, reports, set.metadata.generation, progress::whole_seconds(now));

    let is_used = |name: &str| tally.in_use.contains(name) || (snapshot.is_used_elsewhere)(name);
    let (trimmed, above_limit) = history.trim(set, is_used);
    let next_look = [progress.late_at, tally.next_look.filter(|_| hold == Hold::None)];
    let next_look = next_look.into_iter().flatten().min();
    Plan {
        updates: updates(target, &history.latest, &tally, &chosen, hold),
        is_status_changed: before != Some(&status),
        notes: notes(target, &tally, &status, above_limit),
        unexplained: tally.unexplained.iter().map(|pod| PodName::of(pod)).collect(),
        requeue_after: next_look.map(|at| at.duration_since(now)),
        revisions: history.writes,
        status,
        trimmed,
    }
}

/// The pods that are updated now, in order, and whether others wait until fewer pods are unavailable.
///
/// A pod that is not ready costs nothing: updating it makes nothing worse, and is how a bad revision is left.
fn choose<'p>(tally: &mut Tally<'p>, allowed: usize, max_unavailable: usize) -> (Vec<Candidate<'p>>, bool) {
    let mut candidates = std::mem::take(&mut tally.candidates);
    let eligible = candidates.len().min(allowed);
    // Not more than these are taken. Where nothing is spread, the others need not be sorted.
    let free = candidates.iter().filter(|candidate| !candidate.is_available).count();
    let reach = free + max_unavailable.saturating_sub(tally.busy.count());
    if reach < candidates.len() && !tally.scatter.is_used() {
        candidates.select_nth_unstable_by(reach, Candidate::compare);
        candidates.truncate(reach);
    }
    candidates.sort_unstable_by(Candidate::compare);
    tally.scatter.spread(&mut candidates);
    candidates.sort_by_key(|candidate| !candidate.is_busy);
    candidates.truncate(allowed);
    let mut unavailable = tally.busy.count();
    let mut taken = 0;
    for candidate in &candidates {
        if candidate.is_available {
            if unavailable >= max_unavailable {
                break;
            }
            unavailable += 1;
        }
        taken += 1;
    }
    let is_over_budget = taken < eligible;
    candidates.truncate(taken);
    (candidates, is_over_budget)
}

fn counts(tally: &Tally<'_>, history: &History<'_>) -> SidecarSetStatus {
    let number = |pods: usize| i32::try_from(pods).unwrap_or(i32::MAX);
    let not_upgradable = tally.not_upgradable.count();
    SidecarSetStatus {
        matched_pods: number(tally.matched),
        updated_pods: number(tally.updated),
        ready_pods: number(tally.ready),
        updated_ready_pods: Some(number(tally.updated_ready)),
        latest_revision: Some(history.latest.clone()),
        collision_count: Some(history.collision_count),
        not_upgradable_pods: (not_upgradable > 0).then(|| number(not_upgradable)),
        ..SidecarSetStatus::default()
    }
}

fn updates(target: &Target, latest: &str, tally: &Tally<'_>, chosen: &[Candidate<'_>], hold: Hold) -> Vec<PodUpdate> {
    if matches!(hold, Hold::NotUpdate | Hold::Paused) {
        return Vec::new();
    }
    let in_place = |pod: &'_ PodView| pod.injected(target.name()).and_then(|injected| injected.in_place.clone());
    let step = |pod: &PodView, step| PodUpdate {
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.to_string(),
        step,
    };
    let reset =
        |pod: &&PodView| step(pod, Step::Reset { images: images::reset(target, pod, in_place(pod).as_deref()).0 });
    let update = |candidate: &Candidate<'_>| {
        let (images, _) = images::update(target, candidate.pod, in_place(candidate.pod).as_deref());
        step(candidate.pod, Step::Update { revision: latest.to_owned(), images })
    };
    let chosen = if hold == Hold::None { chosen } else { &[] };
    // An update writes the condition as well.
    let updated: HashSet<&str> = chosen.iter().map(|candidate| &*candidate.pod.uid).collect();
    let marks = tally.marks.iter().filter(|(pod, _)| !updated.contains(&*pod.uid));
    let marks = marks.map(|(pod, is_upgradable)| step(pod, Step::SetUpgradable(*is_upgradable)));
    tally.resettable.iter().map(reset).chain(chosen.iter().map(update)).chain(marks).collect()
}

/// The fields that differ between what most of the pods have and the set.
fn why_not_upgradable(target: &Target, history: &History<'_>, tally: &Tally<'_>) -> String {
    let common = tally.not_upgradable_from.iter().max_by_key(|(name, pods)| (**pods, std::cmp::Reverse(*name)));
    let fields = common.and_then(|(name, _)| history.changed_fields(target.set(), name)).unwrap_or_default();
    let mut text = "more than images".to_owned();
    if !fields.is_empty() {
        let fields: Vec<String> = fields.into_iter().take(10).collect();
        let _ = write!(text, " ({})", fields.join(", "));
    }
    text
}

/// What is new: something that was said before is in the status.
fn notes(target: &Target, tally: &Tally<'_>, status: &SidecarSetStatus, above_limit: usize) -> Vec<Note> {
    let before = target.set.status.clone().unwrap_or_default();
    let subject = || Subject::sidecar_set(target.name());
    let mut notes = Vec::new();
    if status.not_upgradable_pods.is_some() && status.not_upgradable_pods != before.not_upgradable_pods {
        let message = format!("{} cannot be updated in place", counted(tally.not_upgradable.count()));
        notes.push(Note::info(subject(), Reason::NotUpgradablePods, message));
    }
    if status.paused_revision.is_some() && status.paused_revision != before.paused_revision {
        let message = status.condition(BLOCKED).map(|blocked| blocked.message.clone()).unwrap_or_default();
        notes.push(Note::warning(subject(), Reason::RolloutPaused, message));
    }
    if above_limit > 0 && status.latest_revision != before.latest_revision {
        let limit = target.set.spec.history_limit();
        let message = format!(
            "{above_limit} more revisions than revisionHistoryLimit {limit} are kept: they are pinned, or {} still have them",
            counted(tally.not_updated())
        );
        notes.push(Note::info(subject(), Reason::HistoryLimit, message));
    }
    notes
}
