//! SidecarSets that were admitted and that the watch has not delivered yet.
//!
//! Whoever applies a SidecarSet and then a pod expects the sidecar in it. The API server answers the first request before this process
//! hears of the new set; but the webhook saw the set before it was stored, so a pod that comes in between can wait for it. The same goes for
//! a Namespace that was made for the pod.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pillion_api::sidecarset::SidecarSet;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::caches::cluster::View;
use crate::lock::lock;

/// A set that is not delivered for so long was not stored: something else refused it. Less than the three seconds that a pod has.
const LONGEST: Duration = Duration::from_secs(1);

/// The sets that are awaited, by name.
#[derive(Default)]
pub(crate) struct Pending {
    sets: Mutex<HashMap<String, Awaited>>,
}

#[derive(Clone)]
struct Awaited {
    set: Arc<SidecarSet>,
    until: Instant,
}

impl Pending {
    /// A set was let through as it is here.
    pub(crate) fn admitted(&self, set: Arc<SidecarSet>) {
        let now = Instant::now();
        let mut sets = lock(&self.sets);
        sets.retain(|_, awaited| awaited.until > now);
        sets.insert(set.name().to_owned(), Awaited { set, until: now + LONGEST });
    }

    /// The sets that are not in force yet.
    pub(crate) fn sets(&self) -> Vec<Arc<SidecarSet>> {
        let now = Instant::now();
        lock(&self.sets)
            .values()
            .filter(|awaited| awaited.until > now)
            .map(|awaited| Arc::clone(&awaited.set))
            .collect()
    }

    /// The view that has every set that was let through before this call, and the namespace, which the API server knows already; or that
    /// of now if one of them takes too long.
    pub(crate) async fn view(&self, views: &watch::Sender<Arc<View>>, namespace: &str) -> Arc<View> {
        let now = Instant::now();
        let awaited: Vec<Awaited> = lock(&self.sets).values().filter(|awaited| awaited.until > now).cloned().collect();
        let knows = |view: &Arc<View>| view.snapshot.namespaces.contains_key(namespace);
        let mut views = views.subscribe();
        let is_known = knows(&views.borrow());
        if awaited.is_empty() && is_known {
            return views.borrow().clone();
        }
        // What is awaited of a set passes; a namespace that is not known yet is waited for from now on.
        let of_namespace = (!is_known).then_some(now + LONGEST);
        let until = awaited.iter().map(|awaited| awaited.until).chain(of_namespace).max().unwrap_or(now);
        let has_all = |view: &Arc<View>| knows(view) && awaited.iter().all(|awaited| view.has(&awaited.set));
        // Too late or not: what is there now is what decides.
        let _ = tokio::time::timeout_at(until, views.wait_for(has_all)).await;
        let view = views.borrow().clone();
        lock(&self.sets).retain(|name, current| {
            !awaited.iter().any(|awaited| awaited.set.name() == name && Arc::ptr_eq(&awaited.set, &current.set))
        });
        view
    }
}

#[cfg(test)]
mod tests {
    use pillion_admission::Snapshot;
    use pillion_inject::{Catalog, Namespace};
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn set(name: &str) -> Arc<SidecarSet> {
        Arc::new(mk_set(name, json!({"app": "web"}), json!({"containers": [mk_container("proxy")]})))
    }

    fn view(sets: &[&Arc<SidecarSet>]) -> Arc<View> {
        let catalog = Catalog::new(sets.iter().map(|set| SidecarSet::clone(set)), &[]).unwrap();
        let namespaces = [("default".to_owned(), Namespace::named("default"))].into_iter().collect();
        Arc::new(View { snapshot: Snapshot { catalog, namespaces, ..Snapshot::default() }, ..View::default() })
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_the_sets_that_were_let_through_before_it() {
        let (pending, views) = (Arc::new(Pending::default()), watch::Sender::new(view(&[])));
        let (one, two) = (set("one"), set("two"));
        pending.admitted(Arc::clone(&one));
        pending.admitted(Arc::clone(&two));
        let waiting = {
            let (pending, views) = (Arc::clone(&pending), views.clone());
            tokio::spawn(async move { pending.view(&views, "default").await })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        views.send_replace(view(&[&one]));
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished());
        views.send_replace(view(&[&one, &two]));
        assert_eq!(waiting.await.unwrap().snapshot.catalog.len(), 2);
        assert!(pending.sets().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_set_that_is_never_stored_is_waited_for_once_and_not_long() {
        let (pending, views) = (Pending::default(), watch::Sender::new(view(&[])));
        pending.admitted(set("one"));
        let start = Instant::now();
        assert!(pending.view(&views, "default").await.snapshot.catalog.is_empty());
        assert_eq!(start.elapsed(), LONGEST);
        pending.view(&views, "default").await;
        assert_eq!(start.elapsed(), LONGEST, "nobody waits for it a second time");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_its_namespace_whatever_was_waited_for_in_vain_before() {
        let (pending, views) = (Arc::new(Pending::default()), watch::Sender::new(Arc::new(View::default())));
        pending.admitted(set("one"));
        tokio::time::sleep(2 * LONGEST).await;
        let waiting = {
            let (pending, views) = (Arc::clone(&pending), views.clone());
            tokio::spawn(async move { pending.view(&views, "default").await })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        views.send_replace(view(&[]));
        assert!(waiting.await.unwrap().snapshot.namespaces.contains_key("default"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_waits_for_its_namespace() {
        let (pending, views) = (Arc::new(Pending::default()), watch::Sender::new(Arc::new(View::default())));
        let waiting = {
            let (pending, views) = (Arc::clone(&pending), views.clone());
            tokio::spawn(async move { pending.view(&views, "default").await })
        };
        tokio::time::sleep(Duration::from_millis(100)).await;
        views.send_replace(view(&[]));
        assert!(waiting.await.unwrap().snapshot.namespaces.contains_key("default"));
    }
}
