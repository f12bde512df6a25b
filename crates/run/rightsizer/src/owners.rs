//! From a pod to the workload that it belongs to: up the chain of controllers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt as _;
use futures::future::{join_all, select_all};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::{CronJob, Job};
use k8s_openapi::api::core::v1::ReplicationController;
use kube::core::{ApiResource, DynamicObject, TypeMeta};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_api::names;
use pillion_api::vpa::CrossVersionObjectReference;
use pillion_informer::{Cache, Failure, State, View as _, controller_of};
use pillion_rightsize::Owner;
use serde_json::Value;

use crate::requests;

/// Longer chains are circles.
const LONGEST_CHAIN: usize = 8;

/// What is known of a controller.
#[derive(Debug, PartialEq)]
pub(crate) struct Controller {
    /// Its own controller.
    owner: Option<Owner>,
    /// How many replicas it wants; of a DaemonSet, how many are ready.
    replicas: Option<i64>,
}

impl pillion_informer::View for Controller {
    type Object = DynamicObject;

    fn of(object: DynamicObject) -> Option<Controller> {
        let owner = controller_of(&object).map(|owner| Owner { kind: owner.kind.clone(), name: owner.name.clone() });
        let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_i64);
        Some(Controller { owner, replicas: number("/spec/replicas").or_else(|| number("/status/numberReady")) })
    }

    fn is_same(&self, old: &Controller) -> bool {
        self == old
    }
}

/// The controllers that Kubernetes brings. Clones share the caches.
#[derive(Clone)]
pub struct Owners {
    kinds: Arc<[(ApiResource, Cache<Controller>)]>,
}

impl Default for Owners {
    fn default() -> Owners {
        let kinds = [
            ApiResource::erase::<ReplicaSet>(&()),
            ApiResource::erase::<Deployment>(&()),
            ApiResource::erase::<StatefulSet>(&()),
            ApiResource::erase::<DaemonSet>(&()),
            ApiResource::erase::<Job>(&()),
            ApiResource::erase::<CronJob>(&()),
            ApiResource::erase::<ReplicationController>(&()),
        ];
        Owners { kinds: kinds.into_iter().map(|kind| (kind, Cache::new())).collect() }
    }
}

impl Owners {
    /// Watches, until dropped.
    pub(crate) async fn run(self, client: Client) {
        let watches = self.kinds.iter().map(|(kind, cache)| {
            cache.clone().run(Api::all_with(cache.client(&client), kind), watcher::Config::default())
        });
        join_all(watches).await;
    }

    pub(crate) async fn synced(&self) {
        for (_, cache) in self.kinds.iter() {
            cache.synced().await;
        }
    }

    pub(crate) fn state(&self) -> State {
        self.kinds.iter().map(|(_, cache)| cache.state()).min().unwrap_or(State::Synced)
    }

    /// Returns when a watch has ended.
    pub(crate) async fn stopped(&self) {
        select_all(self.kinds.iter().map(|(_, cache)| cache.stopped().boxed())).await;
    }

    pub(crate) fn failures(&self) -> impl Iterator<Item = Failure> {
        self.kinds.iter().filter_map(|(_, cache)| cache.failure())
    }

    /// The controllers above and including `owner`, lowest first; as far as they are known.
    pub fn chain(&self, namespace: &str, owner: &Owner) -> Vec<Owner> {
        let mut chain = vec![owner.clone()];
        while let Some(next) = chain.last().and_then(|last| self.get(namespace, last)?.owner.clone()) {
            if chain.len() == LONGEST_CHAIN || chain.contains(&next) {
                break;
            }
            chain.push(next);
        }
        chain
    }

    /// The same for a pod that has just been created: a controller that the watches have not reported yet is read.
    pub async fn chain_of_new_pod(&self, client: &Client, namespace: &str, owner: &Owner) -> Vec<Owner> {
        let mut chain = vec![owner.clone()];
        while let Some(last) = chain.last() {
            let known = match self.get(namespace, last) {
                Some(known) => known,
                None => match self.read(client, namespace, last).await.and_then(Controller::of) {
                    Some(read) => Arc::new(read),
                    None => break,
                },
            };
            match known.owner.clone() {
                Some(next) if chain.len() < LONGEST_CHAIN && !chain.contains(&next) => chain.push(next),
                _ => break,
            }
        }
        chain
    }

    /// Whether the caches know a controller; `None` for a kind that Kubernetes does not bring.
    pub(crate) fn exists(&self, namespace: &str, owner: &Owner) -> Option<bool> {
        let (_, cache) = self.kind(owner)?;
        Some(cache.get(namespace, &owner.name).is_some())
    }

    pub(crate) fn look(&self, namespace: &str, owner: &Owner) -> pillion_rightsize::Controller {
        match self.exists(namespace, owner) {
            None => pillion_rightsize::Controller::Custom,
            Some(_) => self.get(namespace, owner).map_or(pillion_rightsize::Controller::Missing, |known| {
                pillion_rightsize::Controller::Owned(known.owner.clone())
            }),
        }
    }

    pub(crate) fn replicas(&self, namespace: &str, owner: &Owner) -> Option<i64> {
        self.get(namespace, owner)?.replicas
    }

    fn get(&self, namespace: &str, owner: &Owner) -> Option<Arc<Controller>> {
        self.kind(owner)?.1.get(namespace, &owner.name)
    }

    fn kind(&self, owner: &Owner) -> Option<&(ApiResource, Cache<Controller>)> {
        self.kinds.iter().find(|(kind, _)| kind.kind == owner.kind)
    }

    /// The controller as JSON. `None` for a kind that Kubernetes does not bring, or if it cannot be read.
    pub(crate) async fn object(&self, client: &Client, namespace: &str, owner: &Owner) -> Option<Value> {
        serde_json::to_value(self.read(client, namespace, owner).await?).ok()
    }

    async fn read(&self, client: &Client, namespace: &str, owner: &Owner) -> Option<DynamicObject> {
        let (kind, _) = self.kind(owner)?;
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, kind);
        let read = api.get_opt(&owner.name).await;
        let read = read.inspect_err(|error| {
            tracing::warn!(kind = owner.kind, name = owner.name, namespace, %error, "a controller of pods cannot be read");
        });
        let mut object = read.ok().flatten()?;
        object.types = Some(TypeMeta { api_version: kind.api_version.clone(), kind: kind.kind.clone() });
        Some(object)
    }
}

/// Whether a custom resource can be scaled, or a SidecarSet exists, remembered for a while: it is asked about in every pass.
#[derive(Debug, Default)]
pub(crate) struct Scales {
    /// By namespace, kind (of a custom resource with its version) and name.
    known: Mutex<HashMap<(String, String, String), Checked>>,
}

/// A custom resource may be deleted.
const FRESH: SignedDuration = SignedDuration::from_mins(10);
/// What is missing may have been created in the same minute.
const FRESH_REFUSAL: SignedDuration = SignedDuration::from_mins(1);

/// What was found, and when.
type Checked = (Result<(), String>, Timestamp);

/// Why a custom resource is not known to be scalable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unscalable {
    /// It is not, until somebody changes something.
    Refused(String),
    /// The API server did not answer.
    Unanswered(String),
}

impl Scales {
    /// Whether the custom resource exists and has a subresource `scale` with a selector. While the API server does not answer, what was found
    /// last holds.
    pub(crate) async fn check(
        &self,
        client: &Client,
        namespace: &str,
        target: &CrossVersionObjectReference,
        now: Timestamp,
    ) -> Result<(), Unscalable> {
        let version = target.api_version.clone().unwrap_or_default();
        let key = (namespace.to_owned(), format!("{version}/{}", target.kind), target.name.clone());
        let known = self.known().get(&key).cloned();
        let is_fresh = |(known, at): &&Checked| {
            let fresh = if known.is_ok() { FRESH } else { FRESH_REFUSAL };
            now.duration_since(*at) < fresh
        };
        if let Some((known, _)) = known.as_ref().filter(is_fresh) {
            return known.clone().map_err(Unscalable::Refused);
        }
        let read = match (scale(client, namespace, target).await, known) {
            (Ok(()), _) => Ok(()),
            (Err(Unscalable::Refused(error)), _) => Err(error),
            (Err(Unscalable::Unanswered(_)), Some((known, _))) => return known.map_err(Unscalable::Refused),
            (unanswered, None) => return unanswered,
        };
        self.known().insert(key, (read.clone(), now));
        read.map_err(Unscalable::Refused)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<(String, String, String), Checked>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn check_set(
        &self,
        client: &Client,
        target: &CrossVersionObjectReference,
        now: Timestamp,
    ) -> Result<(), String> {
        let key = (String::new(), target.kind.clone(), target.name.clone());
        let known = self.known().get(&key).cloned();
        if let Some((known, _)) = known.filter(|(_, at)| now.duration_since(*at) < FRESH_REFUSAL) {
            return known;
        }
        let version = target.api_version.as_deref().unwrap_or(names::V1BETA1);
        let path = format!("/apis/{version}/sidecarsets/{}", target.name);
        let read = match requests::get(client, &path).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                Err(format!("SidecarSet {} does not exist", target.name))
            }
            Err(error) => Err(format!("SidecarSet {} cannot be read: {error}", target.name)),
        };
        self.known().insert(key, (read.clone(), now));
        read
    }
}

async fn scale(client: &Client, namespace: &str, target: &CrossVersionObjectReference) -> Result<(), Unscalable> {
    let api_version = target.api_version.as_deref().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.is_empty() {
        return Err(Unscalable::Refused(format!("the apiVersion of {} is missing", target.kind)));
    }
    let kind = kube::core::GroupVersionKind::gvk(group, version, &target.kind);
    let found = kube::discovery::pinned_kind(client, &kind).await;
    let (resource, _) =
        found.map_err(|error| unscalable(&error, format!("{api_version} has no kind {}: {error}", target.kind)))?;
    let path = requests::path(&resource, namespace, &target.name, Some("scale"));
    let scale = requests::get(client, &path).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 403 => Unscalable::Refused(format!(
            "the manager may not read its subresource scale; allow its service account to get {}/scale of {group:?}",
            resource.plural
        )),
        error => unscalable(&error, format!("its subresource scale cannot be read: {error}")),
    })?;
    let selector = scale["status"]["selector"].as_str().unwrap_or_default();
    if selector.is_empty() {
        let error = format!("resource {namespace}/{} has an empty selector for scale sub-resource", target.name);
        return Err(Unscalable::Refused(error));
    }
    Ok(())
}

/// An answer is one that the API server will repeat: not that it, or what it asks, is away or too busy.
fn unscalable(error: &kube::Error, text: String) -> Unscalable {
    let is_answer = match error {
        kube::Error::Api(status) => matches!(status.code, 400..500) && !matches!(status.code, 401 | 408 | 429),
        kube::Error::Discovery(_) => true,
        _ => false,
    };
    if is_answer { Unscalable::Refused(text) } else { Unscalable::Unanswered(text) }
}
