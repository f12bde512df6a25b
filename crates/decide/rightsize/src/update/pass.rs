//! One pass over the pods of an autoscaler: one step after the other, each within what the earlier ones left of the budget.

use std::collections::{BTreeMap, HashMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use pillion_api::vpa::{Gates, RecommendedPodResources, UpdateMode, VerticalPodAutoscaler};

use super::brake::Brake;
use super::budgets::Budgets;
use super::group::{Disrupted, Group, Groups, Replicas};
use super::in_place::{self, InPlace};
use super::priority::Priority;
use super::qos;
use super::reason::{EvictReason, SkipReason};
use super::requirements;
use super::rules::{Planned, Rules};
use super::settings::UpdaterSettings;
use super::stop::StopCause;
use crate::boost::{Unboost, unboost};
use crate::limit_range::LimitRanges;
use crate::pod::{Owner, PodView};
use crate::target::{ContainerTarget, capped_recommendation, running_targets};

/// A pod that is older than this and not Ready is not the successor of an evicted one that still starts.
const YOUNG: SignedDuration = SignedDuration::from_hours(1);

/// Everything that a pass looks at.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    pub autoscaler: &'a VerticalPodAutoscaler,
    /// The pods that it controls: not ended, not being deleted, and bound to a node.
    pub pods: &'a [PodView],
    /// How many replicas their controllers want.
    pub replicas: &'a Replicas,
    /// The LimitRanges of the namespace.
    pub ranges: &'a LimitRanges,
    /// By the UID of a pod, the recommendation that its node could not do.
    pub infeasible: &'a HashMap<String, RecommendedPodResources>,
    /// Whether the API server serves `pods/resize`, as far as that is known.
    pub serves_resize: bool,
    /// Whether admission is called for new pods of their namespace.
    pub is_admitted: bool,
    /// The pods that it controls and that have no node yet.
    pub unbound: &'a [PodView],
    /// What is known of the pods that were evicted before.
    pub brake: &'a Brake,
    /// What the API server asks of new pods.
    pub rules: &'a Rules,
    /// How many pods were evicted in this pass already, before the pods were looked at again.
    pub disrupted: &'a Disrupted,
    /// The PodDisruptionBudgets that are known to forbid an eviction.
    pub budgets: &'a Budgets,
}

/// What to do with one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its place in the snapshot.
    pub pod: usize,
    /// What to do.
    pub action: Action,
}

/// What to do with a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// End its boost. It is never evicted for that.
    Unboost(Unboost),
    /// Resize these containers in place; the others have their targets already.
    Resize(Vec<ContainerTarget>),
    Evict(EvictReason),
}

/// A pass. [`Pass::next_step`] gives one step after the other; a step that could not be done is reported with [`Pass::failed`], so
/// that its place in the budget goes to another pod.
pub struct Pass<'a> {
    snapshot: Snapshot<'a>,
    settings: &'a UpdaterSettings,
    gates: Gates,
    now: Timestamp,
    groups: Groups,
    unboosts: VecDeque<usize>,
    /// Pods that are worth an update, in their order.
    candidates: VecDeque<usize>,
    evictions: VecDeque<(usize, EvictReason)>,
    skipped: Vec<(usize, SkipReason)>,
    /// The groups of which a pod was evicted in this pass as a canary, and the place of that pod.
    tried: BTreeMap<Owner, usize>,
    /// What the successors of the pods that were evicted in this pass request more.
    planned: Planned,
}

impl<'a> Pass<'a> {
    /// Looks at each pod once, and puts those that are worth an update in order.
    pub fn new(snapshot: Snapshot<'a>, settings: &'a UpdaterSettings, gates: Gates, now: Timestamp) -> Pass<'a> {
        let mut groups = Groups::new(snapshot.pods, snapshot.autoscaler, snapshot.replicas, settings, gates);
        groups.disrupted(snapshot.disrupted);
        let mut pass = Pass {
            snapshot,
            settings,
            gates,
            now,
            groups,
            unboosts: VecDeque::new(),
            candidates: VecDeque::new(),
            evictions: VecDeque::new(),
            skipped: Vec::new(),
            tried: BTreeMap::new(),
            planned: Planned::default(),
        };
        if gates.cpu_startup_boost {
            pass.unboosts = (0..snapshot.pods.len()).filter(|pod| !snapshot.pods[*pod].boosted.is_empty()).collect();
        }
        let mode = snapshot.autoscaler.update_mode();
        if mode.updates_running_pods() {
            pass.find_candidates(mode);
        }
        pass
    }

    fn find_candidates(&mut self, mode: &UpdateMode) {
        let mut found: Vec<(usize, Priority)> = Vec::new();
        for (index, pod) in self.snapshot.pods.iter().enumerate() {
            match self.priority(pod, mode) {
                Ok(priority) => found.push((index, priority)),
                Err(reason) => self.skipped.push((index, reason)),
            }
        }
        found.sort_by(|(_, a), (_, b)| a.order(b));
        let found = found.into_iter().map(|(pod, _)| pod);
        if mode.is_in_place() {
            self.candidates = found.collect();
        } else {
            self.evictions = found.map(|pod| (pod, EvictReason::Mode)).collect();
        }
    }

    fn priority(&self, pod: &PodView, mode: &UpdateMode) -> Result<Priority, SkipReason> {
        if *mode == UpdateMode::InPlace && !self.gates.in_place {
            return Err(SkipReason::GateOff);
        }
        if self.gates.cpu_startup_boost && !pod.boosted.is_empty() {
            return Err(SkipReason::Boosted);
        }
        // Admission leaves such a pod alone as well: its successor would be the same.
        if pod.has_pod_resources {
            return Err(SkipReason::PodResources);
        }
        self.groups.of(pod)?;
        let capped = self.capped(pod);
        if capped.container_recommendations.is_empty() {
            return Err(SkipReason::NoRecommendation);
        }
        let autoscaler = self.snapshot.autoscaler;
        let priority = Priority::of(pod, &capped, autoscaler, self.settings, self.gates, self.now);
        priority.check(pod, self.settings, self.now)?;
        let requirements =
            autoscaler.spec.update_policy.as_ref().map_or(&[][..], |policy| &policy.eviction_requirements);
        if !requirements::are_met(requirements, pod, &capped, self.gates) {
            return Err(SkipReason::EvictionRequirements);
        }
        if self.is_settled(pod) {
            return Err(SkipReason::NothingChanges);
        }
        Ok(priority)
    }

    /// Whether a pod has what its successor would have.
    ///
    /// A LimitRange bounds limits, and the request that fits one follows from the proportion of the two. The template has that proportion
    /// exactly, a running pod only rounded to whole units: then the outcome is known to a unit. Where a LimitRange of pods is split,
    /// containers without a recommendation were scaled with the others when the pod was created: then it is known to a unit for each
    /// container.
    fn is_settled(&self, pod: &PodView) -> bool {
        let ranges = self.snapshot.ranges;
        let slack =
            if ranges.pod.is_some() { pod.containers.len().max(1) } else { usize::from(ranges.container.is_some()) };
        let is_settled = |target: &ContainerTarget| {
            let container = pod.containers.iter().find(|container| container.name == target.container);
            container.is_some_and(|container| target.is_near(container, slack))
        };
        pod.resize == crate::pod::ResizeState::None && self.targets(pod).iter().all(is_settled)
    }

    /// Whether this pass may evict pods.
    pub fn may_evict(&self) -> bool {
        let falls_back = *self.snapshot.autoscaler.update_mode() == UpdateMode::InPlaceOrRecreate;
        !self.evictions.is_empty() || (falls_back && !self.candidates.is_empty())
    }

    /// What the API server asks of new pods, where that was read only for a pass that may evict.
    pub fn with_rules(&mut self, rules: &'a Rules) {
        self.snapshot.rules = rules;
    }

    /// The next step: boosts that are over first, then resizes, then evictions.
    pub fn next_step(&mut self) -> Option<Step> {
        while let Some(index) = self.unboosts.pop_front() {
            if let Some(action) = self.unboost(index) {
                return Some(Step { pod: index, action });
            }
        }
        while let Some(index) = self.candidates.pop_front() {
            if let Some(action) = self.resize(index) {
                return Some(Step { pod: index, action });
            }
        }
        while let Some((index, reason)) = self.evictions.pop_front() {
            match self.check_eviction(index) {
                Ok(()) => return Some(Step { pod: index, action: Action::Evict(reason) }),
                Err(reason) => self.skipped.push((index, reason)),
            }
        }
        None
    }

    /// A step could not be done. Where the mode allows it, a pod that could not be resized will be evicted.
    pub fn failed(&mut self, step: &Step) {
        let Some(pod) = self.snapshot.pods.get(step.pod) else { return };
        if !pod.is_pending {
            self.groups.change(pod, Group::give_back);
        }
        if matches!(step.action, Action::Evict(_)) {
            self.planned.add(&Planned::of(pod, &self.targets(pod)), -1);
            // Only if it was the canary: a pending pod goes without being one, and says nothing about the canary of its group.
            if let Some(owner) = pod.owner.as_ref().filter(|owner| self.tried.get(owner) == Some(&step.pod)) {
                self.tried.remove(owner);
            }
        }
        let falls_back = *self.snapshot.autoscaler.update_mode() == UpdateMode::InPlaceOrRecreate;
        if matches!(step.action, Action::Resize(_)) {
            match (falls_back, self.snapshot.serves_resize) {
                (true, true) => self.evictions.push_back((step.pod, EvictReason::ResizeFailed)),
                (true, false) => self.evictions.push_back((step.pod, EvictReason::NotServed)),
                (false, true) => {}
                (false, false) => self.skipped.push((step.pod, SkipReason::NotServed)),
            }
        }
    }

    /// A resize could not be done because the API server does not serve it; nor can it for the pods that follow.
    pub fn not_served(&mut self, step: &Step) {
        self.snapshot.serves_resize = false;
        self.failed(step);
    }

    /// A step could not be done for a reason that is known.
    pub fn refused(&mut self, step: &Step, reason: SkipReason) {
        self.failed(step);
        self.skipped.push((step.pod, reason));
    }

    /// There was no time left for a step, nor for those that follow.
    pub fn out_of_time(&mut self, step: &Step) {
        let evictions = self.evictions.drain(..).map(|(pod, _)| pod);
        let left = self.unboosts.drain(..).chain(self.candidates.drain(..)).chain(evictions);
        let left: Vec<usize> = std::iter::once(step.pod).chain(left).collect();
        self.skipped.extend(left.into_iter().map(|pod| (pod, SkipReason::RateLimit)));
    }

    /// The pods that were left alone so far, and why.
    pub fn skipped(&self) -> &[(usize, SkipReason)] {
        &self.skipped
    }

    fn unboost(&mut self, index: usize) -> Option<Action> {
        let pod = &self.snapshot.pods[index];
        let ended = unboost(self.snapshot.autoscaler, pod, self.snapshot.ranges, self.gates, self.now)?;
        let is_idle = !pod.is_pending && pod.resize == crate::pod::ResizeState::None;
        if !is_idle || !self.groups.of(pod).is_ok_and(|group| group.is_disruptable()) {
            self.skipped.push((index, if is_idle { SkipReason::Budget } else { SkipReason::Resizing }));
            return None;
        }
        self.groups.change(pod, Group::disrupt);
        Some(Action::Unboost(ended))
    }

    fn resize(&mut self, index: usize) -> Option<Action> {
        let pod = &self.snapshot.pods[index];
        let mode = self.snapshot.autoscaler.update_mode();
        let decision = match self.groups.of(pod) {
            Ok(_) if pod.is_pending && !pod.waits_for_killed_sidecar(self.gates) => InPlace::Skip(SkipReason::Pending),
            Ok(group) => {
                let recommendation = self.snapshot.autoscaler.status.recommendation.clone().unwrap_or_default();
                let infeasible = self.snapshot.infeasible.get(&pod.uid);
                in_place::decide(pod, &group, mode, &recommendation, infeasible, self.settings, self.now)
            }
            Err(reason) => InPlace::Skip(reason),
        };
        let targets = self.differing_targets(pod);
        let decision = match decision {
            InPlace::Resize if qos::changes_qos_class(pod, &targets) && *mode == UpdateMode::InPlace => {
                InPlace::Skip(SkipReason::QosClass)
            }
            InPlace::Resize if qos::changes_qos_class(pod, &targets) => InPlace::Evict(EvictReason::QosClass),
            InPlace::Resize if targets.is_empty() => InPlace::Skip(SkipReason::NothingChanges),
            InPlace::Resize if !self.snapshot.serves_resize && *mode == UpdateMode::InPlace => {
                InPlace::Skip(SkipReason::NotServed)
            }
            InPlace::Resize if !self.snapshot.serves_resize => InPlace::Evict(EvictReason::NotServed),
            decision => decision,
        };
        match decision {
            InPlace::Resize => {
                if !pod.is_pending {
                    self.groups.change(pod, Group::disrupt);
                }
                Some(Action::Resize(targets))
            }
            InPlace::Evict(reason) => {
                self.evictions.push_back((index, reason));
                None
            }
            InPlace::Skip(reason) => {
                self.skipped.push((index, reason));
                None
            }
        }
    }

    /// Pending pods serve no requests, so they need no budget.
    fn check_eviction(&mut self, index: usize) -> Result<(), SkipReason> {
        let pod = &self.snapshot.pods[index];
        // Its successor would request the same.
        if !self.snapshot.is_admitted {
            return Err(SkipReason::NotAdmitted);
        }
        let brake = self.snapshot.brake;
        let targets = self.targets(pod);
        if let Some(cause) = brake.cause()
            && !(cause == StopCause::NotReady && brake.may_retry(pod, &targets))
        {
            return Err(SkipReason::Stopped(cause));
        }
        let group = self.groups.of(pod)?;
        if let Some(answer) = self.snapshot.rules.refusal(pod, &targets, &self.planned) {
            return Err(SkipReason::Refused(answer));
        }
        if let Some(budget) = self.snapshot.budgets.get(&pod.uid) {
            return Err(SkipReason::DisruptionBudget(budget.clone()));
        }
        if !pod.is_pending {
            if group.is_below_minimum {
                return Err(SkipReason::TooFewReplicas);
            }
            if pod.resize != crate::pod::ResizeState::None && in_place::stuck(pod, self.settings, self.now).is_none() {
                return Err(SkipReason::Resizing);
            }
            if !group.is_disruptable() {
                return Err(SkipReason::Budget);
            }
        }
        // A pending pod may go beside a canary, but not while evictions are stopped.
        if !pod.is_pending || brake.cause().is_some() {
            self.check_canary(index, &targets)?;
        }
        if !pod.is_pending {
            self.groups.change(pod, Group::disrupt);
        }
        self.planned.add(&Planned::of(pod, &targets), 1);
        Ok(())
    }

    /// The first pod of a group goes alone: the others wait until its successor is back with the same recommendation. The successor itself
    /// does not wait if something else is recommended for it by now: it goes alone as the next canary.
    fn check_canary(&mut self, index: usize, targets: &[ContainerTarget]) -> Result<(), SkipReason> {
        let pod = &self.snapshot.pods[index];
        let owner = pod.owner.as_ref().ok_or(SkipReason::NoController)?;
        let brake = self.snapshot.brake;
        if brake.is_proven(owner, targets) {
            return Ok(());
        }
        let waits = !brake.may_retry(pod, targets) && (brake.is_awaited(owner) || self.has_starting_successor(owner));
        if waits || self.tried.contains_key(owner) {
            return Err(SkipReason::AwaitsSuccessor);
        }
        self.tried.insert(owner.clone(), index);
        Ok(())
    }

    /// Whether a young pod of a group has what is recommended, and is not Ready: the successor of a canary that was evicted before this
    /// program started.
    fn has_starting_successor(&self, owner: &Owner) -> bool {
        // No kubelet says of a pod without a node when it started.
        let since = |pod: &PodView| pod.start_time.or(pod.created);
        let is_young = |pod: &PodView| since(pod).is_none_or(|since| self.now.duration_since(since) < YOUNG);
        self.snapshot.pods.iter().chain(self.snapshot.unbound).any(|pod| {
            pod.owner.as_ref() == Some(owner) && pod.ready_since.is_none() && is_young(pod) && self.is_settled(pod)
        })
    }

    fn capped(&self, pod: &PodView) -> RecommendedPodResources {
        capped_recommendation(self.snapshot.autoscaler, pod, self.snapshot.ranges, self.gates).recommendation
    }

    fn targets(&self, pod: &PodView) -> Vec<ContainerTarget> {
        running_targets(self.snapshot.autoscaler, pod, self.snapshot.ranges, self.gates)
    }

    fn differing_targets(&self, pod: &PodView) -> Vec<ContainerTarget> {
        let differs = |target: &ContainerTarget| {
            let container = pod.containers.iter().find(|container| container.name == target.container);
            container.is_some_and(|container| target.differs(container))
        };
        self.targets(pod).into_iter().filter(differs).collect()
    }
}

#[cfg(test)]
mod tests;
