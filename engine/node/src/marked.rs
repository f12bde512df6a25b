//! Pods with the marks of their sidecars, for which the typed pod has no place.

use std::borrow::Cow;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use pillion_lifecycle::Marked;
use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

/// What the node's watch reads: a pod, and which of its containers are marked as sidecars.
pub(crate) trait Watched: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Send + 'static {
    fn into_parts(self) -> (Pod, Marked);
}

/// Without the field `sidecar` nothing is marked, and nothing more than the pod is read.
impl Watched for Pod {
    fn into_parts(self) -> (Pod, Marked) {
        (self, Marked::NONE)
    }
}

/// A pod whose containers may have the field `sidecar`.
#[derive(Clone, Debug)]
pub(crate) struct MarkedPod {
    pod: Pod,
    marked: Marked,
}

impl Watched for MarkedPod {
    fn into_parts(self) -> (Pod, Marked) {
        (self.pod, self.marked)
    }
}

impl<'de> Deserialize<'de> for MarkedPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MarkedPod, D::Error> {
        let object = Value::deserialize(deserializer)?;
        let marked = Marked::of(&object);
        let pod = serde_json::from_value(object).map_err(de::Error::custom)?;
        Ok(MarkedPod { pod, marked })
    }
}

impl Resource for MarkedPod {
    type DynamicType = ();
    type Scope = <Pod as Resource>::Scope;

    fn kind(dynamic: &()) -> Cow<'_, str> {
        Pod::kind(dynamic)
    }

    fn group(dynamic: &()) -> Cow<'_, str> {
        Pod::group(dynamic)
    }

    fn version(dynamic: &()) -> Cow<'_, str> {
        Pod::version(dynamic)
    }

    fn plural(dynamic: &()) -> Cow<'_, str> {
        Pod::plural(dynamic)
    }

    fn meta(&self) -> &ObjectMeta {
        self.pod.meta()
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        self.pod.meta_mut()
    }
}
