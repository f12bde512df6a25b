//! Supervises one attempt of a container: starts its command, runs others inside it, measures it, and ends it.
//!
//! It stays in the pod's process namespace, with the pod's `/proc` as its working directory: whatever the container
//! mounts over `/proc`, the relative path still shows the pod. Its children are in the container's namespace.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::poll::PollTimeout;
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::{Signal, kill};
use nix::sys::signalfd::SignalFd;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, chdir};

use super::{Role, Woken, children_ended, wait};
use crate::channel::Channel;
use crate::listeners::listeners;
use crate::message::{Answer, CommandSpec, Container, Ended, Part, PodConfig, Report, Request, Stdin};
use crate::mounts::{self, Mount};
use crate::namespaces::new_mount_namespace;
use crate::start_error::{StartError, words};
use crate::tree::{Table, end, end_all};
use crate::usage::{Usage, measure};

/// The pod's `/proc`.
const PROC: &str = ".";

/// How often memory is measured while there is a limit, in milliseconds.
const BETWEEN_MEASURES: u8 = 250;

pub(super) fn supervise(config: &PodConfig) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    set_child_subreaper(true)?;
    chdir("/proc")?;
    let mut channel = Channel::from_stdin()?;
    let ended = children_ended()?;
    let Some(Request::Start(container)) = channel.wait()? else { return Ok(()) };
    let Container { command, mounts, memory_limit } = container;
    let streams = match (command.stdin, channel.descriptor()) {
        (Stdin::Terminal, Some(terminal)) => Streams::Terminal(terminal),
        (Stdin::Given, Some(input)) => Streams::Input(input),
        _ => Streams::Own,
    };
    match isolate(config, &command, &mounts).and_then(|()| spawn(&command, streams)) {
        Ok(first) => {
            channel.send(&Report::Started)?;
            let (oom_killed, cpu, execs) = (false, Duration::ZERO, HashMap::new());
            let mut supervisor = Supervisor { channel, ended, command, first, memory_limit, oom_killed, cpu, execs };
            // Whatever goes wrong here, nothing stays.
            let status = supervisor.live().unwrap_or_default();
            supervisor.finish(status)
        }
        Err(error) => channel.send(&Report::NotStarted(error)),
    }
}

/// The container's namespaces, and its mounts.
fn isolate(config: &PodConfig, command: &CommandSpec, volumes: &[Mount]) -> Result<(), StartError> {
    let failed = |error: nix::Error| StartError::other("cannot make namespaces", error.desc());
    let abilities = config.abilities;
    if let (false, Some(mount)) = (abilities.mounts, volumes.first()) {
        return Err(StartError::MountsNotAllowed { target: mount.target.clone() });
    }
    if abilities.mounts || abilities.pid_namespaces {
        new_mount_namespace().map_err(failed)?;
    }
    if abilities.mounts {
        mounts::apply(volumes, command.working_directory.as_deref(), &config.staging)?;
    }
    if config.own_pids() {
        unshare(CloneFlags::CLONE_NEWPID).map_err(failed)?;
    }
    Ok(())
}

/// What a command reads and writes.
enum Streams {
    /// It reads nothing, and writes where this process does.
    Own,
    /// It reads this, and writes where this process does.
    Input(OwnedFd),
    /// It reads nothing, and writes everything here.
    Output(OwnedFd),
    /// It reads and writes a terminal.
    Terminal(OwnedFd),
    /// Input, output and errors.
    Pipes(OwnedFd, OwnedFd, OwnedFd),
}

impl Streams {
    /// Gives a command its output and its errors, if they are not this process's own, and returns its input.
    fn apply(self, command: &mut Command) -> io::Result<Option<OwnedFd>> {
        let (input, output, errors) = match self {
            Streams::Own => {
                command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
                return Ok(None);
            }
            Streams::Input(input) => {
                command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
                return Ok(Some(input));
            }
            Streams::Output(output) => (None, output.try_clone()?, output),
            Streams::Terminal(terminal) => (Some(terminal.try_clone()?), terminal.try_clone()?, terminal),
            Streams::Pipes(input, output, errors) => (Some(input), output, errors),
        };
        command.stdout(Stdio::from(output)).stderr(Stdio::from(errors));
        Ok(input)
    }
}

fn spawn(spec: &CommandSpec, streams: Streams) -> Result<Pid, StartError> {
    let failed = |error: io::Error| StartError::other("cannot start a process", words(&error));
    let (near, far) = UnixStream::pair().map_err(failed)?;
    // Relative to the pod's `/proc`.
    let mut command = Role::Command.of("self/exe", &()).map_err(failed)?;
    command.stdin(Stdio::from(OwnedFd::from(far)));
    let input = streams.apply(&mut command).map_err(failed)?;
    let mut child = command.spawn().map_err(failed)?;
    // Its ends of the socket and the pipe are still in there.
    drop(command);
    let mut channel = Channel::new(near);
    let sent = match &input {
        Some(input) => channel.send_with(spec, &[input.as_fd()]),
        None => channel.send(spec),
    };
    drop(input);
    let answer = sent.and_then(|()| channel.wait::<StartError>());
    match answer {
        Ok(None) => Ok(Pid::from_raw(child.id().try_into().map_err(io::Error::other).map_err(failed)?)),
        Ok(Some(error)) => {
            let _ = child.wait();
            Err(error)
        }
        Err(error) => {
            let _ = child.kill().and_then(|()| child.wait());
            Err(failed(error))
        }
    }
}

struct Supervisor {
    channel: Channel,
    ended: SignalFd,
    /// For the environment and the user of other commands.
    command: CommandSpec,
    first: Pid,
    memory_limit: Option<u64>,
    oom_killed: bool,
    /// The most that was measured.
    cpu: Duration,
    execs: HashMap<Pid, u64>,
}

impl Supervisor {
    /// Until the first process ends, or nobody is there any more to ask.
    fn live(&mut self) -> io::Result<Option<WaitStatus>> {
        loop {
            let timeout = match self.memory_limit {
                Some(_) => PollTimeout::from(BETWEEN_MEASURES),
                None => PollTimeout::NONE,
            };
            let Woken { asked, child_ended } = wait(&self.channel, &self.ended, timeout)?;
            if child_ended && let Some(status) = self.reap()? {
                return Ok(Some(status));
            }
            if asked {
                if !self.channel.receive()? {
                    return Ok(None);
                }
                while let Some(request) = self.channel.next()? {
                    self.handle(request)?;
                }
            }
            self.check_memory();
        }
    }

    /// Waits for all that have ended; the answer is how the first process did.
    fn reap(&mut self) -> io::Result<Option<WaitStatus>> {
        while self.ended.read_signal()?.is_some() {}
        loop {
            match waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::StillAlive) | Err(_) => return Ok(None),
                Ok(status) if status.pid() == Some(self.first) => return Ok(Some(status)),
                Ok(status) => self.other_ended(status),
            }
        }
    }

    fn other_ended(&mut self, status: WaitStatus) {
        if let Some(id) = status.pid().and_then(|pid| self.execs.remove(&pid)) {
            let _ = self.answer(id, Answer::ExecEnded(Ok(code_and_signal(status).0)));
        }
    }

    fn answer(&mut self, id: u64, answer: Answer) -> io::Result<()> {
        self.channel.send(&Report::Answer { id, answer })
    }

    fn handle(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Start(_) => Ok(()),
            Request::Signal(number) => {
                if let Ok(signal) = Signal::try_from(number) {
                    let _ = kill(self.first, signal);
                }
                Ok(())
            }
            Request::Kill => {
                kill_children();
                Ok(())
            }
            Request::MemoryLimit(limit) => {
                self.memory_limit = limit;
                Ok(())
            }
            Request::Exec { id, command } => {
                let streams = self.channel.descriptor().map_or(Streams::Own, Streams::Output);
                self.exec(id, command, Stdin::Null, streams)
            }
            Request::Open { id, command, terminal } => {
                let mut next = || self.channel.descriptor();
                let streams = if terminal {
                    next().map(|terminal| (Stdin::Terminal, Streams::Terminal(terminal)))
                } else {
                    match [next(), next(), next()] {
                        [Some(input), Some(output), Some(errors)] => {
                            Some((Stdin::Given, Streams::Pipes(input, output, errors)))
                        }
                        _ => None,
                    }
                };
                match streams {
                    Some((stdin, streams)) => self.exec(id, command, stdin, streams),
                    None => self.answer(id, Answer::ExecEnded(Err(StartError::other("exec", "no streams were given")))),
                }
            }
            Request::KillExec { id } => {
                if let Some((pid, _)) = self.execs.iter().find(|(_, exec)| **exec == id) {
                    end(Path::new(PROC), *pid);
                }
                Ok(())
            }
            Request::Usage { id } => {
                let usage = self.measure();
                self.answer(id, Answer::Usage(usage))
            }
            Request::Listeners { id } => {
                self.answer(id, Answer::Listeners(listeners(Path::new(PROC), Pid::this().as_raw())))
            }
        }
    }

    /// Starts a further command. Its end is reported.
    fn exec(&mut self, id: u64, command: Vec<String>, stdin: Stdin, streams: Streams) -> io::Result<()> {
        let spec = CommandSpec { command, part: Part::Exec, stdin, ..self.command.clone() };
        match spawn(&spec, streams) {
            Ok(pid) => {
                self.execs.insert(pid, id);
                Ok(())
            }
            Err(error) => self.answer(id, Answer::ExecEnded(Err(error))),
        }
    }

    fn measure(&mut self) -> Usage {
        let usage = measure(Path::new(PROC), Pid::this().as_raw());
        // A child that nobody waits for takes its time with it.
        self.cpu = self.cpu.max(usage.cpu);
        Usage { cpu: self.cpu, ..usage }
    }

    fn check_memory(&mut self) {
        if let Some(limit) = self.memory_limit
            && self.measure().working_set > limit
        {
            self.oom_killed = true;
            kill_children();
        }
    }

    /// With its first process a container ends, whatever else is in it.
    fn finish(mut self, status: Option<WaitStatus>) -> io::Result<()> {
        end_all(Path::new(PROC), |status| self.other_ended(status));
        let Some(status) = status else { return Ok(()) };
        let (code, signal) = code_and_signal(status);
        let oom_killed = self.oom_killed && signal == Some(Signal::SIGKILL as i32);
        self.channel.send(&Report::Ended(Ended { code, signal, oom_killed }))
    }
}

/// SIGKILL to the whole container.
fn kill_children() {
    let table = Table::read(Path::new(PROC));
    for child in table.children(Pid::this().as_raw()) {
        table.kill(*child);
    }
}

fn code_and_signal(status: WaitStatus) -> (i32, Option<i32>) {
    match status {
        WaitStatus::Exited(_, code) => (code, None),
        WaitStatus::Signaled(_, signal, _) => (128 + signal as i32, Some(signal as i32)),
        // Nothing else is waited for.
        _ => (0, None),
    }
}
