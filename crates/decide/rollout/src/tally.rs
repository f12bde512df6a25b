//! One look at each pod of a set: what is counted, which pods can be updated, and which revisions are in use.

use std::collections::{BTreeMap, HashSet};

use jiff::{SignedDuration, Timestamp};

use crate::headcount::Headcount;
use crate::health::Health;
use crate::hot_upgrade;
use crate::order::Candidate;
use crate::pod_names::PodNames;
use crate::refusals::Refusal;
use crate::scatter::Scatter;
use crate::target::Target;
use crate::trouble;
use crate::view::{InjectedSet, PodView};
use crate::workload::deployment;

/// When it is first asked why a container has not started after its update, and how often again.
const ASK_AFTER: SignedDuration = SignedDuration::from_secs(5);
const ASK_AGAIN: SignedDuration = SignedDuration::from_secs(10);

/// What one pass over the pods of a set has found.
#[derive(Debug)]
pub(crate) struct Tally<'p> {
    /// How long a pod may take to become ready.
    deadline: SignedDuration,
    pub(crate) matched: usize,
    pub(crate) updated: usize,
    pub(crate) updated_ready: usize,
    pub(crate) ready: usize,
    /// Pods that do not have the latest revision, counted as a partition counts them.
    old: Headcount<(&'p str, &'p str), &'p str>,
    /// Pods that the strategy may update, those in flight included.
    pub(crate) upgradable: usize,
    /// Pods that can be updated now.
    pub(crate) candidates: Vec<Candidate<'p>>,
    pub(crate) scatter: Scatter<'p>,
    /// Pods whose hot upgrade can be finished.
    pub(crate) resettable: Vec<&'p PodView>,
    /// Pods whose condition has to be written, and what it has to say.
    pub(crate) marks: Vec<(&'p PodView, bool)>,
    /// Pods that an update has made unavailable, or that have the latest revision and are unavailable.
    pub(crate) busy: PodNames<'p>,
    /// Those of them that will not become available by themselves.
    pub(crate) stuck: usize,
    /// Pods on which the latest revision fails.
    pub(crate) failing: PodNames<'p>,
    /// Those of them that were updated in place.
    pub(crate) failing_in_place: usize,
    pub(crate) unavailable: PodNames<'p>,
    /// Pods that the API server refuses to update.
    pub(crate) refused: PodNames<'p>,
    /// Pods that are left alone because a record of theirs cannot be read.
    pub(crate) unreadable: PodNames<'p>,
    pub(crate) not_upgradable: PodNames<'p>,
    /// How many of the pods that are not upgradable have which revision.
    pub(crate) not_upgradable_from: BTreeMap<&'p str, usize>,
    /// The revisions that pods have, whether they are still matched or not.
    pub(crate) in_use: HashSet<&'p str>,
    /// Updated pods of which only events may say why a container does not start.
    pub(crate) unexplained: Vec<&'p PodView>,
    /// When a pod that has not become ready counts as failing, or no longer as busy.
    pub(crate) next_look: Option<Timestamp>,
}

impl<'p> Tally<'p> {
    pub(crate) fn new(target: &Target, deadline: SignedDuration) -> Tally<'p> {
        Tally {
            deadline,
            matched: 0,
            updated: 0,
            updated_ready: 0,
            ready: 0,
            old: Headcount::default(),
            upgradable: 0,
            candidates: Vec::new(),
            scatter: Scatter::new(&target.set.spec.update_strategy.scatter_strategy),
            resettable: Vec::new(),
            marks: Vec::new(),
            busy: PodNames::default(),
            stuck: 0,
            failing: PodNames::default(),
            failing_in_place: 0,
            unavailable: PodNames::default(),
            refused: PodNames::default(),
            unreadable: PodNames::default(),
            not_upgradable: PodNames::default(),
            not_upgradable_from: BTreeMap::new(),
            in_use: HashSet::new(),
            unexplained: Vec::new(),
            next_look: None,
        }
    }

    pub(crate) fn not_updated(&self) -> usize {
        self.matched - self.updated
    }

    /// How many pods an update may take from older revisions so that `kept` stay there.
    pub(crate) fn allowed(&self, kept: usize) -> usize {
        if kept == 0 { self.not_updated() } else { self.old.total().saturating_sub(kept) }
    }

    /// Looks at a pod. `refusal` is how the API server last answered an update of it.
    pub(crate) fn observe(
        &mut self,
        target: &Target,
        pod: &'p PodView,
        in_scope: bool,
        refusal: Option<&Refusal>,
        now: Timestamp,
    ) {
        let Some(injected) = pod.injected(target.name()) else { return };
        self.in_use.extend(injected.revision.as_deref());
        if !in_scope || !pod.is_active() || !target.selects(pod) {
            return;
        }
        let health = Health::of(target, pod, injected);
        let unreadable = target.unreadable_in(pod);
        // Whether more than images differ is not known of a pod whose records cannot be read.
        let is_upgradable = unreadable.is_some() || target.is_upgradable(pod, injected);
        let is_updated = target.is_updated(injected);
        self.matched += 1;
        self.updated += usize::from(is_updated);
        if !is_updated && target.set.spec.update_strategy.partition.is_some() {
            match deployment(pod) {
                Some((name, replica_set)) => self.old.add((&pod.namespace, name), replica_set, 1),
                None => self.old.add_others(1),
            }
        }
        let scatter = self.scatter.observe(pod);
        let busy_before = self.busy.count();
        if health.is_available() {
            self.ready += 1;
            self.updated_ready += usize::from(is_updated);
        } else {
            self.observe_unavailable(target, pod, injected, health, refusal.is_some() || unreadable.is_some(), now);
        }
        if let Some(annotation) = unreadable.filter(|_| target.is_held_back(pod, injected)) {
            self.unreadable.add(pod, format_args!("annotation {annotation}"));
        }
        if let Some(refusal) = refusal {
            self.refused.add(pod, &refusal.message);
        }
        // One that is not tried now; the others go on without it.
        let postponed_until = refusal.map(|refusal| refusal.retry_at).filter(|at| *at > now);
        self.next_look = self.next_look.into_iter().chain(postponed_until).min();
        let is_postponed = postponed_until.is_some() || unreadable.is_some();
        let is_selected = target.selects_for_update(pod);
        // A hot upgrade that is under way is finished whatever the set says by now.
        let is_resettable = !hot_upgrade::resettable(&target.sidecars, pod, injected.in_place.as_deref()).is_empty();
        self.resettable.extend((is_resettable && !is_postponed).then_some(pod));
        if !is_updated && is_selected {
            if is_upgradable {
                self.upgradable += 1;
                if !is_resettable && !health.is_in_flight && !is_postponed {
                    let is_busy = self.busy.count() > busy_before;
                    self.candidates.push(Candidate::new(target, pod, (health.is_available(), is_busy), scatter));
                }
            } else {
                self.not_upgradable.add(pod, "");
                *self.not_upgradable_from.entry(injected.revision.as_deref().unwrap_or_default()).or_default() += 1;
            }
        }
        let reported = injected.is_upgradable;
        let wanted = if !is_updated && !is_upgradable {
            is_selected.then_some(false)
        } else {
            let was_updated_in_place = is_updated && injected.in_place.is_some();
            (was_updated_in_place || reported.is_some()).then_some(true)
        };
        if let Some(wanted) = wanted.filter(|wanted| reported != Some(*wanted) && !is_postponed) {
            self.marks.push((pod, wanted));
        }
    }

    fn observe_unavailable(
        &mut self,
        target: &Target,
        pod: &'p PodView,
        injected: &'p InjectedSet,
        health: Health,
        is_left_alone: bool,
        now: Timestamp,
    ) {
        let mut containers = target.sidecars.iter().flat_map(|sidecar| hot_upgrade::in_service(sidecar, pod));
        let trouble = containers.find_map(|container| {
            let trouble = trouble::of(container, pod, injected.in_place.as_deref())?;
            Some(format!("{}: {trouble}", container.name))
        });
        let in_place = injected.in_place.as_deref().filter(|update| update.revision == injected.hash);
        let is_updated = target.is_updated(injected);
        if let Some(updated_at) = in_place.and_then(|update| update.updated_at).filter(|_| target.is_unexplained(pod)) {
            // Most containers start within this time.
            let ask_at = updated_at.checked_add(ASK_AFTER).unwrap_or(updated_at);
            self.unexplained.extend((ask_at <= now).then_some(pod));
            let ask_again = now.checked_add(ASK_AGAIN).unwrap_or(now);
            self.next_look = self.next_look.into_iter().chain([if ask_at > now { ask_at } else { ask_again }]).min();
        }
        let detail = trouble.clone().unwrap_or_default();
        self.unavailable.add(pod, &detail);
        let excused_until = in_place.and_then(|update| update.excused_until(self.deadline));
        let is_excused = excused_until.is_some_and(|until| until > now);
        if is_excused {
            self.next_look = self.next_look.into_iter().chain(excused_until).min();
        }
        // A pod of an older revision that is unavailable for other reasons, or has been for too long, does not count towards maxUnavailable: nothing
        // that this rollout does may ever make it available.
        let due_at = in_place.and_then(|update| update.due_at(self.deadline)).filter(|at| *at > now);
        let is_incomplete = due_at.is_some() && !(health.is_done && health.are_sidecars_ready);
        if is_incomplete && !is_updated {
            self.next_look = self.next_look.into_iter().chain(due_at).min();
        }
        // One whose hot upgrade the API server does not let be finished, or whose records cannot be read, would do so for ever.
        if !is_left_alone && (is_updated || is_incomplete || is_excused) {
            self.busy.add(pod, &detail);
            self.stuck += usize::from(trouble.is_some());
        }
        if !is_updated {
            return;
        }
        // A pod that became unready later than that has other reasons.
        let is_overdue = !is_excused && excused_until.is_some_and(|until| pod.ready_since.is_none_or(|it| it < until));
        if let Some(why) = trouble.or_else(|| is_overdue.then(|| "not ready since it was updated".to_owned())) {
            self.failing.add(pod, why);
            self.failing_in_place += usize::from(in_place.is_some());
        }
    }
}
