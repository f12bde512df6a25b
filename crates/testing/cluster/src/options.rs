//! What kind of cluster to bring up.

use std::path::PathBuf;

use crate::version::KubernetesVersion;

/// What kind of cluster.
#[derive(Debug, Clone)]
pub struct Options {
    pub kubernetes: KubernetesVersion,
    /// etcd and kube-apiserver alone: no node, no controllers, and no need for root.
    pub control_plane_only: bool,
    /// Whether missing system packages may be installed.
    pub install: bool,
    /// A program that begins with [`crate::supervise_if_asked`]: the cluster outlives its caller, so its supervisor is a
    /// process of its own.
    pub supervisor: PathBuf,
}

/// A whole cluster of the default version, supervised by the running program. Packages are installed by root in CI.
impl Default for Options {
    fn default() -> Self {
        Self {
            kubernetes: KubernetesVersion::default(),
            control_plane_only: false,
            install: is_ci() && nix::unistd::geteuid().is_root(),
            // This very program, even if another has taken its place on disk while Kubernetes was being built.
            supervisor: "/proc/self/exe".into(),
        }
    }
}

/// Whether this is a run where nothing may be skipped: `CI=true`.
pub fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}
