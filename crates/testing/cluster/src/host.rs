//! What this machine can do: found out, never assumed. Each limit has one workaround, applied where it is detected.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, OVERLAYFS_SUPER_MAGIC, statfs};

/// The bit of `CAP_SYS_RESOURCE` in a capability set.
const CAP_SYS_RESOURCE: u32 = 24;

/// The limits of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Host {
    /// The cgroup hierarchy is version 1, which the kubelet refuses by default.
    pub cgroup_v1: bool,
    /// Nobody may lower an `oom_score_adj`, so containers are not given a score below containerd's own.
    pub(crate) oom_score_is_fixed: bool,
    /// The run's folder is on an overlay filesystem, on which no other overlay can be stacked.
    pub(crate) folder_is_on_overlay: bool,
}

impl Host {
    /// Looks at this machine.
    pub(crate) fn detect(folder: &Path) -> anyhow::Result<Self> {
        let filesystem = |path: &Path| {
            statfs(path)
                .map(|found| found.filesystem_type())
                .with_context(|| format!("cannot tell the filesystem of {}", path.display()))
        };
        let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
        Ok(Self {
            cgroup_v1: filesystem(Path::new("/sys/fs/cgroup"))? != CGROUP2_SUPER_MAGIC,
            oom_score_is_fixed: !has_capability(&status, CAP_SYS_RESOURCE),
            folder_is_on_overlay: filesystem(folder)? == OVERLAYFS_SUPER_MAGIC,
        })
    }
}

/// Whether the effective set in `/proc/PID/status` has a capability.
fn has_capability(status: &str, capability: u32) -> bool {
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|set| u64::from_str_radix(set.trim(), 16).ok())
        .is_some_and(|set| set & (1 << capability) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_one_bit_of_the_effective_set() {
        assert!(has_capability("Name:\tx\nCapPrm:\t0\nCapEff:\t000001ffffffffff\n", CAP_SYS_RESOURCE));
        assert!(!has_capability("CapPrm:\t000001ffffffffff\nCapEff:\t000001fffeffffff\n", CAP_SYS_RESOURCE));
        assert!(!has_capability("CapEff:\tgarbage\n", CAP_SYS_RESOURCE));
        assert!(!has_capability("", CAP_SYS_RESOURCE));
    }
}
