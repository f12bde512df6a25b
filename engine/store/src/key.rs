//! What an object is found by.

use std::fmt;
use std::sync::Arc;

/// Where an object is. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The plural name and the group, as in `pods` and `deployments.apps`.
    pub resource: Arc<str>,
    /// Empty for what belongs to no namespace.
    pub namespace: Arc<str>,
    /// `metadata.name`.
    pub name: Arc<str>,
}

impl Key {
    /// The key of an object; `namespace` is empty for what belongs to none.
    pub fn new(resource: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, name: impl Into<Arc<str>>) -> Key {
        Key { resource: resource.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// As etcd has it: `pods/default/web`, `nodes/one`.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)?;
        if !self.namespace.is_empty() {
            write!(f, "/{}", self.namespace)?;
        }
        write!(f, "/{}", self.name)
    }
}
