//! A command inside a container whose streams somebody holds, as `kubectl exec` does.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::pty::openpty;
use tokio::net::unix::pipe;
use tokio::sync::oneshot;

use super::Process;
use crate::attach::{AttachedInput, Input};
use crate::message::Answer;
use crate::start_error::StartError;
use crate::terminal::Terminal;

/// A command that runs inside a container.
#[derive(Debug)]
pub struct Session {
    /// What it reads and writes.
    pub streams: SessionStreams,
    /// How it ends.
    pub exit: SessionExit,
}

/// The near ends of a command's streams.
#[derive(Debug)]
pub struct SessionStreams {
    /// What it reads. Dropped, it is at its end; a terminal is not.
    pub stdin: pipe::Sender,
    /// What it writes. The end of a terminal can be an error.
    pub stdout: pipe::Receiver,
    /// Its errors; with a terminal they come with the rest.
    pub stderr: Option<pipe::Receiver>,
    pub terminal: Option<Terminal>,
}

impl SessionStreams {
    /// The near ends, and the far ones for the command.
    pub(super) fn new(terminal: bool) -> io::Result<(SessionStreams, Vec<OwnedFd>)> {
        if terminal { on_a_terminal() } else { on_pipes() }
    }
}

fn on_pipes() -> io::Result<(SessionStreams, Vec<OwnedFd>)> {
    let (stdin, far_stdin) = pipe::pipe()?;
    let (far_stdout, stdout) = pipe::pipe()?;
    let (far_stderr, stderr) = pipe::pipe()?;
    let far = vec![far_stdin.into_blocking_fd()?, far_stdout.into_blocking_fd()?, far_stderr.into_blocking_fd()?];
    Ok((SessionStreams { stdin, stdout, stderr: Some(stderr), terminal: None }, far))
}

fn on_a_terminal() -> io::Result<(SessionStreams, Vec<OwnedFd>)> {
    let pair = openpty(None, None)?;
    fcntl(&pair.master, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let near = || pair.master.try_clone().map(File::from);
    let (stdin, stdout) = (pipe::Sender::from_file_unchecked(near()?)?, pipe::Receiver::from_file_unchecked(near()?)?);
    let terminal = Some(Terminal::new(pair.master));
    Ok((SessionStreams { stdin, stdout, stderr: None, terminal }, vec![pair.slave]))
}

/// Reads what a stream holds at this moment, which is nothing at its end. The kernel is asked, not the runtime: the runtime may not
/// have been notified yet, and what was written to a terminal is passed on in the background unless somebody reads.
#[must_use]
pub fn read_now(stream: &pipe::Receiver, buffer: &mut [u8]) -> usize {
    rustix::io::retry_on_intr(|| rustix::io::read(stream, &mut *buffer)).unwrap_or(0)
}

/// The near ends of a container's own streams.
#[derive(Debug)]
pub(crate) struct ContainerStreams {
    pub(super) output: [pipe::Receiver; 2],
    pub(super) stdin: Option<AttachedInput>,
    pub(super) terminal: Option<Arc<Terminal>>,
    /// What the container is given to read, or its terminal.
    pub(super) far: Option<OwnedFd>,
}

impl ContainerStreams {
    /// The streams of a container that writes to these pipes unless it has a terminal.
    pub(crate) fn new(input: Input, [stdout, stderr]: [pipe::Receiver; 2]) -> io::Result<ContainerStreams> {
        if input.terminal {
            let (SessionStreams { stdin, stdout, terminal, .. }, mut far) = on_a_terminal()?;
            let stdin = input.stdin.then(|| AttachedInput::new(stdin, false));
            let terminal = terminal.map(Arc::new);
            return Ok(ContainerStreams { output: [stdout, stderr], stdin, terminal, far: far.pop() });
        }
        let (stdin, far) = if input.stdin {
            let (stdin, far) = pipe::pipe()?;
            (Some(AttachedInput::new(stdin, input.once)), Some(far.into_blocking_fd()?))
        } else {
            (None, None)
        };
        Ok(ContainerStreams { output: [stdout, stderr], stdin, terminal: None, far })
    }
}

/// The end of a command. Dropped before that, it ends the command with all that it has started.
#[derive(Debug)]
pub struct SessionExit {
    process: Process,
    id: u64,
    answer: oneshot::Receiver<Answer>,
}

impl SessionExit {
    pub(super) fn new(process: Process, id: u64, answer: oneshot::Receiver<Answer>) -> SessionExit {
        SessionExit { process, id, answer }
    }

    /// Its exit code: 128 and the number of the signal when one ended it.
    ///
    /// # Errors
    /// It could not be started, or its container has ended.
    pub async fn wait(&mut self) -> Result<i32, StartError> {
        match (&mut self.answer).await {
            Ok(Answer::ExecEnded(code)) => code,
            _ => Err(StartError::Ended),
        }
    }
}

impl Drop for SessionExit {
    fn drop(&mut self) {
        let (process, id) = (self.process.clone(), self.id);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { process.kill_exec(id).await });
        }
    }
}
