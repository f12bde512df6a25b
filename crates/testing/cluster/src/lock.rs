//! One cluster at a time on a machine.
//!
//! The lock is a Unix socket with an abstract name: the kernel frees it when its holder ends in whatever way, it is
//! not a file that could be left behind, and it is the same one whatever user and cache folder a run has. What a run
//! names the same on every machine (its link, its cgroup) is thereby the lock holder's alone.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::{Duration, Instant};

/// Held as long as it lives.
#[derive(Debug)]
pub(crate) struct Lock(#[expect(dead_code, reason = "the open socket is the lock")] UnixListener);

impl Lock {
    /// The lock of this machine, or `None` when somebody else has it after `patience`.
    pub(crate) fn acquire(patience: Duration) -> io::Result<Option<Self>> {
        Self::acquire_named("pillion-cluster", patience)
    }

    fn acquire_named(name: &str, patience: Duration) -> io::Result<Option<Self>> {
        let address = SocketAddr::from_abstract_name(name)?;
        let deadline = Instant::now() + patience;
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(socket) => return Ok(Some(Self(socket))),
                Err(error) if error.kind() != io::ErrorKind::AddrInUse => return Err(error),
                Err(_) if Instant::now() >= deadline => return Ok(None),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_is_free_again_when_its_holder_is_gone() {
        let name = format!("pillion-lock-test-{}", std::process::id());
        let take = || Lock::acquire_named(&name, Duration::ZERO).unwrap();
        let held = take();
        assert!(held.is_some());
        assert!(take().is_none());
        drop(held);
        assert!(take().is_some());
    }
}
