//! The updater: running pods are brought to what is recommended, in place or by eviction.

mod conditions;
mod quotas;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use pillion_api::vpa::VerticalPodAutoscaler;
use pillion_events::Recorder;
use pillion_rightsize::update::{
    Action, Brake, Budgets, Disrupted, EvictReason, Infeasible, Pass, Planned, RateLimit, Replicas, Rules, SkipReason,
    Skips, Snapshot, Step, stop_conditions, stopped,
};
use pillion_rightsize::{
    ContainerTarget, Owner, PodView, Unboost, Workload, annotation_removal_patch, controlling, is_refused,
    running_targets, target_of, without_containers,
};
use tokio::time::{Instant, MissedTickBehavior, interval};

use self::quotas::Quotas;
use crate::admission_lease::Admission;
use crate::cluster::{Cluster, Followed, Targets};
use crate::config::Config;
use crate::definition::defined;
use crate::metrics::{UpdateOutcome, Updated};
use crate::resize::{patch_pod, resize};
use crate::{admission_lease, references};

/// So often in one interval the updater looks whether the successor of an evicted pod is back.
const LOOKS: u32 = 12;

/// Updates pods until dropped.
pub async fn update(cluster: &Cluster, config: &Config) {
    defined(&config.client).await;
    cluster.synced().await;
    // Nobody's pods are read where there is nothing to update.
    cluster.any_autoscaler().await;
    let _pods = cluster.synced_with_pods().await;
    let now = config.now.clone();
    let start = now();
    let mut updater = Updater {
        cluster,
        config,
        recorder: Recorder::new(config.client.clone(), move || now(), "vpa-updater"),
        evictions: RateLimit::new(config.rate.evictions, config.rate.burst, start),
        resizes: RateLimit::new(config.rate.resizes, config.rate.burst, start),
        brakes: HashMap::new(),
        infeasible: Infeasible::default(),
        skips: Skips::default(),
        quotas: Quotas::default(),
        evicted: HashMap::new(),
        awaiting: Vec::new(),
        is_waiting: false,
        admission: Admission::Ours,
        last: None,
        serves_resize: true,
    };
    let mut passes = interval(config.updater_interval);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        cluster.any_autoscaler().await;
        passes.tick().await;
        let start = Instant::now();
        updater.pass(start + config.updater_interval).await;
        config.metrics.passed("updater", start.elapsed());
        updater.follow_canaries(start + config.updater_interval).await;
    }
}

struct Updater<'a> {
    cluster: &'a Cluster,
    config: &'a Config,
    recorder: Recorder,
    evictions: RateLimit,
    resizes: RateLimit,
    /// By autoscaler, and the namespace of the pods.
    brakes: HashMap<(String, String, String), Brake>,
    infeasible: Infeasible,
    skips: Skips,
    quotas: Quotas,
    /// How many pods were evicted in this pass.
    evicted: HashMap<PodsKey, Disrupted>,
    /// The pods of which some wait until the successor of the first one that was evicted is back.
    awaiting: Vec<PodsKey>,
    /// Whether the log says that there is no admission controller.
    is_waiting: bool,
    /// Whose webhook sizes new pods.
    admission: Admission,
    /// The last pods that were looked at in a pass that ran out of time: the next one goes on after them.
    last: Option<PodsKey>,
    /// Whether the API server serves `pods/resize`, as far as this pass knows.
    serves_resize: bool,
}

/// The pods of a workload, and their namespace: a SidecarSet is injected into pods of many, and budgets and LimitRanges are those of each.
type PodsKey = (Arc<Workload>, String);

impl Drop for Updater<'_> {
    /// Another replica may lead now, and its numbers are the ones that count.
    fn drop(&mut self) {
        self.config.metrics.stopped(0);
    }
}

impl Updater<'_> {
    /// Looks at every autoscaler once. A pass takes one interval at most: what is recommended, the mode and the Lease of the admission
    /// controller are looked at again before it goes on.
    async fn pass(&mut self, until: Instant) {
        self.evicted.clear();
        self.awaiting.clear();
        self.quotas.forget();
        let targets = self.targets();
        let known: HashSet<(String, String)> = targets.values().flatten().map(|it| key(it)).collect();
        self.brakes.retain(|(namespace, name, _), _| known.contains(&(namespace.clone(), name.clone())));
        self.forget_stops().await;
        if targets.is_empty() || (self.config.needs_admission && !self.is_admission_alive().await) {
            return;
        }
        let pods = self.pods_of(&targets);
        let now = (self.config.now)();
        let views: HashMap<&str, &PodView> =
            pods.values().flatten().map(|it| (it.pod.view.uid.as_str(), &it.pod.view)).collect();
        self.infeasible.retain(&views, now);
        let autoscalers = targets.values().flatten();
        let uids: HashSet<&str> = autoscalers.filter_map(|it| it.metadata.uid.as_deref()).collect();
        self.skips.retain(|uid| views.contains_key(uid) || uids.contains(uid));
        self.serves_resize = true;
        let last = self.last.take();
        let is_later = |key: &PodsKey| last.as_ref().is_none_or(|last| key > last);
        let (later, earlier): (Vec<_>, Vec<_>) = pods.iter().partition(|(key, _)| is_later(key));
        let mut is_late = false;
        for (key, followed) in later.into_iter().chain(earlier) {
            is_late = Instant::now() >= until;
            if is_late {
                break;
            }
            self.last = Some(key.clone());
            self.update_pods(&targets, key, followed, until).await;
        }
        if !is_late {
            self.last = None;
        }
        self.config.metrics.stopped(self.brakes.values().filter(|brake| brake.cause().is_some()).count());
    }

    /// Takes back what an earlier pass wrote about autoscalers that have been switched off since.
    async fn forget_stops(&self) {
        for view in self.cluster.autoscalers().list() {
            let autoscaler = &view.0;
            if stopped(autoscaler).is_some()
                && !autoscaler.update_mode().updates_running_pods()
                && self.config.namespaces.has(autoscaler.namespace())
            {
                self.say_whether_stopped(autoscaler, (self.config.now)()).await;
            }
        }
    }

    /// Goes on with the pods that wait for a successor as soon as it is back, within the same interval.
    async fn follow_canaries(&mut self, until: Instant) {
        let pause = self.config.updater_interval / LOOKS;
        while !self.awaiting.is_empty() && Instant::now() + pause < until {
            tokio::time::sleep(pause).await;
            let targets = self.targets();
            let mut pods = self.pods_of(&targets);
            for key in std::mem::take(&mut self.awaiting) {
                let followed = pods.remove(&key).unwrap_or_default();
                if self.is_awaited(&targets, &key, &followed) {
                    self.awaiting.push(key);
                } else {
                    // The successor counts by now, and so do pods that others have created since.
                    self.quotas.outdated(&key.1);
                    self.update_pods(&targets, &key, &followed, until).await;
                }
            }
        }
    }

    /// Whether the successor of a canary is still not back.
    fn is_awaited(&mut self, targets: &Targets, key: &PodsKey, followed: &[Followed]) -> bool {
        let Some(autoscaler) = self.controlling(targets, key) else { return false };
        let pods: Vec<PodView> = followed.iter().map(|it| it.pod.view.clone()).collect();
        let brake = self.look(&autoscaler, &key.1, &pods);
        brake.cause().is_none() && brake.awaited().next().is_some()
    }

    /// The autoscalers that have anything for the updater to do.
    fn targets(&self) -> Targets {
        self.cluster.targets(self.config, |autoscaler| is_wanted(self.config, autoscaler))
    }

    /// The pods of autoscalers that run or start. An entry without any is left where pods were evicted and are not back.
    fn pods_of(&self, targets: &Targets) -> BTreeMap<PodsKey, Vec<Followed>> {
        let mut pods: BTreeMap<PodsKey, Vec<Followed>> = BTreeMap::new();
        for followed in self.cluster.pods_of(targets, self.config) {
            let pod = &followed.pod;
            if !pod.has_ended && !pod.is_being_deleted {
                let key = (Arc::clone(&followed.workload), pod.view.namespace.clone());
                pods.entry(key).or_default().push(followed);
            }
        }
        for ((of, name, namespace), brake) in &self.brakes {
            if brake.awaited().next().is_none() {
                continue;
            }
            let is_of =
                |autoscaler: &Arc<VerticalPodAutoscaler>| autoscaler.namespace() == of && autoscaler.name() == name;
            for (workload, _) in targets.iter().filter(|(_, autoscalers)| autoscalers.iter().any(is_of)) {
                pods.entry((Arc::new(workload.clone()), namespace.clone())).or_default();
            }
        }
        pods
    }

    /// The autoscaler that controls pods, as it is now.
    fn controlling(&self, targets: &Targets, key: &PodsKey) -> Option<Arc<VerticalPodAutoscaler>> {
        let autoscalers = targets.get(key.0.as_ref())?.iter().filter_map(|it| self.as_it_is_now(it));
        let autoscalers: Vec<_> = autoscalers.collect();
        let name = controlling(autoscalers.iter().map(AsRef::as_ref))?.name();
        autoscalers.iter().find(|autoscaler| autoscaler.name() == name).cloned()
    }

    async fn update_pods(&mut self, targets: &Targets, key: &PodsKey, followed: &[Followed], until: Instant) {
        let Some(autoscaler) = self.controlling(targets, key) else { return };
        let is_left_out = |name: &str| !followed.iter().all(|it| it.has(name) || !has(&it.pod.view, name));
        let autoscaler = without_containers(&autoscaler, is_left_out);
        let (bound, unbound): (Vec<_>, Vec<_>) = followed.iter().partition(|it| it.pod.is_bound);
        let views = |followed: Vec<&Followed>| followed.iter().map(|it| it.pod.view.clone()).collect::<Vec<PodView>>();
        self.update(&autoscaler, key, &views(bound), &views(unbound), until).await;
    }

    /// Looks whether evicted pods came back.
    fn look(&mut self, autoscaler: &VerticalPodAutoscaler, namespace: &str, pods: &[PodView]) -> &mut Brake {
        let now = (self.config.now)();
        let brake = self.brakes.entry(brake_key(autoscaler, namespace)).or_insert_with(|| Brake::of(autoscaler));
        let replicas = replicas_of(self.cluster, namespace, brake.awaited());
        brake.look(pods, &replicas, now);
        brake
    }

    /// An autoscaler, if it still targets the same and updates pods.
    fn as_it_is_now(&self, known: &VerticalPodAutoscaler) -> Option<Arc<VerticalPodAutoscaler>> {
        let view = self.cluster.autoscalers().get(known.namespace(), known.name())?;
        let is_meant = is_wanted(self.config, &view.0) && target_of(&view.0) == target_of(known);
        is_meant.then(|| Arc::clone(&view.0))
    }

    async fn is_admission_alive(&mut self) -> bool {
        let (lease, timeout) = (&self.config.admission_lease, self.config.admission_lease_timeout);
        let alive = match admission_lease::alive(&self.config.client, lease, timeout, (self.config.now)()).await {
            Ok(alive) => alive,
            Err(error) => {
                tracing::warn!(%error, "cannot read whether an admission controller is alive");
                return false;
            }
        };
        if alive.is_none() && !self.is_waiting {
            tracing::warn!(
                lease = lease.name,
                namespace = lease.namespace,
                "no admission controller renews its Lease: evicted pods would come back as they were"
            );
        }
        self.is_waiting = alive.is_none();
        self.admission = alive.unwrap_or(self.admission);
        alive.is_some()
    }

    /// Whether new pods of a namespace are sized. That upstream's webhook leaves some out is not known here.
    fn is_admitted(&self, namespace: &str) -> bool {
        self.admission == Admission::Others || !self.config.not_admitted.contains(namespace)
    }

    /// Updates the pods of one autoscaler, until it is time for the next pass.
    async fn update(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        key: &PodsKey,
        pods: &[PodView],
        unbound: &[PodView],
        until: Instant,
    ) {
        let now = (self.config.now)();
        let namespace = key.1.as_str();
        let everyone: Vec<PodView> = pods.iter().chain(unbound).cloned().collect();
        let brake = self.look(autoscaler, namespace, &everyone).clone();
        self.say_whether_stopped(autoscaler, now).await;
        let replicas = replicas_of(self.cluster, namespace, pods.iter().filter_map(|pod| pod.owner.as_ref()));
        let recommendation = Arc::new(autoscaler.status.recommendation.clone().unwrap_or_default());
        self.infeasible.look(pods, &recommendation);
        let ranges = self.cluster.limit_ranges(namespace);
        let infeasible = self.infeasible.of(pods);
        let disrupted = self.evicted.get(key).cloned().unwrap_or_default();
        let (no_rules, budgets) = (Rules::default(), Budgets::new());
        let snapshot = Snapshot {
            autoscaler,
            pods,
            replicas: &replicas,
            ranges: &ranges,
            infeasible: &infeasible,
            serves_resize: self.serves_resize,
            is_admitted: self.is_admitted(namespace),
            unbound,
            brake: &brake,
            rules: &no_rules,
            disrupted: &disrupted,
            budgets: &budgets,
        };
        let mut pass = Pass::new(snapshot, &self.config.updater, self.config.gates, now);
        let rules = if pass.may_evict() {
            let quotas = self.quotas.of(&self.config.client, namespace).await;
            self.cluster.rules(namespace, &quotas.last).with_earlier(&quotas.first, &quotas.planned)
        } else {
            Rules::default()
        };
        pass.with_rules(&rules);
        let mut refusals: HashMap<usize, String> = HashMap::new();
        let mut evicted = Vec::new();
        while Instant::now() < until
            && let Some(step) = pass.next_step()
        {
            let Some(pod) = pods.get(step.pod) else { continue };
            let is_eviction = matches!(step.action, Action::Evict(_));
            let limit = if is_eviction { &mut self.evictions } else { &mut self.resizes };
            if !wait(limit, self.config, until).await {
                pass.out_of_time(&step);
                break;
            }
            let done = self.execute(autoscaler, pod, &step, refusals.get(&step.pod)).await;
            let Err(error) = done else {
                if is_eviction {
                    evicted.push(pod);
                } else if matches!(step.action, Action::Resize(_)) {
                    self.infeasible.sent(pod, &recommendation, now);
                }
                continue;
            };
            let (name, namespace) = (&pod.name, &pod.namespace);
            tracing::warn!(pod = name, namespace, %error, "a pod could not be updated");
            if is_beyond_node(&error) {
                self.infeasible.refused(pod, &recommendation);
            }
            refusals.insert(step.pod, said(&error));
            if matches!(step.action, Action::Resize(_)) && is_not_served(&error, pod) {
                self.serves_resize = false;
                pass.not_served(&step);
            } else if is_eviction && let Some(budget) = forbidden_by_budget(&error) {
                pass.refused(&step, SkipReason::DisruptionBudget(budget));
            } else {
                pass.failed(&step);
            }
        }
        let brake = self.brakes.entry(brake_key(autoscaler, namespace)).or_default();
        let disrupted = self.evicted.entry(key.clone()).or_default();
        for pod in evicted {
            let targets = running_targets(autoscaler, pod, &ranges, self.config.gates);
            brake.evicted(pod, &targets, &everyone, now);
            self.quotas.evicted(namespace, &Planned::of(pod, &targets));
            if let Some(owner) = pod.owner.as_ref().filter(|_| !pod.is_pending) {
                *disrupted.entry(owner.clone()).or_default() += 1;
            }
        }
        let skipped = pass.skipped();
        if brake.awaited().next().is_some() && skipped.iter().any(|(_, reason)| *reason == SkipReason::AwaitsSuccessor)
        {
            self.awaiting.push(key.clone());
        }
        self.report(autoscaler, pods, skipped, now);
    }

    /// Says why pods were left alone.
    fn report(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pods: &[PodView],
        skipped: &[(usize, SkipReason)],
        now: Timestamp,
    ) {
        for (pod, reason) in skipped {
            if matches!(reason, SkipReason::Stopped(_)) {
                self.config.metrics.updated(Updated::Evict, UpdateOutcome::Stopped);
            }
            if let Some(pod) = pods.get(*pod) {
                tracing::debug!(pod = pod.name, namespace = pod.namespace, %reason, "a pod is left alone");
            }
        }
        for event in self.skips.report(autoscaler, pods, skipped, now) {
            let pod = event.pod.and_then(|pod| pods.get(pod));
            let about = pod.map_or_else(|| references::of_autoscaler(autoscaler), references::pod_reference);
            self.recorder.normal(&about, event.reason, event.text);
        }
    }

    /// Writes a condition when evictions for an autoscaler are stopped, or go on, and an event when they are stopped.
    async fn say_whether_stopped(&self, autoscaler: &VerticalPodAutoscaler, now: Timestamp) {
        let is_of =
            |(of, name, _): &(String, String, String)| of == autoscaler.namespace() && name == autoscaler.name();
        let cause = self.brakes.iter().filter(|(key, _)| is_of(key)).find_map(|(_, brake)| brake.cause());
        if stop_conditions(&autoscaler.status.conditions, cause, now).is_none() {
            return;
        }
        match conditions::write(&self.config.client, autoscaler, cause, now).await {
            Ok(Some(written)) => {
                self.cluster.autoscalers().written(written);
                if let Some(cause) = cause {
                    let text = cause.to_string();
                    tracing::warn!(autoscaler = autoscaler.name(), namespace = autoscaler.namespace(), text);
                    self.recorder.warning(&references::of_autoscaler(autoscaler), "EvictionsStopped", text);
                }
            }
            Ok(None) => {}
            Err(error) => {
                let (name, namespace) = (autoscaler.name(), autoscaler.namespace());
                tracing::warn!(autoscaler = name, namespace, %error, "cannot write whether evictions are stopped");
            }
        }
    }

    /// Does one step. What the API server said of a resize is the reason of an eviction in its place.
    async fn execute(
        &self,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        step: &Step,
        refusal: Option<&String>,
    ) -> Result<(), kube::Error> {
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
        let api: Api<KubePod> = Api::namespaced(client.clone(), &pod.namespace);
        let this_one = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let delete = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
        let parameters = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
        api.evict(&pod.name, &parameters).await?;
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

/// Whether an autoscaler has anything for the updater to do.
fn is_wanted(config: &Config, autoscaler: &VerticalPodAutoscaler) -> bool {
    let boosts = config.gates.cpu_startup_boost && autoscaler.has_cpu_boost();
    (autoscaler.update_mode().updates_running_pods() || boosts) && !is_refused(autoscaler)
}

/// Waits until one more update is allowed. Returns whether that was in time.
async fn wait(limit: &mut RateLimit, config: &Config, until: Instant) -> bool {
    while let Err(pause) = limit.acquire((config.now)()) {
        let allowed = Instant::now() + pause.try_into().unwrap_or_default();
        tokio::time::sleep_until(allowed.min(until)).await;
        if allowed > until {
            return false;
        }
    }
    true
}

/// Whether the API server does not know the subresource. That a pod is gone, it says with the name of the pod.
fn is_not_served(error: &kube::Error, pod: &PodView) -> bool {
    let kube::Error::Api(status) = error else { return false };
    status.code == 404 && status.details.as_ref().is_none_or(|details| details.name != pod.name)
}

/// What the API server said.
fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        error => error.to_string(),
    }
}

/// What the API server says of the PodDisruptionBudget that forbids an eviction.
fn forbidden_by_budget(error: &kube::Error) -> Option<String> {
    let kube::Error::Api(status) = error else { return None };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    let cause = causes.iter().find(|cause| cause.reason == "DisruptionBudget").filter(|_| status.code == 429)?;
    Some(cause.message.clone())
}

/// Whether the API server says that the node can never do the resize (Kubernetes 1.36 and later).
fn is_beyond_node(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.as_ref().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code == 403 && causes.iter().any(|cause| cause.reason == "NodeCapacity")
}

fn has(pod: &PodView, container: &str) -> bool {
    pod.containers.iter().any(|it| it.name == container)
}

fn brake_key(autoscaler: &VerticalPodAutoscaler, namespace: &str) -> (String, String, String) {
    let (of, name) = key(autoscaler);
    (of, name, namespace.to_owned())
}

fn key(autoscaler: &VerticalPodAutoscaler) -> (String, String) {
    (autoscaler.namespace().to_owned(), autoscaler.name().to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_refusal_for_the_capacity_of_the_node_is_beyond_it() {
        let refused = |code: u16, reason: &str, causes: &[&str]| {
            let causes: Vec<serde_json::Value> = causes.iter().map(|cause| json!({"reason": cause})).collect();
            let status = json!({
                "status": "Failure", "code": code, "reason": reason, "message": "no", "details": {"causes": causes},
            });
            kube::Error::Api(serde_json::from_value(status).unwrap())
        };
        assert!(is_beyond_node(&refused(403, "Forbidden", &["NodeCapacity"])));
        assert!(is_beyond_node(&refused(403, "Forbidden", &["Other", "NodeCapacity"])));
        assert!(!is_beyond_node(&refused(403, "Forbidden", &["Other"])));
        assert!(!is_beyond_node(&refused(403, "Forbidden", &[])));
        assert!(!is_beyond_node(&refused(422, "Invalid", &["NodeCapacity"])));
        assert!(!is_beyond_node(&kube::Error::LinesCodecMaxLineLengthExceeded));
    }
}
