//! The pods that lack sidecars, by SidecarSet, as pods and sets change.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use pillion_admission::Snapshot;
use pillion_informer::{Cache, Change, NamespacedName};
use pillion_pods::CachedPod;
use pillion_repair::{Candidate, missed_by};
use pillion_rollout::PodView;

/// How many pods are looked at before others get a turn.
const TURN: usize = 1_000;

/// The pods that lack sidecars.
#[derive(Default)]
pub(super) struct Missed {
    by_set: BTreeMap<Arc<str>, BTreeMap<NamespacedName, Candidate>>,
    /// The sets that a pod lacks.
    of_pod: HashMap<NamespacedName, Vec<Arc<str>>>,
}

impl Missed {
    /// The pods that lack the sidecars of a set, by namespace and name.
    pub(super) fn of(&self, set: &str) -> Vec<Candidate> {
        self.by_set.get(set).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Follows a pod. Returns the sets whose missed pods are others now.
    pub(super) fn follow(
        &mut self,
        change: &Change<CachedPod>,
        snapshot: &Snapshot,
        excluded: [&str; 2],
    ) -> BTreeSet<String> {
        let pod = change.new.as_ref().and_then(|pod| pod.rollout.as_deref());
        self.look_at(&change.name, pod, snapshot, excluded)
    }

    /// Looks at every pod again, since the sets have changed.
    pub(super) async fn look_again(
        &mut self,
        cache: &Cache<CachedPod>,
        snapshot: &Snapshot,
        excluded: [&str; 2],
    ) -> BTreeSet<String> {
        let mut touched = BTreeSet::new();
        for (i, pod) in cache.list().into_iter().enumerate() {
            let Some(pod) = pod.rollout.as_deref() else { continue };
            let name = NamespacedName::new(pod.namespace.clone(), &*pod.name);
            touched.extend(self.look_at(&name, Some(pod), snapshot, excluded));
            if i % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        touched
    }

    fn look_at(
        &mut self,
        name: &NamespacedName,
        pod: Option<&PodView>,
        snapshot: &Snapshot,
        excluded: [&str; 2],
    ) -> BTreeSet<String> {
        let pod = pod.filter(|pod| !excluded.contains(&&*pod.namespace));
        let now: Vec<Arc<str>> = pod
            .map(|pod| missed_by(pod, &snapshot.namespace(&pod.namespace), &snapshot.catalog))
            .unwrap_or_default()
            .into_iter()
            .map(|set| Arc::clone(&set.name))
            .collect();
        let before = self.of_pod.remove(name).unwrap_or_default();
        let mut touched = BTreeSet::new();
        for set in before.iter().filter(|set| !now.contains(set)) {
            if let Some(pods) = self.by_set.get_mut(set) {
                pods.remove(name);
                if pods.is_empty() {
                    self.by_set.remove(set);
                }
            }
            touched.insert(set.to_string());
        }
        if let Some(pod) = pod {
            for set in &now {
                let candidate = Candidate::new(pod);
                let replaced = self.by_set.entry(Arc::clone(set)).or_default().insert(name.clone(), candidate.clone());
                if replaced != Some(candidate) {
                    touched.insert(set.to_string());
                }
            }
        }
        if !now.is_empty() {
            self.of_pod.insert(name.clone(), now);
        }
        touched
    }
}
