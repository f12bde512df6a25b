//! The workload kinds as their controllers see them. Pod templates are the JSON that came, so that no field of a pod is lost on its way.

use std::fmt::Debug;

use k8s_openapi::api::apps::v1::{
    DaemonSetStatus, DaemonSetUpdateStrategy, DeploymentStatus, DeploymentStrategy, ReplicaSetStatus,
    StatefulSetOrdinals, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetStatus, StatefulSetUpdateStrategy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt as _};
use pillion_informer::View;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An object that a cache holds as it is. A controller that needs little of a kind declares a type with only that.
pub(crate) trait Cached:
    kube::Resource<DynamicType = ()> + View<Object = Self> + Clone + Debug + DeserializeOwned
{
}

impl<K> Cached for K where K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static
{}

/// A kind that finds its children by their labels.
pub(crate) trait Selecting: Cached {
    fn selector(&self) -> &LabelSelector;

    /// Whether the selector wants these labels. One that cannot be read, or is empty, wants nothing.
    fn selects(&self) -> impl Fn(&ObjectMeta) -> bool + Send + Sync + use<Self> {
        let selector = Selector::try_from(self.selector().clone()).ok().filter(|selector| !selector.selects_all());
        let none = std::collections::BTreeMap::new();
        move |metadata| {
            selector.as_ref().is_some_and(|selector| selector.matches(metadata.labels.as_ref().unwrap_or(&none)))
        }
    }
}

/// Declares a kind of the group apps. What is sent to the server is metadata and status alone: no controller updates its own spec.
macro_rules! kind {
    ($(#[$doc:meta])* $kind:ident, $plural:literal, $spec:ident, $status:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Deserialize, Serialize)]
        pub(crate) struct $kind {
            pub(crate) metadata: ObjectMeta,
            #[serde(skip_serializing)]
            pub(crate) spec: $spec,
            #[serde(default)]
            pub(crate) status: $status,
        }

        impl kube::Resource for $kind {
            type DynamicType = ();
            type Scope = k8s_openapi::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($kind).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                "apps".into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }

        impl Selecting for $kind {
            fn selector(&self) -> &LabelSelector {
                &self.spec.selector
            }
        }
    };
}

kind!(
    /// So many pods of one template.
    ReplicaSet, "replicasets", ReplicaSetSpec, ReplicaSetStatus
);
kind!(
    /// One ReplicaSet takes the place of another.
    Deployment, "deployments", DeploymentSpec, DeploymentStatus
);
kind!(
    /// Pods with names and volumes of their own.
    StatefulSet, "statefulsets", StatefulSetSpec, StatefulSetStatus
);
kind!(
    /// A pod for each node.
    DaemonSet, "daemonsets", DaemonSetSpec, DaemonSetStatus
);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ReplicaSetSpec {
    pub(crate) replicas: Option<i32>,
    pub(crate) min_ready_seconds: i32,
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DeploymentSpec {
    pub(crate) replicas: Option<i32>,
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
    pub(crate) strategy: DeploymentStrategy,
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
    pub(crate) paused: bool,
    pub(crate) progress_deadline_seconds: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct StatefulSetSpec {
    pub(crate) replicas: Option<i32>,
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
    pub(crate) volume_claim_templates: Vec<Value>,
    pub(crate) service_name: Option<String>,
    pub(crate) pod_management_policy: Option<String>,
    pub(crate) update_strategy: StatefulSetUpdateStrategy,
    pub(crate) revision_history_limit: Option<i32>,
    pub(crate) min_ready_seconds: i32,
    pub(crate) persistent_volume_claim_retention_policy: Option<StatefulSetPersistentVolumeClaimRetentionPolicy>,
    pub(crate) ordinals: Option<StatefulSetOrdinals>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct DaemonSetSpec {
    pub(crate) selector: LabelSelector,
    pub(crate) template: Value,
    pub(crate) update_strategy: DaemonSetUpdateStrategy,
    pub(crate) min_ready_seconds: i32,
    pub(crate) revision_history_limit: Option<i32>,
}
