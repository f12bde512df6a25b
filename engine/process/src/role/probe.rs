//! Finds out what the machine allows, by doing it.

use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};

use super::Role;
use crate::abilities::Abilities;
use crate::message::User;
use crate::namespaces::{new_mount_namespace, new_user_namespace};

/// What a probe needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) caller: User,
    /// An empty folder.
    pub(crate) staging: PathBuf,
}

/// Writes what the machine allows to the standard output.
pub(super) fn probe(probe: &Probe) -> io::Result<()> {
    let mut abilities = Abilities::default();
    let mut isolated = probe.caller.uid == 0 && new_mount_namespace().is_ok();
    if !isolated {
        abilities.user_namespaces = new_user_namespace(User { uid: 0, gid: 0 }, probe.caller).is_ok();
        isolated = abilities.user_namespaces && new_mount_namespace().is_ok();
    }
    abilities.mounts = isolated && can_mount(probe).is_ok();
    abilities.hostnames = isolated && unshare(CloneFlags::CLONE_NEWUTS).is_ok();
    // Last, since from here on children are in the new namespace.
    abilities.pid_namespaces = isolated && unshare(CloneFlags::CLONE_NEWPID).is_ok() && proc_can_be_mounted();
    serde_json::to_writer(io::stdout(), &abilities)?;
    io::stdout().flush()
}

fn can_mount(probe: &Probe) -> io::Result<()> {
    let staging = &probe.staging;
    mount(Some("tmpfs"), staging, Some("tmpfs"), MsFlags::empty(), None::<&str>)?;
    let folder = staging.join("folder");
    fs::create_dir(&folder)?;
    Ok(mount(Some("/"), &folder, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)?)
}

/// Inside of containers, parts of `/proc` are often hidden, and then the kernel refuses a new one.
fn proc_can_be_mounted() -> bool {
    let child = Role::ProbeProc.of("/proc/self/exe", &()).and_then(|mut command| command.status());
    child.is_ok_and(|status| status.success())
}
