//! Pods as the controllers see them: one watch for all of them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod as KubePod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher;
use kube::{Api, Client};
use pillion_informer::Cache;
use pillion_rollout::{PodParts, PodView};
use serde::{Deserialize as _, Deserializer};
use tokio::sync::watch;

use crate::metrics::Metrics;
use crate::texts::texts;
use crate::watched::{Kind, Watched};

/// What is read of a pod: no more than [`PodView`] has.
#[derive(Clone, Debug)]
pub(crate) struct OfPod;

impl Kind for OfPod {
    type Read = PodView;

    fn read<'de, D: Deserializer<'de>>(text: D) -> Result<(ObjectMeta, PodView), D::Error> {
        let parts = PodParts::deserialize(text)?;
        let owner = |uid: &str| OwnerReference { uid: uid.to_owned(), controller: Some(true), ..Default::default() };
        let metadata = ObjectMeta {
            name: Some(parts.name().to_owned()),
            namespace: Some(parts.namespace().to_owned()),
            uid: Some(parts.uid().to_owned()),
            resource_version: Some(parts.resource_version().to_owned()),
            owner_references: parts.controller_uid().map(|uid| vec![owner(uid)]),
            ..ObjectMeta::default()
        };
        Ok((metadata, parts.view(&mut texts())))
    }
}

/// What is kept of a pod.
#[derive(Debug)]
pub(crate) struct CachedPod(pub(crate) PodView);

impl pillion_informer::View for CachedPod {
    type Object = Watched<OfPod>;

    fn of(object: Watched<OfPod>) -> Option<CachedPod> {
        Some(CachedPod(object.into_read()))
    }

    /// The SidecarSets that were injected.
    fn groups(&self) -> Vec<Arc<str>> {
        self.0.injected.iter().map(|injected| Arc::clone(&injected.name)).collect()
    }
}

/// The pods of the cluster. They are watched while a controller of this process needs them, and once for all that do.
#[derive(Default)]
pub(crate) struct Pods {
    cache: Cache<CachedPod>,
    users: watch::Sender<usize>,
}

/// The pods are watched while this is held.
pub(crate) struct InUse<'a> {
    pods: &'a Pods,
}

impl Pods {
    /// Has the pods watched, and returns when all of them are known.
    pub(crate) async fn watched(&self) -> InUse<'_> {
        self.users.send_modify(|users| *users += 1);
        let in_use = InUse { pods: self };
        self.cache.synced().await;
        in_use
    }

    /// Reports size, age and failures, while somebody needs the pods.
    pub(crate) fn measure(&self, metrics: &Metrics) {
        if *self.users.borrow() > 0 {
            metrics.cache("Pod", &self.cache);
        }
    }

    /// Watches while somebody needs it.
    pub(crate) async fn run(&self, client: &Client) {
        let mut users = self.users.subscribe();
        loop {
            // The sender is in `self`: there is no error.
            let _ = users.wait_for(|users| *users > 0).await;
            let pods = Api::all_with(self.cache.client(client), &ApiResource::erase::<KubePod>(&()));
            let watching = self.cache.clone().run(pods, watcher::Config::default());
            tokio::select! {
                () = watching => {}
                _ = users.wait_for(|users| *users == 0) => {}
            }
        }
    }
}

impl InUse<'_> {
    /// The pods.
    pub(crate) fn cache(&self) -> &Cache<CachedPod> {
        &self.pods.cache
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.pods.users.send_modify(|users| *users -= 1);
    }
}

/// All pods.
pub(crate) fn api(client: Client) -> Api<DynamicObject> {
    Api::all_with(client, &ApiResource::erase::<KubePod>(&()))
}

/// The pods of a namespace.
pub(crate) fn in_namespace(client: Client, namespace: &str) -> Api<DynamicObject> {
    Api::namespaced_with(client, namespace, &ApiResource::erase::<KubePod>(&()))
}

#[cfg(test)]
mod tests {
    use pillion_api::names;
    use pillion_api::pod::Pod;
    use pillion_informer::View as _;
    use pillion_rollout::Texts;
    use serde_json::{Value, json};

    use super::*;

    /// A pod in which everything that a rollout looks at is there, and much more.
    fn rich() -> Value {
        let status = |name: &str| {
            json!({
                "name": name, "image": "proxy:1", "imageID": "proxy@1", "ready": true, "restartCount": 3, "started": true,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "lastState": {},
            })
        };
        let record = r#"{"mesh":{"updateTimestamp":"2026-01-01T00:00:00Z","hash":"h","sidecarSetName":"mesh","sidecarList":["proxy","agent"],"controllerRevision":"mesh-1"}}"#;
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web-0", "namespace": "shop", "uid": "1", "resourceVersion": "7", "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "deletionTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"app": "web", "tier": "front"}, "managedFields": [{"fieldsV1": {"f:metadata": {}}}],
                "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "2", "controller": true}],
                "annotations": {
                    names::INJECT: "false", names::HASH: record, names::HASH_WITHOUT_IMAGE: record, names::INJECTED_LIST: "mesh",
                    names::QUOTA_PLACE: "p", names::WORKING_HOT_UPGRADE_CONTAINER: r#"{"proxy":"proxy-1"}"#,
                    names::IN_PLACE_UPDATE_STATE: r#"{"mesh":{"revision":"h","updateTimestamp":"2026-01-01T00:00:00Z","lastContainerStatuses":{"proxy":{"imageID":"proxy@0"}}}}"#,
                },
            },
            "spec": {
                "nodeName": "node-1", "volumes": [{"name": "v"}],
                "initContainers": [{"name": "agent", "image": "agent:1", "restartPolicy": "Always", "env": [{"name": "IS_INJECTED", "value": "true"}]}],
                "containers": [
                    {"name": "app", "image": "web:1", "resources": {"limits": {"cpu": "1"}}},
                    {"name": "proxy", "image": "proxy:1", "env": [{"name": "IS_INJECTED", "value": "true"}]},
                ],
            },
            "status": {
                "phase": "Running", "observedGeneration": 1, "initContainerStatuses": [status("agent")],
                "containerStatuses": [status("app"), status("proxy")],
                "conditions": [
                    {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z"},
                    {"type": names::UPGRADABLE_CONDITION, "status": "True", "message": r#"{"mesh":true}"#},
                ],
            },
        })
    }

    #[test]
    fn what_is_not_read_of_a_pod_is_not_looked_at() {
        let whole = PodView::new(&Pod::new(rich()).unwrap(), &mut Texts::default());
        let seen = CachedPod::of(serde_json::from_str(&rich().to_string()).unwrap()).unwrap();
        assert_eq!(seen.0, whole);
    }
}
