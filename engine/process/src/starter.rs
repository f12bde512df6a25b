//! The process that starts the supervisors of pods, as the program sees it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Child;
use std::sync::{Mutex, PoisonError};

use crate::channel::Channel;
use crate::message::PodConfig;
use crate::role::Role;

/// Starts guards of pods.
#[derive(Debug)]
pub(crate) struct Starter {
    program: PathBuf,
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    channel: Channel,
    process: Child,
}

impl Starter {
    /// One of this program. It is started with the first pod.
    pub(crate) fn new(program: PathBuf) -> Starter {
        Starter { program, running: Mutex::new(None) }
    }

    /// Starts a guard with these standard streams. They close when it ends, or could not be started.
    pub(crate) fn start(&self, config: &PodConfig, streams: [BorrowedFd<'_>; 3]) -> io::Result<()> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = running.as_mut() {
            if now.channel.send_with(config, &streams).is_ok() {
                return Ok(());
            }
            // Somebody has killed it. Its pods go on, and others need a new one.
            let _ = now.process.wait();
        }
        let now = running.insert(Running::new(&self.program)?);
        now.channel.send_with(config, &streams)
    }
}

impl Running {
    fn new(program: &PathBuf) -> io::Result<Running> {
        let (near, far) = UnixStream::pair()?;
        let process = Role::Starter.of(program, &())?.stdin(OwnedFd::from(far)).spawn()?;
        Ok(Running { channel: Channel::new(near), process })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends when nobody can ask it for anything.
        let _ = self.channel.close();
        let _ = self.process.wait();
    }
}
