//! Takes away whatever a run may have left, however it ended.
//!
//! Nothing is remembered for this: processes carry a mark, the link and the cgroup have one name, mounts and files are
//! in the folder. So it does not matter how far the run had come, and doing it twice does no harm.

use std::fs;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use nix::sys::signal::Signal;
use nix::unistd::geteuid;

use crate::folder::Folder;
use crate::lock::Lock;
use crate::{cgroups, mounts, network, process};

/// How long a killed process may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes away everything but processes and the folder. The lock says that no other run has the same names.
pub(crate) fn outside_the_folder(folder: &Folder, _lock: &Lock) -> anyhow::Result<()> {
    // Nobody else can have made any of these.
    if geteuid().is_root() {
        network::remove_link()?;
        cgroups::remove()?;
        mounts::unmount_within(folder)?;
    }
    Ok(())
}

/// Takes away everything but processes.
pub(crate) fn all_but_processes(folder: &Folder, lock: &Lock) -> anyhow::Result<()> {
    outside_the_folder(folder, lock)?;
    match fs::remove_dir_all(folder.path()) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot delete {}", folder.path().display()))
        }
        _ => Ok(()),
    }
}

/// Takes away everything that a supervisor left that could not do so itself.
pub(crate) fn after_a_crash(folder: &Folder, lock: &Lock) -> anyhow::Result<()> {
    end_processes(folder)?;
    all_but_processes(folder, lock)
}

/// Process ids are the host's here, so this is not for a supervisor, which may have a process namespace of its own.
fn end_processes(folder: &Folder) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = process::marked(folder);
        let Some(first) = left.first() else { return Ok(()) };
        if Instant::now() > deadline {
            bail!("process {} does not end", first.pid);
        }
        for process in left {
            process.signal(Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
