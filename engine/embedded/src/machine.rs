//! What this machine has for pods.

use std::path::Path;

use nix::sys::statvfs::statvfs;
use pillion_node::Capacity;
use pillion_quantity::Quantity;

/// More than the 110 of a kubelet: pods here need neither a network nor a file system of their own.
const PODS: u64 = 500;

/// The machine's cores and memory, and the disk of the folder that pods are kept in.
pub(crate) fn capacity(folder: &Path) -> Capacity {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    // A machine that does not say what memory it has is taken for a small one.
    let memory = memory_kibibytes().unwrap_or(1024 * 1024);
    let quantity = |text: String| text.parse().unwrap_or(Quantity::ZERO);
    Capacity {
        cpu: quantity(cores.to_string()),
        memory: quantity(format!("{memory}Ki")),
        ephemeral_storage: quantity(format!("{}Ki", disk_kibibytes(folder).unwrap_or_default())),
        pods: PODS,
    }
}

/// More than any simulation asks for.
pub(crate) fn boundless() -> Capacity {
    let quantity = |text: &str| text.parse().unwrap_or(Quantity::ZERO);
    Capacity { cpu: quantity("1M"), memory: quantity("1Pi"), ephemeral_storage: quantity("1Ei"), pods: 1_000_000 }
}

fn memory_kibibytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

fn disk_kibibytes(folder: &Path) -> Option<u64> {
    let disk = statvfs(folder).ok()?;
    Some(disk.blocks().saturating_mul(disk.fragment_size()) / 1024)
}
