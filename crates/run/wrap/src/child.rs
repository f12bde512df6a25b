//! A child process: it gets every signal, its orphans are reaped, and it dies with this process.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};

use crate::error::Error;

/// What a process cannot or should not forward: faults of its own, and what is about its child.
const KEPT: [Signal; 9] = [
    Signal::SIGKILL,
    Signal::SIGSTOP,
    Signal::SIGCHLD,
    Signal::SIGSEGV,
    Signal::SIGBUS,
    Signal::SIGFPE,
    Signal::SIGILL,
    Signal::SIGTRAP,
    Signal::SIGABRT,
];

/// A child, and the signals that are for it.
pub(crate) struct Child {
    pid: Pid,
    signals: SignalFd,
}

/// How a child has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; 128 plus the signal if one ended it.
    pub(crate) code: u8,
    /// It was asked to end because the work was done.
    pub(crate) after_work: bool,
}

/// Blocks the signals that are forwarded. Call it before any thread is made: they inherit it.
pub(crate) fn block_signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::all();
    for signal in KEPT.into_iter().filter(|signal| *signal != Signal::SIGCHLD) {
        set.remove(signal);
    }
    set.thread_block()?;
    Ok(SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?)
}

impl Child {
    /// Runs a command. Whatever it starts and leaves behind is reaped here.
    pub(crate) fn start(command: &[OsString], signals: SignalFd) -> Result<Child, Error> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::Usage("the command is missing".to_owned()));
        };
        // As process 1 it is that anyway.
        set_child_subreaper(true)?;
        let own = nix::unistd::getpid();
        let mut command = Command::new(program);
        command.args(arguments);
        #[expect(unsafe_code, reason = "what a child does before it becomes the command")]
        // SAFETY: the closure makes three system calls, allocates nothing and takes no lock.
        unsafe {
            command.pre_exec(move || {
                SigSet::empty().thread_set_mask()?;
                set_pdeathsig(Signal::SIGKILL)?;
                // The parent may have died before that was in force.
                if getppid() == own { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
            });
        }
        let child =
            command.spawn().map_err(|source| Error::Start { program: program.display().to_string(), source })?;
        Ok(Child { pid: Pid::from_raw(child.id().cast_signed()), signals })
    }

    /// Waits for the end of the child. When `work` says that the work is done the child is asked to end, and killed after `grace`.
    pub(crate) fn wait(&self, work: Option<&PipeReader>, grace: Duration) -> Result<Ended, Error> {
        let mut kill_at: Option<Instant> = None;
        loop {
            if let Some(code) = self.reap()? {
                return Ok(Ended { code, after_work: kill_at.is_some() });
            }
            let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
            if let Some(work) = work.filter(|_| kill_at.is_none()) {
                fds.push(PollFd::new(work.as_fd(), PollFlags::POLLIN));
            }
            let timeout = kill_at.map_or(PollTimeout::NONE, |at| {
                let left = at.saturating_duration_since(Instant::now());
                // Not a moment too early.
                PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
            });
            match poll(&mut fds, timeout) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
            let is_done = fds.get(1).and_then(PollFd::any).unwrap_or(false);
            drop(fds);
            if is_done {
                self.signal(Signal::SIGTERM);
                kill_at = Some(Instant::now() + grace);
            } else if kill_at.is_some_and(|at| at <= Instant::now()) {
                self.signal(Signal::SIGKILL);
                // It is gone soon, and there is nothing to do but to wait for it.
                kill_at = Some(Instant::now() + Duration::from_hours(1));
            }
            self.forward();
        }
    }

    /// Reaps whatever has ended; the code of the child, if it is among that.
    fn reap(&self) -> Result<Option<u8>, Error> {
        let mut code = None;
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, exit)) if pid == self.pid => code = u8::try_from(exit & 0xff).ok(),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.pid => {
                    code = u8::try_from(128 + signal as i32).ok();
                }
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(code),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Hands all signals that have come to the child.
    fn forward(&self) {
        while let Ok(Some(received)) = self.signals.read_signal() {
            let number = i32::try_from(received.ssi_signo).unwrap_or_default();
            if let Ok(signal) = Signal::try_from(number)
                && signal != Signal::SIGCHLD
            {
                self.signal(signal);
            }
        }
    }

    fn signal(&self, signal: Signal) {
        // It may have ended already: then it is reaped next.
        let _ = kill(self.pid, signal);
    }
}
