//! The name of an object within its kind.

use std::fmt;
use std::sync::Arc;

/// Namespace and name of an object; the namespace of a cluster-scoped object is empty. Clones are cheap.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace, or an empty string.
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl NamespacedName {
    /// The object of this name in a namespace.
    pub fn new(namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> NamespacedName {
        NamespacedName { namespace: namespace.into(), name: name.into() }
    }

    /// The cluster-scoped object of this name.
    pub fn cluster_scoped(name: impl Into<Arc<str>>) -> NamespacedName {
        NamespacedName::new("", name)
    }

    pub fn of<K: kube::Resource>(object: &K) -> NamespacedName {
        let metadata = object.meta();
        NamespacedName::new(
            metadata.namespace.as_deref().unwrap_or_default(),
            metadata.name.as_deref().unwrap_or_default(),
        )
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
