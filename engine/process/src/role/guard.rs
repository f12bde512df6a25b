//! Makes the namespaces of a pod, starts its process 1, and takes away what is left when that ends.

use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::wait::waitpid;
use nix::unistd::sethostname;

use super::child::{self, Streams};
use super::pod;
use crate::message::{PodConfig, User};
use crate::namespaces::{new_mount_namespace, new_user_namespace};
use crate::tree::end_all;

pub(super) fn guard(config: &PodConfig) -> io::Result<()> {
    // For a pod without a process namespace: should its supervisor be killed, its orphans come here.
    set_child_subreaper(true)?;
    let abilities = config.abilities;
    if abilities.user_namespaces && abilities.any() {
        new_user_namespace(User { uid: 0, gid: 0 }, config.caller)?;
    }
    if abilities.mounts || abilities.pid_namespaces {
        new_mount_namespace()?;
    }
    if let (true, Some(hostname)) = (abilities.hostnames, &config.hostname) {
        unshare(CloneFlags::CLONE_NEWUTS)?;
        sethostname(hostname)?;
    }
    if abilities.pid_namespaces {
        unshare(CloneFlags::CLONE_NEWPID)?;
    }
    // The rest of the standard streams is this process's alone: they close with it.
    let streams = Streams { stdin: Some(io::stdin().as_fd().try_clone_to_owned()?), ..Streams::default() };
    let pod = child::spawn(streams, || pod::supervise(config))?;
    let ended = waitpid(pod, None);
    end_all(Path::new("/proc"), drop);
    ended?;
    Ok(())
}
