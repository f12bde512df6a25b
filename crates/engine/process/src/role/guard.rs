//! Makes the namespaces of a pod, starts its process 1, and takes away what is left when that ends.

use std::path::Path;
use std::process::Stdio;
use std::{fs, io};

use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::set_child_subreaper;
use nix::unistd::{close, sethostname};

use super::Role;
use crate::message::{PodConfig, User};
use crate::namespaces::{new_mount_namespace, new_user_namespace};
use crate::tree::end_all;

pub(super) fn guard(config: &PodConfig) -> io::Result<()> {
    close_what_was_left_open()?;
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
    let mut pod = Role::Pod.of("/proc/self/exe", config)?.stdin(Stdio::inherit()).spawn()?;
    let ended = pod.wait();
    end_all(Path::new("/proc"), drop);
    ended.map(drop)
}

/// Descriptors that somebody has left open for all his children, and that are none of a container's business.
fn close_what_was_left_open() -> io::Result<()> {
    let open = fs::read_dir("/proc/self/fd")?.flatten();
    let numbers: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // The one that the list was read from is closed already.
        let _ = close(number);
    }
    Ok(())
}
