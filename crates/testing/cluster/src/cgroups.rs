//! The cgroup that all pods of a run are under, so that it can be found and taken away as a whole.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use crate::mounts::cgroup_hierarchies;

/// The name of the cgroup, in every hierarchy.
pub(crate) const CGROUP: &str = "pillion-cluster";

/// How long the kernel may take to let go of the cgroup of a process that has just ended.
const PATIENCE: Duration = Duration::from_secs(10);

fn everywhere() -> anyhow::Result<Vec<PathBuf>> {
    let table = fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    Ok(cgroup_hierarchies(&table).into_iter().map(|hierarchy| hierarchy.join(CGROUP)).collect())
}

/// Makes the cgroup in every hierarchy.
pub(crate) fn create() -> anyhow::Result<()> {
    for cgroup in everywhere()? {
        delegate_all_controllers(&cgroup);
        match fs::create_dir(&cgroup) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make the cgroup {}", cgroup.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

/// In version 2 a cgroup has the controllers that its parent hands down. One that the parent does not have is not
/// missed here: the kubelet says which of those it needs are not there.
fn delegate_all_controllers(cgroup: &Path) {
    let Some(parent) = cgroup.parent() else { return };
    let available = fs::read_to_string(parent.join("cgroup.controllers")).unwrap_or_default();
    for controller in available.split_whitespace() {
        let _ = fs::write(parent.join("cgroup.subtree_control"), format!("+{controller}"));
    }
}

/// Takes the cgroup away, with all under it. Its processes must have been ended before.
pub(crate) fn remove() -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for cgroup in everywhere()? {
        while let Err(error) = remove_tree(&cgroup) {
            if Instant::now() > deadline {
                return Err(error).with_context(|| format!("cannot take away the cgroup {}", cgroup.display()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

/// A cgroup's own files cannot be deleted and go with it, so only folders are.
fn remove_tree(cgroup: &Path) -> std::io::Result<()> {
    let gone = |error: &std::io::Error| error.kind() == ErrorKind::NotFound;
    let children = match fs::read_dir(cgroup) {
        Err(error) if gone(&error) => return Ok(()),
        children => children?,
    };
    for child in children {
        let child = child?;
        if child.file_type()?.is_dir() {
            remove_tree(&child.path())?;
        }
    }
    match fs::remove_dir(cgroup) {
        Err(error) if !gone(&error) => Err(error),
        _ => Ok(()),
    }
}
