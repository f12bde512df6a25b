//! The cluster as the recommender, the updater and admission see it: watched once, in compact views.

mod followed;
mod views;

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::BoxStream;
use futures::{StreamExt as _, future};
use k8s_openapi::api::core::v1::LimitRange;
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::vpa::{Gates, VerticalPodAutoscaler};
use pillion_informer::{Cache, Failure, State};
use pillion_pods::{CachedPod, InUse, PodPart, Pods, SizedPod};
use pillion_rightsize::update::Rules;
use pillion_rightsize::{
    LimitRanges, PodView, Workload, admits, sized_set, target_of, targeted_set, workload_of, workload_of_set,
};
use serde_json::Value;
use tokio::task::JoinSet;

pub(crate) use self::followed::{Followed, Targets};
pub use self::views::{AutoscalerView, RangeView};
use crate::config::Config;
use crate::definition::{defined, undefined};
use crate::owners::Owners;
use crate::resources::autoscalers;

/// The cluster. Clones are the same; what it watches ends with the last of them.
#[derive(Clone)]
pub struct Cluster {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    autoscalers: Cache<AutoscalerView>,
    ranges: Cache<RangeView>,
    owners: Owners,
    pods: Pods,
    watches: AtomicBool,
    watches_owners: AtomicBool,
    tasks: Mutex<JoinSet<()>>,
}

impl Cluster {
    /// A cluster of which nothing is known yet.
    pub fn new(client: Client) -> Cluster {
        let pods = Pods::new(client.clone());
        Cluster::with_pods(client, pods)
    }

    /// The same, with pods that other controllers of the process read as well.
    pub fn with_pods(client: Client, pods: Pods) -> Cluster {
        Cluster {
            inner: Arc::new(Inner {
                client,
                autoscalers: Cache::new(),
                ranges: Cache::new(),
                owners: Owners::default(),
                pods,
                watches: AtomicBool::new(false),
                watches_owners: AtomicBool::new(false),
                tasks: Mutex::default(),
            }),
        }
    }

    /// Watches autoscalers, LimitRanges and controllers from now on, and returns when all of them are known.
    pub async fn synced(&self) {
        let inner = &self.inner;
        if !inner.watches.swap(true, Ordering::Relaxed) {
            self.spawn(watch_autoscalers(inner.autoscalers.clone(), inner.client.clone()));
            let client = inner.ranges.client(&inner.client);
            let all = Api::all_with(client, &ApiResource::erase::<LimitRange>(&()));
            self.spawn(inner.ranges.clone().run(all, watcher::Config::default()));
        }
        tokio::join!(inner.autoscalers.synced(), inner.ranges.synced(), self.owners_synced());
    }

    /// The same with pods, which are watched while the answer is held.
    pub async fn synced_with_pods(&self) -> InUse {
        let ((), pods) = tokio::join!(self.synced(), self.inner.pods.watched(PodPart::Sized));
        pods
    }

    /// Pods and their controllers, without autoscalers: it returns even if VerticalPodAutoscalers are not served.
    pub async fn pods_synced(&self) -> InUse {
        let (pods, ()) = tokio::join!(self.inner.pods.watched(PodPart::Sized), self.owners_synced());
        pods
    }

    async fn owners_synced(&self) {
        let inner = &self.inner;
        if !inner.watches_owners.swap(true, Ordering::Relaxed) {
            self.spawn(inner.owners.clone().run(inner.client.clone()));
        }
        inner.owners.synced().await;
    }

    /// Returns when the autoscalers are not known: not yet, or not any more because somebody has deleted their definition. They are watched
    /// again when there is a new one.
    pub async fn undefined(&self) {
        self.inner.autoscalers.syncing().await;
    }

    /// How far what is known can be relied on, without pods.
    pub fn state(&self) -> State {
        self.inner.autoscalers.state().min(self.inner.ranges.state()).min(self.inner.owners.state())
    }

    /// Returns when a watch that was started has ended, that of pods included.
    pub async fn stopped(&self) {
        let inner = &self.inner;
        tokio::select! {
            () = inner.autoscalers.stopped() => {}
            () = inner.ranges.stopped() => {}
            () = inner.owners.stopped() => {}
            () = inner.pods.stopped() => {}
        }
    }

    /// The watches that fail, by what they watch, without pods.
    pub fn failures(&self) -> Vec<(&'static str, Failure)> {
        let all = [
            ("VerticalPodAutoscalers", self.inner.autoscalers.failure()),
            ("LimitRanges", self.inner.ranges.failure()),
        ];
        let of_owners = self.inner.owners.failures().map(|failure| ("controllers of pods", failure));
        all.into_iter().filter_map(|(what, failure)| Some((what, failure?))).chain(of_owners).collect()
    }

    /// Ends every watch as a panic in it would.
    #[doc(hidden)]
    pub fn abort_watches(&self) {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).abort_all();
    }

    pub fn autoscalers(&self) -> &Cache<AutoscalerView> {
        &self.inner.autoscalers
    }

    /// Returns when there is an autoscaler.
    pub async fn any_autoscaler(&self) {
        let (held, changes) = self.inner.autoscalers.subscribe();
        if held.is_empty() {
            changes.boxed().next().await;
        }
    }

    /// The LimitRanges.
    pub fn ranges(&self) -> &Cache<RangeView> {
        &self.inner.ranges
    }

    /// The controllers.
    pub fn owners(&self) -> &Owners {
        &self.inner.owners
    }

    /// A pod with a controller, as the cache knows it.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<SizedPod>> {
        self.inner.pods.cache().get(namespace, name)?.sized.clone()
    }

    /// The LimitRanges of a namespace, merged.
    pub fn limit_ranges(&self, namespace: &str) -> LimitRanges {
        let ranges = self.inner.ranges.in_namespace(namespace);
        LimitRanges::merge(ranges.iter().map(|range| &range.0))
    }

    /// What the API server asks of new pods of a namespace, with the `ResourceQuotas` of the namespace.
    pub(crate) fn rules(&self, namespace: &str, quotas: &[Value]) -> Rules {
        let ranges = self.inner.ranges.in_namespace(namespace);
        Rules::new(ranges.iter().map(|range| &range.0), quotas)
    }

    /// The autoscalers by the workload that they target.
    pub(crate) fn targets(&self, config: &Config, is_wanted: impl Fn(&VerticalPodAutoscaler) -> bool) -> Targets {
        let mut targets = Targets::new();
        for AutoscalerView(autoscaler) in self.inner.autoscalers.list().iter().map(AsRef::as_ref) {
            if config.namespaces.has(autoscaler.namespace())
                && is_wanted(autoscaler)
                && let Some(workload) = target_of(autoscaler)
            {
                targets.entry(workload).or_default().push(Arc::clone(autoscaler));
            }
        }
        targets
    }

    /// The pods of the workloads that are targeted, and those that targeted SidecarSets are injected into. Each controller is looked up
    /// once, however many pods it has.
    pub(crate) fn pods_of(&self, targets: &Targets, config: &Config) -> Vec<Followed> {
        let of_sets: BTreeSet<&str> = targets
            .values()
            .flatten()
            .filter_map(|autoscaler| sized_set(autoscaler, &config.home, config.gates))
            .collect();
        let sets_apart = Arc::new(self.sets_apart(config));
        let pods: Vec<Arc<SizedPod>> =
            self.inner.pods.cache().list().iter().filter_map(|pod| pod.sized.clone()).collect();
        let mut workloads: HashMap<(&str, &pillion_rightsize::Owner), Option<Arc<Workload>>> = HashMap::new();
        let mut found = Vec::new();
        for pod in &pods {
            for (set, _) in pod.view.injected.iter().filter(|(set, _)| of_sets.contains(set.as_str())) {
                found.push(Followed {
                    pod: Arc::clone(pod),
                    workload: Arc::new(workload_of_set(&config.home, set)),
                    set: Some(set.clone()),
                    sets_apart: Arc::clone(&sets_apart),
                });
            }
            let Some(owner) = &pod.view.owner else { continue };
            let workload = workloads.entry((&pod.view.namespace, owner)).or_insert_with(|| {
                let chain = self.inner.owners.chain(&pod.view.namespace, owner);
                let workload = workload_of(&pod.view.namespace, &chain, |workload| targets.contains_key(workload))?;
                targets.contains_key(&workload).then(|| Arc::new(workload))
            });
            if let Some(workload) = workload.clone() {
                found.push(Followed { pod: Arc::clone(pod), workload, set: None, sets_apart: Arc::clone(&sets_apart) });
            }
        }
        found
    }

    /// The pods whose containers were resized in place, and first every pod with sidecars of a SidecarSet: it may have been resized
    /// before.
    pub fn resized_pods(&self) -> BoxStream<'static, (String, String)> {
        let resized = self.inner.pods.cache().changes().filter_map(|change| {
            let (old, new) = CachedPod::sized_before_and_after(&change);
            let new = new.filter(|new| !new.view.injected.is_empty() && !new.has_ended && !new.is_being_deleted);
            let is_meant = new.as_ref().is_some_and(|new| {
                new.is_bound && old.as_ref().is_none_or(|old| !has_same_resources(&old.view, &new.view))
            });
            let name = new.filter(|_| is_meant).map(|new| (new.view.namespace.clone(), new.view.name.clone()));
            future::ready(name)
        });
        resized.boxed()
    }

    /// The autoscalers of SidecarSets.
    pub fn autoscalers_of_sets(&self, home: &str, gates: Gates) -> Vec<Arc<VerticalPodAutoscaler>> {
        if !gates.sidecar_set_target {
            return Vec::new();
        }
        let views = self.inner.autoscalers.in_namespace(home);
        let of_sets = views.iter().filter(|view| sized_set(&view.0, home, gates).is_some());
        of_sets.map(|view| Arc::clone(&view.0)).collect()
    }

    /// The SidecarSets whose sidecars an autoscaler of their own sizes.
    fn sets_apart(&self, config: &Config) -> BTreeSet<String> {
        let of_sets = self.autoscalers_of_sets(&config.home, config.gates);
        let apart = of_sets.iter().filter(|autoscaler| admits(autoscaler));
        apart.filter_map(|autoscaler| targeted_set(autoscaler).map(str::to_owned)).collect()
    }

    fn spawn(&self, watching: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(watching);
    }
}

/// Watches the autoscalers while they are defined.
async fn watch_autoscalers(cache: Cache<AutoscalerView>, client: Client) {
    let all: Api<DynamicObject> = Api::all_with(cache.client(&client), &autoscalers());
    cache.run_while_defined(all, watcher::Config::default(), || defined(&client), || undefined(&client)).await;
}

fn has_same_resources(old: &PodView, new: &PodView) -> bool {
    let spec = |pod: &PodView| pod.containers.iter().map(|container| container.spec).collect::<Vec<_>>();
    spec(old) == spec(new)
}
