//! A child process: it gets every signal, its orphans are reaped, and it dies with this process.

use std::ffi::OsString;
use std::io::{self, PipeReader};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::getppid;

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
    pid: libc::pid_t,
    signals: SignalFd,
}

/// How a child has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    /// Its exit code; 128 plus the signal if one ended it.
    pub(crate) code: u8,
    /// Who asked it to end, if anybody did.
    pub(crate) asked: Option<Asked>,
}

/// Who asked a child to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The kubelet, as it asks every container of a pod that is deleted.
    Outside,
    /// The wrapper, because the work is done.
    AfterWork,
}

/// Blocks the signals that are forwarded. Call it before any thread is made: they inherit it.
pub(crate) fn block_signals() -> Result<SignalFd, Error> {
    let mut set = SigSet::all();
    for signal in KEPT.into_iter().filter(|signal| *signal != Signal::SIGCHLD) {
        set.remove(signal);
    }
    set.thread_block().map_err(Error::system("block signals"))?;
    SignalFd::with_flags(&set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).map_err(Error::system("receive signals"))
}

impl Child {
    /// Runs a command. Whatever it starts and leaves behind is reaped here.
    pub(crate) fn start(command: &[OsString], signals: SignalFd) -> Result<Child, Error> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::Usage("the command is missing".to_owned()));
        };
        // As process 1 it is that anyway.
        set_child_subreaper(true).map_err(Error::system("adopt orphans"))?;
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
        Ok(Child { pid: child.id().cast_signed(), signals })
    }

    /// Waits for the end of the child. When `work` says that the work is done the child is asked to end, unless it was asked before, and killed
    /// after `grace`. Many programs take a second TERM for the wish to end without cleaning up, so that there is never more than one.
    pub(crate) fn wait(&self, work: Option<&PipeReader>, grace: Duration) -> Result<Ended, Error> {
        let mut kill_at: Option<Instant> = None;
        let mut asked = None;
        loop {
            if let Some(code) = self.reap()? {
                return Ok(Ended { code, asked });
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
                Err(error) => return Err(Error::system("wait for signals")(error)),
            }
            let is_done = fds.get(1).and_then(PollFd::any).unwrap_or(false);
            drop(fds);
            // What came first counts: a deletion may be what has ended the work.
            self.forward(&mut asked);
            if is_done {
                if asked.is_none() {
                    asked = Some(Asked::AfterWork);
                    self.signal(libc::SIGTERM);
                }
                kill_at = Some(Instant::now() + grace);
            } else if kill_at.is_some_and(|at| at <= Instant::now()) {
                self.signal(libc::SIGKILL);
                // It is gone soon, and there is nothing to do but to wait for it.
                kill_at = Some(Instant::now() + Duration::from_hours(1));
            }
        }
    }

    /// Reaps whatever has ended; the code of the child, if it is among that.
    fn reap(&self) -> Result<Option<u8>, Error> {
        let mut code = None;
        loop {
            let mut status = 0;
            #[expect(unsafe_code, reason = "nix cannot read the status of a process that a real-time signal ended")]
            // SAFETY: the pointer is to a local variable, and the call keeps no copy of it.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            match Errno::result(pid) {
                Ok(pid) if pid == self.pid => code = code_of(status),
                Ok(0) | Err(Errno::ECHILD) => return Ok(code),
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(Error::system("wait for the command")(error)),
            }
        }
    }

    /// Hands all signals that have come to the child.
    fn forward(&self, asked: &mut Option<Asked>) {
        while let Ok(Some(received)) = self.signals.read_signal() {
            match i32::try_from(received.ssi_signo).unwrap_or_default() {
                libc::SIGCHLD => {}
                libc::SIGTERM if *asked == Some(Asked::AfterWork) => {}
                number => {
                    if number == libc::SIGTERM {
                        *asked = Some(Asked::Outside);
                    }
                    self.signal(number);
                }
            }
        }
    }

    /// Sends a signal, real-time ones included.
    fn signal(&self, number: i32) {
        #[expect(unsafe_code, reason = "nix does not know real-time signals")]
        // SAFETY: the call takes numbers only. It may fail because the child has ended: then it is reaped next.
        let _ = unsafe { libc::kill(self.pid, number) };
    }
}

/// The exit code that runtimes give a process; `None` of one that has not ended.
fn code_of(status: i32) -> Option<u8> {
    if libc::WIFEXITED(status) {
        u8::try_from(libc::WEXITSTATUS(status)).ok()
    } else if libc::WIFSIGNALED(status) {
        u8::try_from(128 + libc::WTERMSIG(status)).ok()
    } else {
        None
    }
}
