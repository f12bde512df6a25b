//! The updater: running pods are brought to what is recommended, in place or by eviction.

use std::collections::{BTreeMap, HashMap, HashSet};

use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::Api;
use kube::api::{DeleteParams, EvictParams, Preconditions};
use kube::core::ApiResource;
use pillion_api::vpa::{RecommendedPodResources, VerticalPodAutoscaler};
use pillion_events::Recorder;
use pillion_rightsize::update::{Action, Brake, EvictReason, Pass, RateLimit, Replicas, Snapshot, Step};
use pillion_rightsize::{
    ContainerTarget, PodView, ResizeState, Unboost, Workload, annotation_removal_patch, controlling, resource_patch,
    without_containers,
};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::admission_lease;
use crate::cluster::{Cluster, Followed};
use crate::config::Config;
use crate::definition::defined;
use crate::metrics::{UpdateOutcome, Updated};
use crate::{references, requests};

/// Updates pods until dropped.
pub async fn update(cluster: &Cluster, config: &Config) {
    defined(&config.client).await;
    cluster.synced_with_pods().await;
    let now = config.now.clone();
    let start = now();
    let mut updater = Updater {
        cluster,
        config,
        recorder: Recorder::new(config.client.clone(), move || now(), "vpa-updater"),
        evictions: RateLimit::new(config.rate.evictions, config.rate.burst, start),
        resizes: RateLimit::new(config.rate.resizes, config.rate.burst, start),
        brakes: HashMap::new(),
        infeasible: HashMap::new(),
        is_waiting: false,
    };
    let mut passes = interval(config.updater_interval);
    passes.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        cluster.any_autoscaler().await;
        passes.tick().await;
        let start = Instant::now();
        updater.pass().await;
        config.metrics.passed("updater", start.elapsed());
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
    /// By the UID of a pod, the recommendation that its node could not do.
    infeasible: HashMap<String, RecommendedPodResources>,
    /// Whether the log says that there is no admission controller.
    is_waiting: bool,
}

impl Updater<'_> {
    async fn pass(&mut self) {
        let boosts = self.config.gates.cpu_startup_boost;
        let targets = self.cluster.targets(self.config, |autoscaler| {
            autoscaler.update_mode().updates_running_pods() || (boosts && autoscaler.has_cpu_boost())
        });
        if targets.is_empty() || (self.config.needs_admission && !self.is_admission_alive().await) {
            return;
        }
        // A SidecarSet is injected into pods of many namespaces: budgets and LimitRanges are those of each.
        let mut pods: BTreeMap<(Workload, String), Vec<Followed>> = BTreeMap::new();
        for followed in self.cluster.pods_of(&targets, self.config) {
            let pod = &followed.pod;
            if pod.is_bound && !pod.has_ended && !pod.is_being_deleted {
                let key = (followed.workload.clone(), pod.view.namespace.clone());
                pods.entry(key).or_default().push(followed);
            }
        }
        let uids: HashSet<&str> = pods.values().flatten().map(|it| it.pod.view.uid.as_str()).collect();
        self.infeasible.retain(|uid, _| uids.contains(uid.as_str()));
        let known: HashSet<(String, String)> = targets.values().flatten().map(|it| key(it)).collect();
        self.brakes.retain(|(namespace, name, _), _| known.contains(&(namespace.clone(), name.clone())));
        let mut stopped = 0;
        for ((workload, namespace), followed) in &pods {
            let Some(autoscalers) = targets.get(workload) else { continue };
            let Some(autoscaler) = controlling(autoscalers.iter().map(AsRef::as_ref)) else { continue };
            let is_left_out = |name: &str| !followed.iter().all(|it| it.has(name) || !has(&it.pod.view, name));
            let autoscaler = without_containers(autoscaler, is_left_out);
            let pods: Vec<PodView> = followed.iter().map(|it| it.pod.view.clone()).collect();
            stopped += usize::from(self.update(&autoscaler, namespace, &pods).await);
        }
        self.config.metrics.stopped(stopped);
    }

    async fn is_admission_alive(&mut self) -> bool {
        let (lease, timeout) = (&self.config.admission_lease, self.config.admission_lease_timeout);
        let is_alive = match admission_lease::is_alive(&self.config.client, lease, timeout, (self.config.now)()).await {
            Ok(is_alive) => is_alive,
            Err(error) => {
                tracing::warn!(%error, "cannot read whether an admission controller is alive");
                return false;
            }
        };
        if !is_alive && !self.is_waiting {
            tracing::warn!(
                lease = lease.name,
                namespace = lease.namespace,
                "no admission controller renews its Lease: evicted pods would come back as they were"
            );
        }
        self.is_waiting = !is_alive;
        is_alive
    }

    /// Updates the pods of one autoscaler. Returns whether its evictions are stopped.
    async fn update(&mut self, autoscaler: &VerticalPodAutoscaler, namespace: &str, pods: &[PodView]) -> bool {
        let now = (self.config.now)();
        let mut replicas = Replicas::new();
        for owner in pods.iter().filter_map(|pod| pod.owner.as_ref()) {
            if let Some(wanted) = self.cluster.owners().replicas(namespace, owner) {
                replicas.insert(owner.clone(), wanted);
            }
        }
        if let Some(recommendation) = &autoscaler.status.recommendation {
            for pod in pods.iter().filter(|pod| pod.resize == ResizeState::Infeasible) {
                self.infeasible.entry(pod.uid.clone()).or_insert_with(|| recommendation.clone());
            }
        }
        let brake = self.brakes.entry(brake_key(autoscaler, namespace)).or_default();
        let was_stopped = brake.is_on();
        let is_stopped = brake.look(pods, now);
        if is_stopped && !was_stopped {
            let text = "evicted pods come back with the same requests; no more are evicted for an hour. Something undoes what admission \
                        sets, or the webhook is not called for them";
            tracing::warn!(autoscaler = autoscaler.name(), namespace = autoscaler.namespace(), text);
            self.recorder.warning(&references::of_autoscaler(autoscaler), "EvictionsStopped", text);
        }
        let ranges = self.cluster.limit_ranges(namespace);
        let infeasible = std::mem::take(&mut self.infeasible);
        let snapshot = Snapshot { autoscaler, pods, replicas: &replicas, ranges: &ranges, infeasible: &infeasible };
        let mut pass = Pass::new(snapshot, &self.config.updater, self.config.gates, now);
        let mut refused = Vec::new();
        while let Some(step) = pass.next_step() {
            let Some(pod) = pods.get(step.pod) else { continue };
            if is_stopped && matches!(step.action, Action::Evict(_)) {
                self.config.metrics.updated(Updated::Evict, UpdateOutcome::Stopped);
                pass.failed(&step);
                continue;
            }
            match self.execute(autoscaler, pod, &step).await {
                Ok(()) => {}
                Err(error) => {
                    let (name, namespace) = (&pod.name, &pod.namespace);
                    tracing::warn!(pod = name, namespace, %error, "a pod could not be updated");
                    if is_beyond_node(&error) {
                        refused.push(pod.uid.clone());
                    }
                    pass.failed(&step);
                }
            }
        }
        for (pod, reason) in pass.skipped() {
            if let Some(pod) = pods.get(*pod) {
                tracing::debug!(pod = pod.name, namespace = pod.namespace, %reason, "a pod is left alone");
            }
        }
        drop(pass);
        self.infeasible = infeasible;
        for uid in refused {
            let recommendation = autoscaler.status.recommendation.clone().unwrap_or_default();
            self.infeasible.insert(uid, recommendation);
        }
        is_stopped
    }

    async fn execute(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        step: &Step,
    ) -> Result<(), kube::Error> {
        let (action, done) = match &step.action {
            Action::Resize(targets) => {
                wait(&mut self.resizes, self.config).await;
                (Updated::Resize, self.resize(autoscaler, pod, targets).await)
            }
            Action::Unboost(ended) => {
                wait(&mut self.resizes, self.config).await;
                (Updated::Unboost, self.unboost(pod, ended).await)
            }
            Action::Evict(reason) => {
                wait(&mut self.evictions, self.config).await;
                (Updated::Evict, self.evict(autoscaler, pod, *reason).await)
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
        self.patch(pod, Some("resize"), &resource_patch(pod, targets)).await?;
        let containers: Vec<&str> = targets.iter().map(|target| target.container.as_str()).collect();
        let text =
            format!("resized {} as VerticalPodAutoscaler {} recommends", containers.join(", "), autoscaler.name());
        self.recorder.normal(&references::of_pod(pod), "InPlaceResizedByVPA", text);
        Ok(())
    }

    async fn unboost(&self, pod: &PodView, ended: &Unboost) -> Result<(), kube::Error> {
        self.patch(pod, Some("resize"), &resource_patch(pod, &ended.targets)).await?;
        self.patch(pod, None, &annotation_removal_patch(&ended.annotations)).await
    }

    async fn evict(
        &mut self,
        autoscaler: &VerticalPodAutoscaler,
        pod: &PodView,
        reason: EvictReason,
    ) -> Result<(), kube::Error> {
        let api: Api<KubePod> = Api::namespaced(self.config.client.clone(), &pod.namespace);
        let this_one = Preconditions { uid: Some(pod.uid.clone()), resource_version: None };
        let delete = DeleteParams { preconditions: Some(this_one), ..DeleteParams::default() };
        let parameters = EvictParams { delete_options: Some(delete), ..EvictParams::default() };
        api.evict(&pod.name, &parameters).await?;
        self.brakes.entry(brake_key(autoscaler, &pod.namespace)).or_default().evicted(pod, (self.config.now)());
        let text = format!("evicted for VerticalPodAutoscaler {}: {reason}", autoscaler.name());
        self.recorder.normal(&references::of_pod(pod), "EvictedByVPA", text);
        Ok(())
    }

    async fn patch(
        &self,
        pod: &PodView,
        subresource: Option<&str>,
        operations: &[serde_json::Value],
    ) -> Result<(), kube::Error> {
        let path = requests::path(&ApiResource::erase::<KubePod>(&()), &pod.namespace, &pod.name, subresource);
        // Another pod of the same name must not get what was meant for this one.
        let this_one = serde_json::json!({"op": "test", "path": "/metadata/uid", "value": pod.uid});
        let operations: Vec<serde_json::Value> = std::iter::once(this_one).chain(operations.iter().cloned()).collect();
        requests::patch(&self.config.client, &path, &operations).await.map(drop)
    }
}

/// Waits until one more update is allowed.
async fn wait(limit: &mut RateLimit, config: &Config) {
    while let Err(pause) = limit.take((config.now)()) {
        tokio::time::sleep(pause.try_into().unwrap_or_default()).await;
    }
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
