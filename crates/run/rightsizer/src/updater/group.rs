//! The pods of one workload in one namespace: what is done with them, one after the other.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use jiff::Timestamp;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler};
use pillion_informer::Outcome;
use pillion_pods::evict;
use pillion_rightsize::update::{
    Action, Brake, Budgets, EvictReason, Pass, Planned, RateLimit, Replicas, Rules, SkipEvent, SkipReason, Snapshot,
    Step,
};
use pillion_rightsize::{
    ContainerTarget, LimitRanges, Owner, PodView, Unboost, annotation_removal_patch, controlling, running_targets,
    target_of, without_containers,
};
use tokio::time::{Instant, timeout_at};

use super::answers::{forbidden_by_budget, is_beyond_node, is_not_served, is_passing, said};
use super::key::PodsKey;
use super::{FRESH, LOOKS, State, Updater, is_wanted};
use crate::admission_lease::Admission;
use crate::cluster::{Cluster, Followed, Targets};
use crate::metrics::{UpdateOutcome, Updated};
use crate::references;
use crate::resize::{patch_pod, resize};

/// The pods of one workload, and what is recommended for them.
struct Group<'k> {
    key: &'k PodsKey,
    autoscaler: VerticalPodAutoscaler,
    recommendation: Arc<RecommendedPodResources>,
    ranges: LimitRanges,
    /// Those with a node.
    pods: Vec<PodView>,
    unbound: Vec<PodView>,
    now: Timestamp,
    /// When it is the turn of others.
    until: Instant,
}

impl Group<'_> {
    fn everyone(&self) -> Vec<PodView> {
        self.pods.iter().chain(&self.unbound).cloned().collect()
    }
}

/// What has become of the steps of a group.
#[derive(Default)]
struct Steps {
    has_progressed: bool,
    /// The pods that could not be updated for a reason that may be over in a moment.
    failed: BTreeSet<usize>,
    /// By pod, what the API server said.
    refusals: HashMap<usize, String>,
}

impl Updater<'_> {
    /// Updates the pods of a workload for one interval at most. Returns `None` where they have to wait for their turn.
    pub(super) async fn update_pods(&self, key: &PodsKey) -> Option<Outcome> {
        if !self.may_update() {
            return Some(Outcome::Done(None));
        }
        let pause = self.config.updater_interval / LOOKS;
        let is_awaiting = self.lock().groups.get(key).is_some_and(|done| done.is_awaiting);
        let Some(group) = self.group(key) else { return Some(Outcome::Done(None)) };
        let brake = self.look(&group);
        if is_awaiting {
            if brake.cause().is_none() && brake.awaited().next().is_some() {
                return Some(Outcome::Done(Some(pause)));
            }
            // The successor counts by now, and so do pods that others have created since.
            self.quotas.outdated(&key.namespace);
        }
        self.check_stop(&group.autoscaler);
        let steps = self.update_group(&group, &brake).await?;
        let failed = steps.failed.len();
        if failed > 0 {
            let pods = if failed == 1 { "pod" } else { "pods" };
            let error = format!("{failed} {pods} could not be updated");
            return Some(Outcome::Failed { error, has_progressed: steps.has_progressed });
        }
        let is_awaiting = self.lock().groups.get(key).is_some_and(|done| done.is_awaiting);
        let outcome = Outcome::Done(is_awaiting.then_some(pause));
        Some(if steps.has_progressed { outcome.and_pause(FRESH) } else { outcome })
    }

    /// The pods as they are now. `None` if no autoscaler controls them any more.
    fn group<'k>(&self, key: &'k PodsKey) -> Option<Group<'k>> {
        let known = self.known();
        let followed = known.pods.get(key)?;
        let autoscaler = self.controlling(&known.targets, key)?;
        let is_left_out = |name: &str| !followed.iter().all(|it| it.has(name) || !has(&it.pod.view, name));
        let autoscaler = without_containers(&autoscaler, is_left_out).into_owned();
        let (bound, unbound): (Vec<_>, Vec<_>) = followed.iter().partition(|it| it.pod.is_bound);
        let views = |followed: Vec<&Followed>| followed.iter().map(|it| it.pod.view.clone()).collect::<Vec<PodView>>();
        Some(Group {
            key,
            recommendation: Arc::new(autoscaler.status.recommendation.clone().unwrap_or_default()),
            autoscaler,
            ranges: self.cluster.limit_ranges(&key.namespace),
            pods: views(bound),
            unbound: views(unbound),
            now: (self.config.now)(),
            until: Instant::now() + self.config.updater_interval,
        })
    }

    /// The autoscaler that controls pods, as it is now.
    fn controlling(&self, targets: &Targets, key: &PodsKey) -> Option<Arc<VerticalPodAutoscaler>> {
        let autoscalers = targets.get(&*key.workload)?.iter().filter_map(|it| self.as_it_is_now(it));
        let autoscalers: Vec<_> = autoscalers.collect();
        let name = controlling(autoscalers.iter().map(AsRef::as_ref))?.name();
        autoscalers.iter().find(|autoscaler| autoscaler.name() == name).cloned()
    }

    /// An autoscaler, if it still targets the same and updates pods.
    fn as_it_is_now(&self, known: &VerticalPodAutoscaler) -> Option<Arc<VerticalPodAutoscaler>> {
        let view = self.cluster.autoscalers().get(known.namespace(), known.name())?;
        let is_meant = is_wanted(self.config, &view.0) && target_of(&view.0) == target_of(known);
        is_meant.then(|| Arc::clone(&view.0))
    }

    /// Looks whether evicted pods came back.
    fn look(&self, group: &Group<'_>) -> Brake {
        let (key, pods) = (group.key, group.everyone());
        let mut state = self.lock();
        let brake = state.brakes.of(&group.autoscaler, &key.namespace);
        let replicas = replicas_of(self.cluster, &key.namespace, brake.awaited());
        brake.look(&pods, &replicas, group.now);
        brake.clone()
    }

    /// Updates the pods of a group until its time is over. `None` if another group of the namespace has its turn.
    async fn update_group(&self, group: &Group<'_>, brake: &Brake) -> Option<Steps> {
        let Group { key, autoscaler, ranges, pods, unbound, now, .. } = group;
        let replicas = replicas_of(self.cluster, &key.namespace, pods.iter().filter_map(|pod| pod.owner.as_ref()));
        let (infeasible, disrupted, is_admitted) = {
            let mut state = self.lock();
            state.infeasible.look(pods, &group.recommendation);
            let disrupted = state.groups.get(key).map(|done| done.disrupted.clone()).unwrap_or_default();
            // That upstream's webhook leaves some namespaces out is not known here.
            let is_admitted =
                state.admission == Admission::Others || !self.config.not_admitted.contains(&*key.namespace);
            (state.infeasible.of(pods), disrupted, is_admitted)
        };
        let (no_rules, budgets) = (Rules::default(), Budgets::new());
        let snapshot = Snapshot {
            autoscaler,
            pods,
            replicas: &replicas,
            ranges,
            infeasible: &infeasible,
            serves_resize: self.serves_resize.load(Ordering::Relaxed),
            is_admitted,
            unbound,
            brake,
            rules: &no_rules,
            disrupted: &disrupted,
            budgets: &budgets,
        };
        let mut pass = Pass::new(snapshot, &self.config.updater, self.config.gates, *now);
        let turn = if pass.may_evict() { Some(self.quotas.turn(&self.config.client, key).await?) } else { None };
        let rules = turn.as_ref().map(|turn| {
            let quotas = &turn.reading;
            self.cluster.rules(&key.namespace, &quotas.last).with_earlier(&quotas.first, &quotas.planned)
        });
        let rules = rules.unwrap_or_default();
        pass.with_rules(&rules);
        let mut steps = Steps::default();
        self.take_steps(group, &mut pass, &mut steps).await;
        let awaits = |(_, reason): &(usize, SkipReason)| *reason == SkipReason::AwaitsSuccessor;
        let awaits = steps.failed.is_empty() && pass.skipped().iter().any(awaits);
        {
            let State { brakes, groups, .. } = &mut *self.lock();
            let is_awaited = brakes.of(autoscaler, &key.namespace).awaited().next().is_some();
            groups.entry((*key).clone()).or_default().is_awaiting = awaits && is_awaited;
        }
        self.report(group, pass.skipped());
        Some(steps)
    }

    /// Takes one step after the other, while there is time and the autoscaler wants it.
    async fn take_steps(&self, group: &Group<'_>, pass: &mut Pass<'_>, steps: &mut Steps) {
        while Instant::now() < group.until
            && let Some(step) = pass.next_step()
        {
            let Some(pod) = group.pods.get(step.pod) else { continue };
            let is_eviction = matches!(step.action, Action::Evict(_));
            let limit = if is_eviction { &self.evictions } else { &self.resizes };
            if !self.is_allowed(limit, group.until).await {
                pass.out_of_time(&step);
                break;
            }
            if !self.may_update() || !self.wants_the_same(&group.autoscaler) {
                break;
            }
            match self.execute(group, pod, &step, steps.refusals.get(&step.pod)).await {
                Ok(()) => {
                    steps.has_progressed = true;
                    steps.failed.remove(&step.pod);
                    self.done(group, pod, &step);
                }
                Err(error) => self.failed(group, pod, &step, &error, (&mut *pass, &mut *steps)),
            }
        }
    }

    /// Waits until one more update is allowed. Those who wait get their updates in turn. Returns whether that was in time.
    async fn is_allowed(&self, limit: &tokio::sync::Mutex<RateLimit>, until: Instant) -> bool {
        let acquired = timeout_at(until, async {
            let mut limit = limit.lock().await;
            while let Err(pause) = limit.acquire((self.config.now)()) {
                tokio::time::sleep(pause.try_into().unwrap_or_default()).await;
            }
        });
        acquired.await.is_ok()
    }

    /// Whether an autoscaler still targets the same, and updates it in the same way.
    fn wants_the_same(&self, autoscaler: &VerticalPodAutoscaler) -> bool {
        self.as_it_is_now(autoscaler).is_some_and(|now| now.update_mode() == autoscaler.update_mode())
    }

    fn done(&self, group: &Group<'_>, pod: &PodView, step: &Step) {
        let Group { key, autoscaler, .. } = group;
        match step.action {
            Action::Evict(_) => {
                let targets = running_targets(autoscaler, pod, &group.ranges, self.config.gates);
                self.quotas.evicted(&key.namespace, &Planned::of(pod, &targets));
                let State { brakes, groups, .. } = &mut *self.lock();
                brakes.of(autoscaler, &key.namespace).evicted(pod, &targets, &group.everyone(), group.now);
                if let Some(owner) = pod.owner.as_ref().filter(|_| !pod.is_pending) {
                    let done = groups.entry((*key).clone()).or_default();
                    *done.disrupted.entry(owner.clone()).or_default() += 1;
                }
            }
            Action::Resize(_) => self.lock().infeasible.sent(pod, &group.recommendation, group.now),
            Action::Unboost(_) => {}
        }
    }

    fn failed(
        &self,
        group: &Group<'_>,
        pod: &PodView,
        step: &Step,
        error: &kube::Error,
        (pass, steps): (&mut Pass<'_>, &mut Steps),
    ) {
        let (name, namespace) = (&pod.name, &pod.namespace);
        tracing::warn!(pod = name, namespace, %error, "a pod could not be updated");
        if is_beyond_node(error) {
            self.lock().infeasible.refused(pod, &group.recommendation);
        }
        if is_passing(error) {
            steps.failed.insert(step.pod);
        }
        steps.refusals.insert(step.pod, said(error));
        if matches!(step.action, Action::Resize(_)) && is_not_served(error, pod) {
            self.serves_resize.store(false, Ordering::Relaxed);
            pass.not_served(step);
        } else if matches!(step.action, Action::Evict(_))
            && let Some(budget) = forbidden_by_budget(error)
        {
            pass.refused(step, SkipReason::DisruptionBudget(budget));
        } else {
            pass.failed(step);
        }
    }

    /// Says why pods were left alone.
    fn report(&self, group: &Group<'_>, skipped: &[(usize, SkipReason)]) {
        let Group { autoscaler, pods, now, .. } = group;
        for (pod, reason) in skipped {
            if matches!(reason, SkipReason::Stopped(_)) {
                self.config.metrics.updated(Updated::Evict, UpdateOutcome::Stopped);
            }
            if let Some(pod) = pods.get(*pod) {
                tracing::debug!(pod = pod.name, namespace = pod.namespace, %reason, "a pod is left alone");
            }
        }
        let events = self.lock().skips.report(autoscaler, pods, skipped, *now);
        for SkipEvent { pod, reason, text } in events {
            let about = match pod.and_then(|pod| pods.get(pod)) {
                Some(pod) => references::pod_reference(pod),
                None => references::of_autoscaler(autoscaler),
            };
            self.recorder.normal(&about, reason, text);
        }
    }

    /// Does one step. What the API server said of a resize is the reason of an eviction in its place.
    async fn execute(
        &self,
        group: &Group<'_>,
        pod: &PodView,
        step: &Step,
        refusal: Option<&String>,
    ) -> Result<(), kube::Error> {
        let autoscaler = &group.autoscaler;
        let (action, done) = match &step.action {
            Action::Resize(targets) => (Updated::Resize, self.resize(autoscaler, pod, targets).await),
            Action::Unboost(ended) => (Updated::Unboost, self.unboost(pod, ended).await),
            Action::Evict(reason) => {
                let reason = match (reason, refusal) {
                    (EvictReason::ResizeFailed, Some(refusal)) => format!("{reason}: {refusal}"),
                    _ => reason.to_string(),
                };
                (Updated::Evict, self.evict(autoscaler, pod, &reason).await)
            }
        };
        let outcome = if done.is_ok() { UpdateOutcome::Done } else { UpdateOutcome::Failed };
        self.config.metrics.updated(action, outcome);
        done
    }

    async fn resize(
        &self,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        targets: &[ContainerTarget],
    ) -> Result<(), kube::Error> {
        resize(&self.config.client, pod, targets).await?;
        let containers: Vec<&str> = targets.iter().map(|target| target.container.as_str()).collect();
        let text =
            format!("resized {} as VerticalPodAutoscaler {} recommends", containers.join(", "), autoscaler.name());
        self.recorder.normal(&references::pod_reference(pod), "InPlaceResizedByVPA", text);
        Ok(())
    }

    async fn unboost(&self, pod: &PodView, ended: &Unboost) -> Result<(), kube::Error> {
        resize(&self.config.client, pod, &ended.targets).await?;
        patch_pod(&self.config.client, pod, None, &annotation_removal_patch(&ended.annotations)).await
    }

    async fn evict(&self, autoscaler: &VerticalPodAutoscaler, pod: &PodView, reason: &str) -> Result<(), kube::Error> {
        let client = self.config.evicting.as_ref().unwrap_or(&self.config.client);
        evict(client, &pod.namespace, &pod.name, &pod.uid).await?;
        let text = format!("evicted for VerticalPodAutoscaler {}: {reason}", autoscaler.name());
        self.recorder.normal(&references::pod_reference(pod), "EvictedByVPA", text);
        Ok(())
    }
}

/// How many replicas controllers want, as far as they say so.
fn replicas_of<'a>(cluster: &Cluster, namespace: &str, owners: impl Iterator<Item = &'a Owner>) -> Replicas {
    let known = |owner: &Owner| Some((owner.clone(), cluster.owners().replicas(namespace, owner)?));
    owners.filter_map(known).collect()
}

fn has(pod: &PodView, container: &str) -> bool {
    pod.containers.iter().any(|it| it.name == container)
}
