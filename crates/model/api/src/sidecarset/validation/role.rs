//! The role of a container in a pod, which depends on the list it is in.

use crate::field::Path;
use crate::sidecarset::{SidecarContainer, SidecarSetSpec};

/// Which list a container is in, and so what it may have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// One of `containers`.
    Sidecar,
    /// One of `initContainers` with `restartPolicy: Always`.
    NativeSidecar,
    /// One of `initContainers` that ends before the app starts.
    Init,
}

/// Each container with its role and path; `containers` first, so that a clash of names is the init container's fault.
pub(super) fn each(spec: &SidecarSetSpec) -> impl Iterator<Item = (&SidecarContainer, Role, Path)> {
    let path = |list: &'static str, i: usize| Path::new("spec").child(list).index(i);
    let role = |init: &SidecarContainer| if init.is_native_sidecar() { Role::NativeSidecar } else { Role::Init };
    let sidecars = spec.containers.iter().enumerate();
    let inits = spec.init_containers.iter().enumerate();
    let sidecars = sidecars.map(move |(i, container)| (container, Role::Sidecar, path("containers", i)));
    sidecars.chain(inits.map(move |(i, container)| (container, role(container), path("initContainers", i))))
}
