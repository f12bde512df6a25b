//! A process of a pod, as the program sees it: one attempt of a container.

mod session;

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::Stream;
use jiff::Timestamp;
use pillion_clock::Clock;
use serde::Serialize;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Interest, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf, pipe};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::attach::{AttachedInput, Attachment, Clients};
use crate::channel::{line, send_with_descriptors};
use crate::log::{self, LogOptions, Progress};
use crate::message::{Answer, Container, Ended, Report, Request};
use crate::start_error::StartError;
use crate::terminal::Terminal;
use crate::usage::Usage;
use nix::sys::signal::Signal;

pub(crate) use self::session::ContainerStreams;
pub use self::session::{Session, SessionExit, SessionStreams, read_now};

/// The rest of what a command inside a container says is thrown away.
const LONGEST_OUTPUT: usize = 16 * 1024 * 1024;

/// How long the log of a container that has ended may be held open by somebody whom it has given its pipe.
const LOG_PATIENCE: Duration = Duration::from_secs(2);

/// One attempt of a container. Clones are the same.
#[derive(Clone, Debug)]
pub struct Process {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    control: tokio::sync::Mutex<OwnedWriteHalf>,
    questions: Questions,
    exit: watch::Receiver<Option<Exit>>,
    log: PathBuf,
    progress: watch::Receiver<Progress>,
    since: Timestamp,
    clients: Clients,
    stdin: Option<AttachedInput>,
    terminal: Option<Arc<Terminal>>,
}

/// The end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit code: 128 and the number of the signal when one ended it.
    pub code: i32,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether it was killed because it used more memory than it may.
    pub oom_killed: bool,
    /// When it ended.
    pub at: Timestamp,
}

/// What a command inside a container said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code: 128 and the number of the signal when one ended it.
    pub code: i32,
    /// What it wrote to both streams.
    pub output: Vec<u8>,
}

/// Why a command inside a container did not end by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// It took longer than it may, and was killed with all that it had started.
    #[error("timed out after {0:?}")]
    TimedOut(Duration),
    /// It could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

impl Process {
    pub(crate) async fn start(
        socket: UnixStream,
        container: Container,
        log: PathBuf,
        streams: ContainerStreams,
    ) -> Result<Process, StartError> {
        let ContainerStreams { output: [stdout, stderr], stdin, terminal, far } = streams;
        let failed = |error: io::Error| StartError::other("the supervisor of the container does not answer", error);
        let given: Vec<BorrowedFd<'_>> = far.iter().map(OwnedFd::as_fd).collect();
        send(&socket, &Request::Start(container), &given).await.map_err(failed)?;
        let (reader, writer) = socket.into_split();
        let mut reports = BufReader::new(reader).lines();
        match next_report(&mut reports).await {
            Some(Report::Started) => {}
            Some(Report::NotStarted(error)) => return Err(error),
            _ => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
        // The container has it now, alone.
        drop(far);
        let since = Clock::system().now();
        let clients = Clients::default();
        let (written, progress) = watch::channel(Progress::default());
        let pump = tokio::spawn(log::pump(log.clone(), stdout, stderr, written, clients.clone()));
        let (ended, exit) = watch::channel(None);
        let questions = Questions::default();
        tokio::spawn(listen(reports, questions.clone(), pump, clients.clone(), ended));
        let control = tokio::sync::Mutex::new(writer);
        Ok(Process {
            shared: Arc::new(Shared { control, questions, exit, log, progress, since, clients, stdin, terminal }),
        })
    }

    /// When it started.
    pub fn since(&self) -> Timestamp {
        self.shared.since
    }

    /// Its end. All that it has written is in its log by then.
    pub async fn wait(&self) -> Exit {
        let mut exit = self.shared.exit.clone();
        let ended = exit.wait_for(Option::is_some).await.ok().and_then(|exit| *exit);
        // The other end goes only with the runtime.
        ended.unwrap_or_else(|| exit_of(Ended::killed()))
    }

    /// Its end, if it has ended.
    pub fn ended(&self) -> Option<Exit> {
        *self.shared.exit.borrow()
    }

    /// Sends a signal to its first process. In a process namespace of its own that is process 1, which the kernel
    /// protects: a signal that it has no handler for does nothing, unless it is SIGKILL. One that has ended gets none.
    pub async fn signal(&self, signal: Signal) {
        self.send(&Request::Signal(signal as i32)).await;
    }

    /// SIGKILL to everything in it.
    pub async fn kill(&self) {
        self.send(&Request::Kill).await;
    }

    /// Gives it another limit of memory, in bytes.
    pub async fn set_memory_limit(&self, limit: Option<u64>) {
        self.send(&Request::MemoryLimit(limit)).await;
    }

    /// Runs a command in it, with its environment and its user.
    pub async fn exec(&self, command: &[String], timeout: Option<Duration>) -> Result<ExecOutput, ExecError> {
        let failed = |error: io::Error| StartError::other("cannot make a pipe", error);
        let (writer, mut reader) = pipe::pipe().map_err(failed)?;
        let writer = writer.into_blocking_fd().map_err(failed)?;
        let (id, mut answer) = self.shared.questions.ask().ok_or(StartError::Ended)?;
        self.send_with(&Request::Exec { id, command: command.to_vec() }, &[writer.as_fd()]).await;
        drop(writer);
        let mut output = Vec::new();
        let ended = async {
            let answer = read_until(&mut reader, &mut output, &mut answer).await;
            match answer {
                Some(Answer::ExecEnded(code)) => code,
                _ => Err(StartError::Ended),
            }
        };
        let Some(timeout) = timeout else { return Ok(ExecOutput { code: ended.await?, output }) };
        if let Ok(code) = tokio::time::timeout(timeout, ended).await {
            return Ok(ExecOutput { code: code?, output });
        }
        self.send(&Request::KillExec { id }).await;
        read_until(&mut reader, &mut output, &mut answer).await;
        Err(ExecError::TimedOut(timeout))
    }

    /// Runs a command in it whose streams the caller holds, with its environment and its user, on a terminal if that is wanted.
    ///
    /// # Errors
    /// The container has ended, or the system has no pipe or terminal left. A command that cannot be started is reported by
    /// [`SessionExit::wait`].
    pub async fn open(&self, command: &[String], terminal: bool) -> Result<Session, StartError> {
        let (id, answer) = self.shared.questions.ask().ok_or(StartError::Ended)?;
        let (streams, far) =
            SessionStreams::new(terminal).map_err(|error| StartError::other("cannot make a pipe", error))?;
        let far: Vec<BorrowedFd<'_>> = far.iter().map(OwnedFd::as_fd).collect();
        self.send_with(&Request::Open { id, command: command.to_vec(), terminal }, &far).await;
        Ok(Session { streams, exit: SessionExit::new(self.clone(), id, answer) })
    }

    /// Ends a command that was opened.
    async fn kill_exec(&self, id: u64) {
        self.send(&Request::KillExec { id }).await;
    }

    /// Its own streams. What it has written before is in its log.
    pub fn attach(&self) -> Attachment {
        let Shared { clients, stdin, terminal, .. } = &*self.shared;
        Attachment { stdin: stdin.clone(), output: clients.attach(), terminal: terminal.clone() }
    }

    /// What it uses; `None` when it has ended.
    pub async fn usage(&self) -> Option<Usage> {
        match self.ask(|id| Request::Usage { id }).await? {
            Answer::Usage(usage) => Some(usage),
            _ => None,
        }
    }

    /// Where it listens for TCP connections.
    pub async fn listeners(&self) -> Vec<SocketAddr> {
        match self.ask(|id| Request::Listeners { id }).await {
            Some(Answer::Listeners(listeners)) => listeners,
            _ => Vec::new(),
        }
    }

    /// What it has written.
    pub async fn logs(&self, options: LogOptions) -> io::Result<impl Stream<Item = Vec<u8>> + Send + use<>> {
        log::read(self.shared.log.clone(), options, self.shared.progress.clone()).await
    }

    async fn ask(&self, request: impl FnOnce(u64) -> Request) -> Option<Answer> {
        let (id, answer) = self.shared.questions.ask()?;
        self.send(&request(id)).await;
        answer.await.ok()
    }

    async fn send(&self, request: &Request) {
        self.send_with(request, &[]).await;
    }

    /// A container that has ended gets no signal: its end is reported elsewhere.
    async fn send_with(&self, request: &Request, descriptors: &[BorrowedFd<'_>]) {
        let control = self.shared.control.lock().await;
        let _ = send((*control).as_ref(), request, descriptors).await;
    }
}

/// Sends a message with descriptors.
pub(crate) async fn send(
    socket: &UnixStream,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let bytes = line(message)?;
    let mut sent = 0;
    while sent < bytes.len() {
        let descriptors = if sent == 0 { descriptors } else { &[] };
        let write = || send_with_descriptors(socket.as_fd(), &bytes[sent..], descriptors);
        sent += socket.async_io(Interest::WRITABLE, write).await?;
    }
    Ok(())
}

/// Reads output until the answer has come, and then what is already there: a process in the background may hold the
/// pipe for ever.
async fn read_until(
    reader: &mut pipe::Receiver,
    output: &mut Vec<u8>,
    answer: &mut oneshot::Receiver<Answer>,
) -> Option<Answer> {
    let mut buffer = vec![0; 8 * 1024];
    let keep = |output: &mut Vec<u8>, bytes: &[u8]| {
        output.extend(bytes.iter().take(LONGEST_OUTPUT.saturating_sub(output.len())));
    };
    let answer = loop {
        tokio::select! {
            answer = &mut *answer => break answer.ok(),
            Ok(length @ 1..) = reader.read(&mut buffer) => keep(output, &buffer[..length]),
        }
    };
    // No more than is kept: the process in the background may write for ever as well.
    while output.len() < LONGEST_OUTPUT {
        let length @ 1.. = read_now(reader, &mut buffer) else { break };
        keep(output, &buffer[..length]);
    }
    answer
}

async fn next_report(reports: &mut Lines<BufReader<OwnedReadHalf>>) -> Option<Report> {
    serde_json::from_str(&reports.next_line().await.ok()??).ok()
}

fn exit_of(Ended { code, signal, oom_killed }: Ended) -> Exit {
    Exit { code, signal, oom_killed, at: Clock::system().now() }
}

/// Hears what the supervisor of a container says, until it is gone.
async fn listen(
    mut reports: Lines<BufReader<OwnedReadHalf>>,
    questions: Questions,
    mut pump: JoinHandle<()>,
    clients: Clients,
    ended: watch::Sender<Option<Exit>>,
) {
    let mut exit = None;
    while let Some(report) = next_report(&mut reports).await {
        match report {
            Report::Answer { id, answer } => questions.answer(id, answer),
            Report::Ended(end) => exit = Some(exit_of(end)),
            Report::Started | Report::NotStarted(_) => {}
        }
    }
    let exit = exit.unwrap_or_else(|| exit_of(Ended::killed()));
    questions.close();
    clients.finish();
    if tokio::time::timeout(LOG_PATIENCE, &mut pump).await.is_err() {
        pump.abort();
    }
    clients.close();
    ended.send_replace(Some(exit));
}

/// Questions to a supervisor that are not answered yet.
#[derive(Clone, Debug, Default)]
struct Questions {
    shared: Arc<Mutex<Open>>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<Answer>>,
    /// Whether the supervisor is gone.
    closed: bool,
}

impl Questions {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self) -> Option<(u64, oneshot::Receiver<Answer>)> {
        let mut open = self.open();
        if open.closed {
            return None;
        }
        open.next += 1;
        let id = open.next;
        let (sender, receiver) = oneshot::channel();
        open.waiting.insert(id, sender);
        Some((id, receiver))
    }

    fn answer(&self, id: u64, answer: Answer) {
        if let Some(asked) = self.open().waiting.remove(&id) {
            // Who asked may not want to know any more.
            let _ = asked.send(answer);
        }
    }

    fn close(&self) {
        let mut open = self.open();
        open.closed = true;
        open.waiting.clear();
    }
}
