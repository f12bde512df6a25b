//! Namespaces for a user without privileges, and for root.

use std::fs;
use std::io;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgid, setgroups, setuid};

use crate::message::User;
use crate::start_error::StartError;

/// A user namespace with one user in it: `inside` there is `outside` here. The process must have one thread.
pub(crate) fn new_user_namespace(inside: User, outside: User) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWUSER)?;
    // Without a say over groups the kernel lets everybody map his own.
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{} {} 1", inside.uid, outside.uid))?;
    fs::write("/proc/self/gid_map", format!("{} {} 1", inside.gid, outside.gid))
}

/// A mount namespace whose mounts the machine does not see.
pub(crate) fn new_mount_namespace() -> nix::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
}

/// A `/proc` of the process namespace that this process is in.
pub(crate) fn mount_proc() -> nix::Result<()> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("proc"), "/proc", Some("proc"), flags, None::<&str>)
}

/// Becomes `wanted`. In a user namespace there is only one user, who gets another name.
pub(crate) fn become_user(wanted: User) -> Result<(), StartError> {
    let now = User { uid: Uid::effective().as_raw(), gid: Gid::effective().as_raw() };
    if wanted == now {
        return Ok(());
    }
    let problem = |problem: String| StartError::User { uid: wanted.uid, gid: wanted.gid, problem };
    if now.uid != 0 {
        return Err(problem(format!("this is user {}, and this machine allows no user namespaces", now.uid)));
    }
    if single_user() {
        return new_user_namespace(wanted, now).map_err(|error| problem(error.to_string()));
    }
    setgroups(&[])
        .and_then(|()| setgid(Gid::from_raw(wanted.gid)))
        .and_then(|()| setuid(Uid::from_raw(wanted.uid)))
        .map_err(|error| problem(error.desc().to_owned()))
}

/// Whether this user namespace has one user only.
fn single_user() -> bool {
    fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.split_whitespace().nth(2) == Some("1"))
}
