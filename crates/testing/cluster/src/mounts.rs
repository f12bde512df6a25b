//! The node's mounts: a mount namespace of its own.
//!
//! containerd and the kubelet mount a lot, and write to fixed places of the host besides (`/run/containerd`,
//! `/run/netns`, `/var/lib/cni`, `/var/lib/kubelet/device-plugins`, `/var/log/containers`, `/proc/sys/vm`, …). In here
//! they see the host's files, but what they write under [`SHADOWED`] or to [`KERNEL_SETTINGS`] lands in memory, and
//! all of it is gone with the last process.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, setns, unshare};

use crate::folder::Folder;

/// The folders of the host that get a layer of the run's own on top.
const SHADOWED: [&str; 2] = ["/run", "/var"];

/// Settings of the whole machine that the kubelet sets when it starts.
const KERNEL_SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

const NOTHING: Option<&str> = None;

/// The way back to the host's mounts.
#[derive(Debug)]
pub(crate) struct HostMounts(File);

impl HostMounts {
    /// Leaves the namespace that [`enter`] made. Files are deleted from out here only: a mount in a folder that is
    /// being deleted would have the files behind it deleted as well.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        setns(&self.0, CloneFlags::CLONE_NEWNS).context("cannot go back to the host's mounts")
    }
}

/// Moves this process, which must have a single thread, into a mount namespace of its own.
pub(crate) fn enter(folder: &Folder) -> anyhow::Result<HostMounts> {
    let host = File::open("/proc/self/ns/mnt").context("cannot open the mount namespace")?;
    unshare(CloneFlags::CLONE_NEWNS).context("cannot make a mount namespace")?;
    // Where the folder is under something shadowed, this is the way to it.
    let run = File::open(folder.path()).context("cannot open the run's folder")?;
    // Nothing goes out to the host. Inside, mounts are shared, as pods with `mountPropagation` need.
    for propagation in [MsFlags::MS_SLAVE, MsFlags::MS_SHARED] {
        mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | propagation, NOTHING).context("cannot keep mounts inside")?;
    }
    mount_at(Some(Path::new("proc")), Path::new("/proc"), Some("proc"), MsFlags::empty(), None)?;

    let layers = folder.temporary().join("layers");
    fs::create_dir_all(&layers)?;
    mount_at(Some(Path::new("tmpfs")), &layers, Some("tmpfs"), MsFlags::empty(), None)?;
    for (index, shadowed) in SHADOWED.iter().enumerate() {
        let (upper, work) = (layers.join(format!("upper{index}")), layers.join(format!("work{index}")));
        fs::create_dir(&upper)?;
        fs::create_dir(&work)?;
        let options = format!("lowerdir={shadowed},upperdir={},workdir={}", upper.display(), work.display());
        mount_at(Some(Path::new("overlay")), Path::new(shadowed), Some("overlay"), MsFlags::empty(), Some(&options))?;
    }
    if SHADOWED.iter().any(|shadowed| folder.path().starts_with(shadowed)) {
        let run = PathBuf::from(format!("/proc/self/fd/{}", run.as_raw_fd()));
        mount_at(Some(&run), folder.path(), None, MsFlags::MS_BIND | MsFlags::MS_REC, None)?;
    }
    for (index, setting) in KERNEL_SETTINGS.iter().map(Path::new).enumerate().filter(|(_, path)| path.exists()) {
        let copy = layers.join(format!("setting{index}"));
        fs::write(&copy, fs::read(setting)?)?;
        mount_at(Some(&copy), setting, None, MsFlags::MS_BIND, None)?;
    }
    Ok(HostMounts(host))
}

fn mount_at(
    source: Option<&Path>,
    target: &Path,
    kind: Option<&str>,
    flags: MsFlags,
    options: Option<&str>,
) -> anyhow::Result<()> {
    mount(source, target, kind, flags, options)
        .with_context(|| format!("cannot mount {} on {}", kind.unwrap_or("a copy"), target.display()))
}

/// Unmounts whatever is mounted in `folder`, the innermost first.
pub(crate) fn unmount_within(folder: &Folder) -> anyhow::Result<()> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    for target in within(&table, folder.path()).into_iter().rev() {
        umount2(&target, MntFlags::MNT_DETACH).with_context(|| format!("cannot unmount {}", target.display()))?;
    }
    Ok(())
}

/// The mount points at or under `folder`, in the order of a mountinfo table: what covers comes after what is covered.
fn within(table: &str, folder: &Path) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|escaped| PathBuf::from(unescape(escaped)))
        .filter(|target| target.starts_with(folder))
        .collect()
}

/// The cgroup hierarchies that are mounted: one of version 2, or several of version 1.
pub(crate) fn cgroup_hierarchies(table: &str) -> Vec<PathBuf> {
    table
        .lines()
        .filter(|line| {
            line.split_once(" - ").is_some_and(|(_, rest)| rest.starts_with("cgroup ") || rest.starts_with("cgroup2 "))
        })
        .filter_map(|line| line.split(' ').nth(4))
        .map(|escaped| PathBuf::from(unescape(escaped)))
        .collect()
}

/// mountinfo writes a space, a tab, a newline and a backslash as three octal digits behind a backslash.
fn unescape(text: &str) -> String {
    let mut pieces = text.split('\\');
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let escaped =
            piece.split_at_checked(3).and_then(|(digits, rest)| Some((u8::from_str_radix(digits, 8).ok()?, rest)));
        let (byte, rest) = escaped.unwrap_or((b'\\', piece));
        plain.push(char::from(byte));
        plain.push_str(rest);
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
31 22 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
40 22 0:30 / /c/cluster/data/kubelet/pods/1/volumes/a rw - tmpfs tmpfs rw
41 40 0:31 / /c/cluster/data/kubelet/pods/1/volumes/a/with\\040space rw - tmpfs tmpfs rw
42 22 0:32 / /c/cluster-of-another rw - tmpfs tmpfs rw
";

    #[test]
    fn only_mounts_inside_the_folder_are_its_own() {
        assert_eq!(
            within(TABLE, Path::new("/c/cluster")),
            [
                PathBuf::from("/c/cluster/data/kubelet/pods/1/volumes/a"),
                PathBuf::from("/c/cluster/data/kubelet/pods/1/volumes/a/with space"),
            ]
        );
    }

    #[test]
    fn both_versions_of_cgroups_are_found() {
        assert_eq!(
            cgroup_hierarchies(TABLE),
            [PathBuf::from("/sys/fs/cgroup/memory"), PathBuf::from("/sys/fs/cgroup/unified")]
        );
    }

    #[test]
    fn octal_escapes_are_undone_and_others_kept() {
        for (escaped, plain) in [("a\\040b", "a b"), ("a\\134", "a\\"), ("a\\9", "a\\9"), ("\\", "\\"), ("", "")] {
            assert_eq!(unescape(escaped), plain);
        }
    }
}
