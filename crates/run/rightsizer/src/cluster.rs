//! The cluster as the recommender, the updater and admission see it: watched once, in compact views.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{LimitRange, Pod as KubePod};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt as _};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::vpa::{self, VerticalPodAutoscaler};
use pillion_informer::{Cache, State};
use pillion_rightsize::{LimitRanges, PodView, Workload, target_of, workload_of};
use serde_json::Value;
use tokio::task::JoinSet;

use crate::owners::Owners;
use crate::resources::autoscalers;

/// An autoscaler, without what nobody reads.
#[derive(Debug)]
pub struct AutoscalerView(pub Arc<VerticalPodAutoscaler>);

impl pillion_informer::View for AutoscalerView {
    type Object = DynamicObject;

    /// `None` for one that cannot be read: it was stored while no webhook checked it.
    fn of(object: DynamicObject) -> Option<AutoscalerView> {
        let name = object.name_any();
        let mut value = serde_json::to_value(object).ok()?;
        value["apiVersion"] = names::AUTOSCALING_V1.into();
        value["kind"] = names::VPA_KIND.into();
        let read = vpa::decode(value);
        let mut autoscaler = read
            .inspect_err(|error| tracing::warn!(autoscaler = name, %error, "a VerticalPodAutoscaler cannot be used"))
            .ok()?;
        autoscaler.metadata.managed_fields = None;
        autoscaler.metadata.resource_version = None;
        Some(AutoscalerView(Arc::new(autoscaler)))
    }

    fn is_same(&self, old: &AutoscalerView) -> bool {
        self.0 == old.0
    }
}

/// What is kept of a pod.
#[derive(Debug)]
pub(crate) struct CachedPod {
    pub(crate) view: PodView,
    /// Its containers will not run again.
    pub(crate) has_ended: bool,
    pub(crate) is_being_deleted: bool,
    /// It has a node.
    pub(crate) is_bound: bool,
}

impl pillion_informer::View for CachedPod {
    type Object = DynamicObject;

    /// `None` for a pod without a controller: it belongs to no workload.
    fn of(object: DynamicObject) -> Option<CachedPod> {
        let is_being_deleted = object.metadata.deletion_timestamp.is_some();
        let value = serde_json::to_value(object).ok()?;
        let has_ended = matches!(value["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let is_bound = value["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty());
        let view = PodView::new(&Pod::new(value).ok()?);
        view.owner.is_some().then_some(CachedPod { view, has_ended, is_being_deleted, is_bound })
    }
}

/// A LimitRange, as JSON.
#[derive(Debug)]
pub struct RangeView(Value);

impl pillion_informer::View for RangeView {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<RangeView> {
        Some(RangeView(object.data))
    }

    fn is_same(&self, old: &RangeView) -> bool {
        self.0 == old.0
    }
}

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
    pods: Cache<CachedPod>,
    watches: AtomicBool,
    watches_pods: AtomicBool,
    tasks: Mutex<JoinSet<()>>,
}

impl Cluster {
    /// A cluster that nothing is known of yet.
    pub fn new(client: Client) -> Cluster {
        Cluster {
            inner: Arc::new(Inner {
                client,
                autoscalers: Cache::new(),
                ranges: Cache::new(),
                owners: Owners::default(),
                pods: Cache::new(),
                watches: AtomicBool::new(false),
                watches_pods: AtomicBool::new(false),
                tasks: Mutex::default(),
            }),
        }
    }

    /// Watches autoscalers, LimitRanges and controllers from now on, and returns when all of them are known.
    pub async fn synced(&self) {
        let inner = &self.inner;
        if !inner.watches.swap(true, Ordering::Relaxed) {
            let all: Api<DynamicObject> = Api::all_with(inner.client.clone(), &autoscalers());
            self.spawn(inner.autoscalers.clone().run(all, watcher::Config::default()));
            let all = Api::all_with(inner.client.clone(), &ApiResource::erase::<LimitRange>(&()));
            self.spawn(inner.ranges.clone().run(all, watcher::Config::default()));
            self.spawn(inner.owners.clone().run(inner.client.clone()));
        }
        tokio::join!(inner.autoscalers.synced(), inner.ranges.synced(), inner.owners.synced());
    }

    /// The same with pods.
    pub async fn synced_with_pods(&self) {
        let inner = &self.inner;
        if !inner.watches_pods.swap(true, Ordering::Relaxed) {
            let all = Api::all_with(inner.client.clone(), &ApiResource::erase::<KubePod>(&()));
            self.spawn(inner.pods.clone().run(all, watcher::Config::default()));
        }
        tokio::join!(self.synced(), inner.pods.synced());
    }

    /// How far what is known can be relied on, without pods.
    pub fn state(&self) -> State {
        self.inner.autoscalers.state().min(self.inner.ranges.state()).min(self.inner.owners.state())
    }

    /// The autoscalers.
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

    pub(crate) fn pods(&self) -> &Cache<CachedPod> {
        &self.inner.pods
    }

    /// The LimitRanges of a namespace, merged.
    pub fn limit_ranges(&self, namespace: &str) -> LimitRanges {
        let ranges = self.inner.ranges.in_namespace(namespace);
        LimitRanges::merge(ranges.iter().map(|range| &range.0))
    }

    /// The autoscalers by the workload that they target.
    pub(crate) fn targets(&self, is_wanted: impl Fn(&VerticalPodAutoscaler) -> bool) -> Targets {
        let mut targets = Targets::new();
        for AutoscalerView(autoscaler) in self.inner.autoscalers.list().iter().map(AsRef::as_ref) {
            if is_wanted(autoscaler)
                && let Some(workload) = target_of(autoscaler)
            {
                targets.entry(workload).or_default().push(Arc::clone(autoscaler));
            }
        }
        targets
    }

    /// The pods of the workloads that are targeted. Each controller is looked up once, however many pods it has.
    pub(crate) fn pods_of(&self, targets: &Targets) -> Vec<(Arc<CachedPod>, Workload)> {
        let mut workloads: HashMap<(String, pillion_rightsize::Owner), Option<Workload>> = HashMap::new();
        let mut found = Vec::new();
        for pod in self.inner.pods.list() {
            let Some(owner) = &pod.view.owner else { continue };
            let key = (pod.view.namespace.clone(), owner.clone());
            let workload = workloads.entry(key).or_insert_with(|| {
                let chain = self.inner.owners.chain(&pod.view.namespace, owner);
                let workload = workload_of(&pod.view.namespace, &chain, |workload| targets.contains_key(workload))?;
                targets.contains_key(&workload).then_some(workload)
            });
            if let Some(workload) = workload.clone() {
                found.push((pod, workload));
            }
        }
        found
    }

    fn spawn(&self, watching: impl Future<Output = ()> + Send + 'static) {
        self.inner.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(watching);
    }
}

/// Autoscalers by the workload that they target.
pub(crate) type Targets = HashMap<Workload, Vec<Arc<VerticalPodAutoscaler>>>;
