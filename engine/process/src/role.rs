//! What this program is when it has started itself again.

use std::ffi::OsStr;
use std::io;
use std::os::fd::AsFd as _;
use std::process::{Command, ExitCode, Stdio};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::channel::Channel;

mod child;
mod command;
mod container;
mod guard;
mod pod;
pub(crate) mod probe;
mod starter;

/// The hidden first argument.
const ASKED: &str = "supervise-pillion-pods";

/// What a process of this program can be but itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Finds out what the machine allows.
    Probe,
    /// Is in a process namespace of its own, and sees whether that gets a `/proc`.
    ProbeProc,
    /// Starts the supervisors of pods, which are children of its own.
    Starter,
    /// Becomes the command of a container.
    Command,
}

impl Role {
    const ALL: [Role; 4] = [Role::Probe, Role::ProbeProc, Role::Starter, Role::Command];

    fn name(self) -> &'static str {
        match self {
            Role::Probe => "probe",
            Role::ProbeProc => "probe-proc",
            Role::Starter => "starter",
            Role::Command => "command",
        }
    }

    /// This program again, in this role, with nothing of the environment.
    pub(crate) fn of(self, program: impl AsRef<OsStr>, configuration: &impl Serialize) -> io::Result<Command> {
        let mut command = Command::new(program);
        command.args([ASKED, self.name()]).arg(serde_json::to_string(configuration)?).env_clear();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }
}

/// If this process was started to supervise pods, its whole life. A program that runs pods calls this before anything
/// else, while it has one thread, and ends with the exit code if there is one.
pub fn supervise_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next()? != ASKED {
        return None;
    }
    let name = arguments.next()?;
    let role = Role::ALL.into_iter().find(|role| role.name() == name)?;
    let done = run(role, &arguments.next().unwrap_or_default());
    Some(if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run(role: Role, configuration: &str) -> io::Result<()> {
    fn parse<T: DeserializeOwned>(configuration: &str) -> io::Result<T> {
        Ok(serde_json::from_str(configuration)?)
    }
    match role {
        Role::Probe => probe::probe(&parse(configuration)?),
        Role::ProbeProc => Ok(crate::namespaces::mount_proc()?),
        Role::Starter => starter::start_pods(),
        Role::Command => command::become_command(),
    }
}

/// A descriptor that can be read when a child has ended. Commands start with nothing blocked: the standard library sees
/// to it.
fn children_ended() -> io::Result<SignalFd> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.thread_block()?;
    Ok(SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?)
}

/// Why a supervisor has woken up.
struct Woken {
    /// Something has come through its socket, or nothing will come any more.
    asked: bool,
    child_ended: bool,
}

/// Waits until a supervisor is asked for something, or a child has ended; or for the timeout.
fn wait(channel: &Channel, ended: &SignalFd, timeout: PollTimeout) -> io::Result<Woken> {
    let mut sources = [PollFd::new(channel.as_fd(), PollFlags::POLLIN), PollFd::new(ended.as_fd(), PollFlags::POLLIN)];
    poll(&mut sources, timeout)?;
    let [asked, child_ended] = sources.map(|source| source.any().unwrap_or(true));
    Ok(Woken { asked, child_ended })
}
