//! Counts the pods that have taken places of a partition, and gives back the places whose pods never came.

use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as KubePod;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject, Selector as KubeSelector};
use pillion_api::pod::Pod;
use pillion_api::sidecarset::{InjectRevisionPolicy, SidecarSet};
use pillion_informer::Outcome;
use pillion_pods::CachedPod;
use pillion_rollout::{Limit, Observed, Places, PodView, Target, Text, Texts};

use super::{BACKOFF, PAUSE, RETRY, Rollout, SETS};
use crate::error::Error;
use crate::lock::lock;
use crate::places::PlacesObject;

/// A place has expired for certain this long after it was to.
const SLACK: Duration = Duration::from_secs(1);

impl Rollout<'_> {
    /// Counts the places of a set as soon as one of its pods goes: a ReplicaSet creates the successor at once.
    pub(super) async fn count_when_pods_go(&self) {
        let gone = self.pods.updates().flat_map(|change| {
            let pod = change.old.filter(|old| is_active(Some(old)) && !is_active(change.new.as_deref()));
            let sets = pod
                .and_then(|pod| pod.rollout.clone())
                .map(|pod| pod.injected.iter().map(|it| it.name.clone()).collect());
            stream::iter(sets.unwrap_or_else(Vec::new))
        });
        let reconciler = self.inner.config.reconciler("places").on(gone).concurrency(SETS).backoff(BACKOFF);
        reconciler.run(|set| self.count_after_pods_have_gone(set).boxed()).await;
    }

    async fn count_after_pods_have_gone(&self, set: Text) -> Outcome {
        let set = self.inner.caches.sets.get("", &set).and_then(|view| view.of_rollout()).filter(has_places);
        let Some(target) = set.map(|set| Target::new(Arc::new(set))) else { return Outcome::Done(None) };
        match self.count_places(&target).await {
            // Another client has written meanwhile. For all else the rollout of the set counts again.
            Ok(again) => Outcome::Done(again.filter(|again| *again == PAUSE)),
            Err(error) => Outcome::failed(&error),
        }
    }

    /// Counts the places of a set with `policy: Quota`. Returns when to count again if nothing changes before.
    pub(super) async fn count_places(&self, target: &Target) -> Result<Option<Duration>, Error> {
        let set = target.set();
        if !has_places(set) {
            return self.stop_counting(set).await;
        }
        lock(&self.uncounted).remove(set.name());
        let view = self.inner.views.borrow().clone();
        // The revision may not be in the view yet.
        let Some(revision) = view.snapshot.catalog.pinned_revision(set.name()) else { return Ok(Some(RETRY)) };
        let object = PlacesObject::new(&self.inner.config, set);
        let what = || format!("count the places of SidecarSet {:?} in ConfigMap {:?}", set.name(), object.name());
        let before = object.read().await.map_err(Error::api(what()))?;
        let mut places = match before.as_ref().map(|stored| &stored.places) {
            Some(known) if known.revision() == revision => known.clone(),
            Some(known) => known.repinned(revision, (self.inner.config.now)()),
            None => Places::new(revision),
        };

        // Before the pods are read: the cache is at least as new as this.
        let version = self.pods.version();
        let pods = self.pods_of(set.name());
        // The cache does not say how late it is, so nothing expires by it.
        places.observe(&Observed::new(target, revision, pods.iter().map(AsRef::as_ref), version, Timestamp::MIN));
        let now = (self.inner.config.now)();
        places.forget(now);
        if places.next_expiry().is_some_and(|at| at < now) {
            self.expire(target, revision, &mut places).await.map_err(Error::api(what()))?;
        }
        if !before.as_ref().is_some_and(|stored| stored.places.is_same(&places)) {
            let swapped = object.swap(before.as_ref(), places.clone()).await.map_err(Error::api(what()))?;
            if swapped.is_none() {
                return Ok(Some(PAUSE));
            }
        }
        let next = places.next_expiry().into_iter().chain(places.next_forgotten()).min();
        let left = next.map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
        Ok(left.map(|left| left + SLACK))
    }

    /// Makes sure once that no place is granted by an old count when the set has `policy: Quota` again: until then pods come without a place.
    async fn stop_counting(&self, set: &SidecarSet) -> Result<Option<Duration>, Error> {
        if set.spec.pinned_revision().is_none() || lock(&self.uncounted).contains(set.name()) {
            return Ok(None);
        }
        let object = PlacesObject::new(&self.inner.config, set);
        let what = || format!("end the count of SidecarSet {:?} in ConfigMap {:?}", set.name(), object.name());
        if let Some(stored) = object.read().await.map_err(Error::api(what()))? {
            let places = stored.places.uncounted();
            let is_swapped = stored.places.is_same(&places)
                || object.swap(Some(&stored), places).await.map_err(Error::api(what()))?.is_some();
            if !is_swapped {
                return Ok(Some(PAUSE));
            }
        }
        lock(&self.uncounted).insert(set.name().to_owned());
        Ok(None)
    }

    /// The places of a set as they are stored, whether its partition still counts them or not.
    pub(super) async fn read_places(&self, set: &SidecarSet) -> Result<Option<Places>, Error> {
        let object = PlacesObject::new(&self.inner.config, set);
        let what = || format!("read the places of SidecarSet {:?} in ConfigMap {:?}", set.name(), object.name());
        Ok(object.read().await.map_err(Error::api(what()))?.map(|stored| stored.places))
    }

    /// Gives back places whose pods do not exist, which only the API server itself knows for certain.
    async fn expire(&self, target: &Target, revision: &str, places: &mut Places) -> kube::Result<()> {
        let as_of = (self.inner.config.now)();
        let selector = target.set().spec.selector.clone().unwrap_or_default();
        let Ok(selector) = KubeSelector::try_from(selector) else { return Ok(()) };
        let client = self.inner.config.client.clone();
        let api: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<KubePod>(&()));
        let listed = api.list(&ListParams::default().labels_from(&selector)).await?;
        let version = listed.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        let mut texts = Texts::default();
        let pods: Vec<PodView> = listed
            .items
            .into_iter()
            .filter_map(|pod| Pod::new(serde_json::to_value(pod).ok()?).ok())
            .map(|pod| PodView::new(&pod, &mut texts))
            .collect();
        places.observe(&Observed::new(target, revision, &pods, version.unwrap_or_default(), as_of));
        Ok(())
    }
}

/// Whether the partition of a set counts places.
fn has_places(set: &SidecarSet) -> bool {
    let policy = set.spec.pinned_revision().and_then(|pinned| pinned.policy);
    policy == Some(InjectRevisionPolicy::Quota) && Limit::of(set) != Limit::Number(0)
}

fn is_active(pod: Option<&CachedPod>) -> bool {
    pod.and_then(|pod| pod.rollout.as_ref()).is_some_and(|pod| pod.is_active())
}
