//! Which workload a pod belongs to, as people name it.

use std::fmt;

use serde::Serialize;

use crate::view::PodView;

/// The label that a Deployment gives its pods: the end of the name of their ReplicaSet.
const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A workload, or a pod that belongs to none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Workload {
    pub namespace: String,
    /// Its kind; `Pod` for a pod without a controller.
    pub kind: String,
    pub name: String,
}

impl Workload {
    pub fn of(pod: &PodView) -> Workload {
        let (kind, name) = match &pod.owner {
            None => ("Pod", &*pod.name),
            Some(owner) => deployment(pod).map_or((&*owner.kind, &*owner.name), |(name, _)| ("Deployment", name)),
        };
        Workload { namespace: pod.namespace.to_string(), kind: kind.to_owned(), name: name.to_owned() }
    }
}

/// The Deployment of a pod, and the hash of its ReplicaSet. That a ReplicaSet is one of a Deployment is known by its name, so that none has
/// to be read.
pub(crate) fn deployment(pod: &PodView) -> Option<(&str, &str)> {
    let owner = pod.owner.as_ref().filter(|owner| &*owner.kind == "ReplicaSet")?;
    let hash = pod.label(POD_TEMPLATE_HASH)?;
    Some((owner.name.strip_suffix(hash)?.strip_suffix('-')?, hash))
}

/// `shop/Deployment/web`.
impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.namespace, self.kind, self.name)
    }
}

#[cfg(test)]
mod tests {
    use pillion_api::pod::Pod;
    use serde_json::{Value, json};

    use super::*;
    use crate::text::Texts;

    fn workload(labels: Value, owner: Value) -> String {
        let metadata = json!({"name": "web-0", "namespace": "shop", "labels": labels, "ownerReferences": owner});
        let pod = Pod::new(json!({"metadata": metadata, "spec": {"containers": []}})).unwrap();
        Workload::of(&PodView::new(&pod, &mut Texts::default())).to_string()
    }

    #[test]
    fn a_pod_is_named_by_what_people_have_written() {
        let owner = |kind: &str, name: &str| json!([{"kind": kind, "name": name, "controller": true}]);
        let hashed = json!({"pod-template-hash": "5d8f"});
        for (labels, owner, expected) in [
            (hashed.clone(), owner("ReplicaSet", "web-5d8f"), "shop/Deployment/web"),
            (hashed.clone(), owner("ReplicaSet", "web"), "shop/ReplicaSet/web"),
            (hashed, owner("CloneSet", "web-5d8f"), "shop/CloneSet/web-5d8f"),
            (json!({}), owner("StatefulSet", "web"), "shop/StatefulSet/web"),
            (json!({}), json!([]), "shop/Pod/web-0"),
        ] {
            assert_eq!(workload(labels, owner), expected);
        }
    }
}
