//! Restarts the sidecars of a set by recreating its pods: which pods are evicted next.
//!
//! No API restarts a single container in place, and an in-place update that changes nothing restarts nothing.

use std::collections::BTreeSet;

use crate::amount;
use crate::target::Target;
use crate::view::PodView;

/// What is to be done next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restart {
    /// The pods to evict now.
    pub evict: Vec<Eviction>,
    /// How many pods are left to evict, these included.
    pub left: usize,
    /// How many pods are missing or not ready.
    pub unavailable: usize,
    /// Pods that are not evicted.
    pub skipped: Vec<Unrestartable>,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Eviction {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The pod's UID: a new pod of the same name has been restarted.
    pub uid: String,
}

/// A pod that eviction does not restart, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unrestartable {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    pub why: &'static str,
}

/// Plans the next evictions of a restart.
///
/// `pods` are the pods of the set as they are now. `before` are the UIDs of the pods that there were when the restart began: all of them
/// are to be replaced. So many pods are missing or not ready at most as `maxUnavailable` allows; one that is not ready costs nothing.
pub fn restart<'p>(target: &Target, pods: impl IntoIterator<Item = &'p PodView>, before: &BTreeSet<String>) -> Restart {
    let mut next = Restart::default();
    let mut available = 0;
    let mut candidates = Vec::new();
    for pod in pods.into_iter().filter(|pod| target.standing(pod).is_some()) {
        available += usize::from(pod.is_running_and_ready());
        if !before.contains(&*pod.uid) {
            continue;
        }
        match why_not(pod) {
            None => candidates.push(pod),
            Some(why) => {
                let (namespace, name) = (pod.namespace.to_string(), pod.name.to_string());
                next.skipped.push(Unrestartable { namespace, name, why });
            }
        }
    }
    next.left = candidates.len();
    next.unavailable = before.len().saturating_sub(available);
    let allowed = amount::max_unavailable(target.set().spec.update_strategy.max_unavailable.as_ref(), before.len());
    let mut budget = allowed.saturating_sub(next.unavailable);
    candidates.sort_by_key(|pod| (pod.is_running_and_ready(), &*pod.namespace, &*pod.name));
    for pod in candidates {
        if pod.is_running_and_ready() {
            if budget == 0 {
                break;
            }
            budget -= 1;
        }
        let (namespace, name) = (pod.namespace.to_string(), pod.name.to_string());
        next.evict.push(Eviction { namespace, name, uid: pod.uid.to_string() });
    }
    next
}

fn why_not(pod: &PodView) -> Option<&'static str> {
    match pod.owner.as_ref().map(|owner| &*owner.kind) {
        None => Some("it has no controller that would create it again"),
        Some("Job") => Some("its Job would do its work again"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pillion_api::sidecarset::SidecarSet;
    use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
    use serde_json::{Value, json};

    use super::*;
    use crate::text::Texts;

    fn mk_mesh(max_unavailable: Value) -> SidecarSet {
        let spec =
            json!({"containers": [mk_container("proxy")], "updateStrategy": {"maxUnavailable": max_unavailable}});
        mk_set("mesh", json!({"app": "web"}), spec)
    }

    fn mk_view(set: &SidecarSet, name: &str, uid: &str, owner: Option<&str>, is_ready: bool) -> PodView {
        let mut pod = mk_injected_pod(name, json!({"app": "web"}), [mk_container("app")], &[set]).into_value();
        pod["metadata"]["uid"] = json!(uid);
        if let Some(kind) = owner {
            pod["metadata"]["ownerReferences"] = json!([{"kind": kind, "name": "web", "controller": true}]);
        }
        let mut view = PodView::new(&pillion_api::pod::Pod::new(pod).unwrap(), &mut Texts::default());
        view.is_ready = is_ready;
        view
    }

    fn names(restart: &Restart) -> Vec<&str> {
        restart.evict.iter().map(|pod| pod.name.as_str()).collect()
    }

    #[test]
    fn no_more_pods_are_missing_than_max_unavailable_allows() {
        let set = mk_mesh(json!(2));
        let target = Target::new(Arc::new(set.clone()));
        let mut pods: Vec<PodView> = (0..5)
            .map(|i| mk_view(&set, &format!("web-{i}"), &format!("old-{i}"), Some("StatefulSet"), true))
            .collect();
        let before: BTreeSet<String> = pods.iter().map(|pod| pod.uid.to_string()).collect();
        assert_eq!(names(&restart(&target, &pods, &before)), ["web-0", "web-1"]);
        // Both were evicted; one is back and ready, the other is starting.
        pods[0] = mk_view(&set, "web-0", "new-0", Some("StatefulSet"), true);
        pods[1] = mk_view(&set, "web-1", "new-1", Some("StatefulSet"), false);
        let next = restart(&target, &pods, &before);
        assert_eq!((names(&next), next.left, next.unavailable), (vec!["web-2"], 3, 1));
        // While one is gone altogether, none is evicted.
        pods.remove(0);
        assert_eq!(names(&restart(&target, &pods, &before)), [""; 0]);
    }

    #[test]
    fn a_pod_that_is_not_ready_costs_nothing_and_goes_first() {
        let set = mk_mesh(json!(1));
        let target = Target::new(Arc::new(set.clone()));
        let pods = [
            mk_view(&set, "web-0", "0", Some("ReplicaSet"), true),
            mk_view(&set, "web-1", "1", Some("ReplicaSet"), false),
        ];
        let before = BTreeSet::from(["0".to_owned(), "1".to_owned()]);
        assert_eq!(names(&restart(&target, &pods, &before)), ["web-1"]);
    }

    #[test]
    fn a_bare_pod_and_one_of_a_job_stay() {
        let set = mk_mesh(json!("100%"));
        let target = Target::new(Arc::new(set.clone()));
        let pods = [mk_view(&set, "bare", "0", None, true), mk_view(&set, "work", "1", Some("Job"), true)];
        let before = BTreeSet::from(["0".to_owned(), "1".to_owned()]);
        let next = restart(&target, &pods, &before);
        assert_eq!((names(&next).len(), next.left), (0, 0));
        let skipped: Vec<_> = next.skipped.iter().map(|pod| (pod.name.as_str(), pod.why)).collect();
        assert_eq!(
            skipped,
            [("bare", "it has no controller that would create it again"), ("work", "its Job would do its work again")]
        );
    }
}
