//! The containers of pods that are alike, held once: a ReplicaSet has many pods, and what is kept of their containers is the same.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use pillion_rightsize::{Owner, PodContainer, PodView};

/// When there are twice as many owners as there were, those without pods are forgotten.
const FEWEST: usize = 1024;

/// The containers of the pod that each controller was last seen with.
#[derive(Default)]
struct Known {
    by_owner: HashMap<(String, Owner), Weak<[PodContainer]>>,
    largest: usize,
}

static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);

/// Gives a pod the list of containers that the pod before it had, if that is the same.
pub(crate) fn share(pod: &mut PodView) {
    let Some(owner) = pod.owner.clone() else { return };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let Known { by_owner, largest } = &mut *known;
    if by_owner.len() > (*largest).max(FEWEST) {
        by_owner.retain(|_, containers| containers.strong_count() > 0);
        *largest = by_owner.len() * 2;
    }
    let last = by_owner.entry((pod.namespace.clone(), owner)).or_insert_with(|| Arc::downgrade(&pod.containers));
    match last.upgrade() {
        Some(containers) if containers == pod.containers => pod.containers = containers,
        _ => *last = Arc::downgrade(&pod.containers),
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, cpu: &str) -> PodView {
        let owner =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "shared-1", "uid": "1", "controller": true});
        let container = json!({"name": "app", "resources": {"requests": {"cpu": cpu}}});
        let metadata = json!({"name": name, "namespace": "shop", "ownerReferences": [owner]});
        let mut view =
            PodView::new(&Pod::new(json!({"metadata": metadata, "spec": {"containers": [container]}})).unwrap());
        share(&mut view);
        view
    }

    #[test]
    fn pods_of_one_controller_share_what_is_the_same() {
        let (first, second) = (pod("a", "1"), pod("b", "1"));
        assert!(Arc::ptr_eq(&first.containers, &second.containers));
        let resized = pod("c", "2");
        assert_ne!(resized.containers, first.containers);
        assert!(Arc::ptr_eq(&resized.containers, &pod("d", "2").containers));
    }
}
