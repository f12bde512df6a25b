//! What a cache keeps of an object.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::de::DeserializeOwned;

/// What a cache keeps of an object: the object itself, or a compact view of it.
///
/// Every [`kube::Resource`] is a view of itself, without its `managedFields`. Where many objects are held, declare the object that the watch
/// decodes with the fields that matter, and a view that holds what follows from them: the decoded object is dropped as soon as the view is
/// made, and name, uid, version and owner are kept by the cache itself.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use pillion_informer::View;
///
/// /// Whether a pod runs, and nothing else.
/// struct Running(bool);
///
/// impl View for Running {
///     type Object = Pod;
///
///     fn of(pod: Pod) -> Option<Running> {
///         let status = pod.status?;
///         Some(Running(status.phase.as_deref() == Some("Running")))
///     }
///
///     fn is_same(&self, old: &Running) -> bool {
///         self.0 == old.0
///     }
/// }
/// ```
pub trait View: Send + Sync + Sized + 'static {
    /// What the watch decodes.
    type Object: kube::Resource + Clone + Debug + DeserializeOwned + Send + 'static;

    /// The view of an object, or `None` for an object that the cache leaves out.
    fn of(object: Self::Object) -> Option<Self>;

    /// The view with the optional parts that [`Cache::include`](crate::Cache::include) asks for. Most views have none.
    fn with_parts(object: Self::Object, _parts: u32) -> Option<Self> {
        Self::of(object)
    }

    /// Whether no reader can see a difference to the view before. Such a change is not reported.
    fn is_same(&self, _old: &Self) -> bool {
        false
    }

    /// The groups that the object belongs to, so that [`Cache::in_group`](crate::Cache::in_group) finds it without looking at all others.
    fn groups(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

impl<K> View for K
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    type Object = K;

    fn of(mut object: K) -> Option<K> {
        // Nobody reads it, it is half of the object, and an update that does not name it leaves it as it is.
        object.meta_mut().managed_fields = None;
        Some(object)
    }
}

/// The owner that controls the object, if there is one.
pub fn controller_of<K: kube::Resource>(object: &K) -> Option<&OwnerReference> {
    object.meta().owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}
