//! Pods that should have sidecars and have none, counted as pods are read.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::Snapshot;
use pillion_api::pod::Pod;
use pillion_repair::{is_evictable, missed_by};
use pillion_rollout::{PodView, Texts};
use serde_json::Value;

/// As many names as a person reads.
const NAMES: usize = 10;

/// The pods that lack the sidecars of one SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missed {
    /// How many there are.
    pub count: usize,
    /// How many of them are never evicted, whatever the set says: bare pods, and pods of Jobs.
    pub not_evicted: usize,
    /// Some of them, as `namespace/name`.
    pub names: Vec<String>,
}

/// The pods that lack sidecars, by SidecarSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissedPods {
    /// The pods of each SidecarSet.
    pub by_set: BTreeMap<String, Missed>,
    /// How many pods were looked at.
    pub seen: usize,
}

impl MissedPods {
    /// Looks at one pod. Nothing of it is kept but its name.
    pub fn look_at(&mut self, pod: Value, snapshot: &Snapshot, excluded_namespaces: &BTreeSet<String>) {
        let Ok(pod) = Pod::new(pod) else { return };
        let pod = PodView::new(&pod, &mut Texts::default());
        self.seen += 1;
        if excluded_namespaces.contains(&*pod.namespace) {
            return;
        }
        let is_evictable = is_evictable(&pod);
        for set in missed_by(&pod, &snapshot.namespace(&pod.namespace), &snapshot.catalog) {
            let missed = self.by_set.entry(set.name.to_string()).or_default();
            missed.count += 1;
            missed.not_evicted += usize::from(!is_evictable);
            if missed.names.len() < NAMES {
                missed.names.push(format!("{}/{}", pod.namespace, pod.name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pillion_inject::Catalog;
    use pillion_testkit::{mk_container, mk_set};
    use serde_json::json;

    use super::*;

    fn pod(namespace: &str, i: usize) -> Value {
        json!({
            "metadata": {"name": format!("web-{i}"), "namespace": namespace, "labels": {"app": "web"}},
            "spec": {"containers": [{"name": "app"}]}, "status": {"phase": "Running"},
        })
    }

    #[test]
    fn all_missed_pods_are_counted_and_ten_are_named() {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}));
        let snapshot = Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() };
        let excluded = BTreeSet::from(["kube-system".to_owned()]);
        let mut missed = MissedPods::default();
        for i in 0..12 {
            missed.look_at(pod("shop", i), &snapshot, &excluded);
            missed.look_at(pod("kube-system", i), &snapshot, &excluded);
        }
        assert_eq!((missed.seen, missed.by_set["mesh"].count, missed.by_set["mesh"].names.len()), (24, 12, 10));
        assert_eq!(missed.by_set["mesh"].names[0], "shop/web-0");
    }

    #[test]
    fn bare_pods_and_pods_of_jobs_are_those_that_nobody_evicts() {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}));
        let snapshot = Snapshot { catalog: Catalog::new([set], &[]).unwrap(), ..Snapshot::default() };
        let mut missed = MissedPods::default();
        for (i, owner) in [None, Some("Job"), Some("ReplicaSet")].into_iter().enumerate() {
            let mut pod = pod("shop", i);
            if let Some(kind) = owner {
                pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": "web", "controller": true}]);
            }
            missed.look_at(pod, &snapshot, &BTreeSet::new());
        }
        assert_eq!((missed.by_set["mesh"].count, missed.by_set["mesh"].not_evicted), (3, 2));
    }
}
