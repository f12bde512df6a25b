//! The streams of a command over one WebSocket, as `v5.channel.k8s.io` has them: the first byte of each message names the stream.

use axum::extract::ws::{CloseFrame, Message, WebSocket, close_code};
use bytes::{BufMut as _, BytesMut};
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use pillion_process::{
    AttachedInput, AttachedOutput, Attachment, Session, SessionExit, SessionStreams, Source, StartError, Terminal,
    read_now,
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use super::Options;

/// The newest first. They differ in [`CLOSE`], which only the fifth knows.
pub(super) const PROTOCOLS: [&str; 2] = ["v5.channel.k8s.io", "v4.channel.k8s.io"];

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const STATUS: u8 = 3;
const RESIZE: u8 = 4;
/// Its second byte names the stream that is at its end.
const CLOSE: u8 = 255;

/// So much is read at once.
const BUFFER: usize = 32 * 1024;

/// A client that is connected with a container.
pub(super) struct Channels {
    sink: SplitSink<WebSocket, Message>,
    stream: SplitStream<WebSocket>,
    reads_stdin: bool,
    wants_stdout: bool,
    wants_stderr: bool,
}

/// How large the client's terminal is.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Size {
    width: u16,
    height: u16,
}

impl Channels {
    pub(super) fn new(socket: WebSocket, options: &Options) -> Channels {
        let (sink, stream) = socket.split();
        Channels {
            sink,
            stream,
            reads_stdin: options.stdin,
            wants_stdout: options.stdout,
            wants_stderr: options.stderr,
        }
    }

    /// Connects the client with a command, until one of them ends.
    pub(super) async fn connect(mut self, session: Session) {
        let Session { streams, mut exit } = session;
        let SessionStreams { stdin, stdout, stderr, terminal } = streams;
        // An empty message lets the client know that it is connected.
        let first = if self.wants_stdout { STDOUT } else { STDERR };
        if self.sink.send(message(first, &[])).await.is_err() {
            return;
        }
        let input = if self.reads_stdin { Input::Command(stdin) } else { Input::None };
        let output = Output { sink: &mut self.sink, wants: [self.wants_stdout, self.wants_stderr] };
        let status = tokio::select! {
            _ = receive(&mut self.stream, input, terminal.as_ref()) => return,
            status = output.send(stdout, stderr, &mut exit) => status,
        };
        self.close(&status).await;
    }

    /// Connects the client with a container, until the container ends or the client detaches.
    pub(super) async fn attach(mut self, attachment: Attachment) {
        let Attachment { stdin, output, terminal } = attachment;
        // An empty message lets the client know that it is connected.
        let first = if self.wants_stdout { STDOUT } else { STDERR };
        if self.sink.send(message(first, &[])).await.is_err() {
            return;
        }
        let input = stdin.filter(|_| self.reads_stdin).map_or(Input::None, Input::Container);
        let to_client = Output { sink: &mut self.sink, wants: [self.wants_stdout, self.wants_stderr] };
        let left = tokio::select! {
            left = receive(&mut self.stream, input, terminal.as_deref()) => left,
            () = to_client.copy(output) => Left::Detached,
        };
        if left == Left::Detached {
            self.close(&success()).await;
        }
    }

    /// Reports how it ended, and closes. A client that is gone needs neither.
    async fn close(mut self, status: &Value) {
        let _ = self.sink.send(message(STATUS, status.to_string().as_bytes())).await;
        let frame = CloseFrame { code: close_code::NORMAL, reason: "".into() };
        let _ = self.sink.send(Message::Close(Some(frame))).await;
    }
}

/// Where the client's input goes.
enum Input {
    None,
    Command(pipe::Sender),
    Container(AttachedInput),
}

impl Input {
    /// A process that no longer reads is no reason to end it.
    async fn write(&mut self, data: &[u8]) {
        let written = match self {
            Input::None => return,
            Input::Command(writer) => writer.write_all(data).await,
            Input::Container(input) => input.write_all(data).await,
        };
        if written.is_err() {
            *self = Input::None;
        }
    }

    /// The client sends no more input. Returns whether it stays connected: one that has had its say in a container that others can attach
    /// to as well, detaches.
    async fn close(&mut self) -> bool {
        let stays = match &self {
            Input::Container(input) => input.close().await,
            Input::None | Input::Command(_) => true,
        };
        *self = Input::None;
        stays
    }
}

/// Why nothing more comes from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    /// Its connection has ended.
    Gone,
    /// It is done, and waits for the status.
    Detached,
}

/// Hands on what the client sends, until it is gone.
async fn receive(stream: &mut SplitStream<WebSocket>, mut input: Input, terminal: Option<&Terminal>) -> Left {
    while let Some(Ok(message)) = stream.next().await {
        let Message::Binary(bytes) = message else { continue };
        match bytes.split_first() {
            Some((&STDIN, data)) => input.write(data).await,
            Some((&CLOSE, [STDIN])) => {
                let stays = input.close().await;
                if !stays {
                    return Left::Detached;
                }
            }
            Some((&RESIZE, data)) => {
                if let (Some(terminal), Ok(size)) = (terminal, serde_json::from_slice::<Size>(data)) {
                    // The command may have ended.
                    let _ = terminal.resize(size.width, size.height);
                }
            }
            _ => {}
        }
    }
    input.close().await;
    Left::Gone
}

struct Output<'a> {
    sink: &'a mut SplitSink<WebSocket, Message>,
    /// Whether the client wants the output and the errors.
    wants: [bool; 2],
}

impl Output<'_> {
    /// Sends what a container writes, until it has ended.
    async fn copy(mut self, mut output: AttachedOutput) {
        while let Some((source, bytes)) = output.next().await {
            let channel = if source == Source::Stderr { STDERR } else { STDOUT };
            self.forward(channel, &bytes).await;
        }
    }

    /// Sends what the command writes, until it has ended. Returns its status.
    async fn send(
        mut self,
        mut stdout: pipe::Receiver,
        stderr: Option<pipe::Receiver>,
        exit: &mut SessionExit,
    ) -> Value {
        let (mut out, mut err) = (BytesMut::with_capacity(BUFFER), BytesMut::with_capacity(BUFFER));
        let mut stderr = stderr;
        let mut is_open = true;
        let ended = loop {
            tokio::select! {
                ended = exit.wait() => break ended,
                read = stdout.read_buf(&mut out), if is_open => {
                    // The end of a terminal is an error.
                    is_open = matches!(read, Ok(1..));
                    self.forward(STDOUT, &out).await;
                    out.clear();
                }
                read = read(&mut stderr, &mut err) => {
                    if !read {
                        stderr = None;
                    }
                    self.forward(STDERR, &err).await;
                    err.clear();
                }
            }
        };
        // What it has written is there by now. Others that it has started may hold the streams for ever.
        let mut rest = vec![0; BUFFER];
        for (channel, stream) in [(STDOUT, Some(stdout)), (STDERR, stderr)] {
            let Some(stream) = stream else { continue };
            while let length @ 1.. = read_now(&stream, &mut rest) {
                self.forward(channel, &rest[..length]).await;
            }
        }
        status(ended)
    }

    async fn forward(&mut self, channel: u8, bytes: &[u8]) {
        let is_wanted = self.wants[usize::from(channel == STDERR)];
        if is_wanted && !bytes.is_empty() {
            // A client that is gone is noticed by the task that reads from it.
            let _ = self.sink.send(message(channel, bytes)).await;
        }
    }
}

/// Reads errors, if the command has a stream for them; `false` at its end.
async fn read(stderr: &mut Option<pipe::Receiver>, buffer: &mut BytesMut) -> bool {
    match stderr {
        Some(stderr) => matches!(stderr.read_buf(buffer).await, Ok(1..)),
        None => std::future::pending().await,
    }
}

fn message(channel: u8, data: &[u8]) -> Message {
    let mut bytes = BytesMut::with_capacity(1 + data.len());
    bytes.put_u8(channel);
    bytes.put_slice(data);
    Message::Binary(bytes.freeze())
}

fn success() -> Value {
    json!({"metadata": {}, "status": "Success"})
}

/// The end of a command, as clients read it.
fn status(ended: Result<i32, StartError>) -> Value {
    match ended {
        Ok(0) => success(),
        Ok(code) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("command terminated with non-zero exit code: command terminated with exit code {code}"),
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]},
        }),
        Err(error) => json!({
            "metadata": {},
            "status": "Failure",
            "message": format!("Internal error occurred: error executing command in container: {error}"),
            "reason": "InternalError",
            "details": {"causes": [{"message": format!("error executing command in container: {error}")}]},
            "code": 500,
        }),
    }
}
