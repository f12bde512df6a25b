//! What this machine lets its user do.

use serde::{Deserialize, Serialize};

/// What this machine lets its user do for pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct Abilities {
    /// Pods are in a user namespace, in which the user may do what else only root may. Root needs none.
    pub user_namespaces: bool,
    /// Containers have process namespaces, with a `/proc` of their own.
    pub pid_namespaces: bool,
    /// Volumes can be mounted.
    pub mounts: bool,
    /// Pods can have a hostname.
    pub hostnames: bool,
}

impl Abilities {
    /// Whether it can be detected at all.
    pub(crate) fn any(self) -> bool {
        self.pid_namespaces || self.mounts || self.hostnames
    }
}
