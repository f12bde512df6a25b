//! `kubectl port-forward`: connections of a client's machine that go on to a port of a pod.
//!
//! ```text
//!  kubectl ─▶ SPDY ─┬─ error stream, data stream (port, request 0) ─▶ a TCP connection to the pod
//!                   ├─ error stream, data stream (port, request 1) ─▶ another
//!                   └─ …
//! ```

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::spdy::{Connection, Stream, StreamWriter, Transport};
use crate::runtime::Runtime;
use crate::state::Inner;

/// What the streams are used for, as clients name it.
pub(super) const PROTOCOL: &str = "portforward.k8s.io";

/// The same over a WebSocket.
pub(super) const OVER_WEBSOCKET: &str = "SPDY/3.1+portforward.k8s.io";

/// So much is read at once.
const BUFFER: usize = 32 * 1024;

/// The pod that connections go to.
pub(super) struct Target<R> {
    pub(super) inner: Arc<Inner<R>>,
    pub(super) pod: String,
    pub(super) uid: String,
}

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Error,
    Data,
}

/// A stream with what its headers ask for.
struct Asked {
    kind: Kind,
    port: u16,
    /// Both streams of a connection have the same.
    request: String,
    stream: Stream,
}

impl Asked {
    /// The stream itself when its headers are not those of a forwarded connection.
    fn new(stream: Stream) -> Result<Asked, Stream> {
        match Asked::parse(&stream) {
            Some((kind, port, request)) => Ok(Asked { kind, port, request, stream }),
            None => Err(stream),
        }
    }

    fn parse(stream: &Stream) -> Option<(Kind, u16, String)> {
        let header = |name: &str| stream.headers.get(name).map(String::as_str);
        let kind = match header("streamtype")? {
            "error" => Kind::Error,
            "data" => Kind::Data,
            _ => return None,
        };
        let port = header("port")?.parse().ok().filter(|port| *port > 0)?;
        // Old clients give none: they open the stream for errors, and then the one for data.
        let request = header("requestid").filter(|request| !request.is_empty()).map(str::to_owned);
        let guessed = || if kind == Kind::Error { stream.id } else { stream.id.saturating_sub(2) }.to_string();
        Some((kind, port, request.unwrap_or_else(guessed)))
    }
}

/// Forwards connections until the client goes away.
pub(super) async fn forward<R: Runtime>(transport: Transport, target: Target<R>) {
    let target = Arc::new(target);
    let mut connection = Connection::new(transport);
    let mut waiting: HashMap<String, Asked> = HashMap::new();
    let mut connections = JoinSet::new();
    loop {
        let stream = match connection.accept().await {
            Ok(Some(stream)) => stream,
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%error, pod = target.pod, "a connection that forwards ports has broken");
                break;
            }
        };
        while connections.try_join_next().is_some() {}
        let asked = match Asked::new(stream) {
            Ok(asked) => asked,
            Err(stream) => {
                stream.writer.reset().await;
                continue;
            }
        };
        match waiting.remove(&asked.request) {
            Some(other) if other.kind != asked.kind => {
                let (data, errors) = if asked.kind == Kind::Data { (asked, other) } else { (other, asked) };
                let target = Arc::clone(&target);
                connections.spawn(async move { target.forward(data, errors.stream.writer).await });
            }
            _ => {
                waiting.insert(asked.request.clone(), asked);
            }
        }
    }
    drop(waiting);
    connections.shutdown().await;
    connection.close().await;
}

impl<R: Runtime> Target<R> {
    /// Carries one connection, and reports how it went.
    async fn forward(&self, asked: Asked, errors: StreamWriter) {
        let Asked { port, stream: Stream { data, reset, writer, .. }, .. } = asked;
        let carried = async {
            let connection = self.inner.runtime.connect(&self.uid, port).await.map_err(|refusal| refusal.message)?;
            carry(connection, data, &writer).await.map_err(|error| error.to_string())
        };
        let outcome = tokio::select! {
            // The client has given the connection up.
            _ = reset => Ok(()),
            outcome = carried => outcome,
        };
        if let Err(error) = outcome {
            let message = format!("error forwarding port {port} to pod {}, uid {}: {error}", self.pod, self.uid);
            // A client that is gone needs no reason.
            let _ = errors.send(message.as_bytes()).await;
        }
        errors.finish().await;
        writer.finish().await;
    }
}

/// Carries data in both directions, until the pod closes its own.
async fn carry(connection: TcpStream, data: mpsc::Receiver<bytes::Bytes>, writer: &StreamWriter) -> io::Result<()> {
    let (from_pod, to_pod) = connection.into_split();
    let sending = tokio::spawn(send_to_pod(data, to_pod));
    let received = receive_from_pod(from_pod, writer).await;
    sending.abort();
    received
}

async fn send_to_pod(mut data: mpsc::Receiver<bytes::Bytes>, mut to_pod: OwnedWriteHalf) {
    while let Some(piece) = data.recv().await {
        // What the pod no longer reads is lost; the other direction reports what has happened.
        if to_pod.write_all(&piece).await.is_err() {
            return;
        }
    }
    // Dropped, it lets the pod know that nothing more comes.
}

async fn receive_from_pod(mut from_pod: OwnedReadHalf, writer: &StreamWriter) -> io::Result<()> {
    let mut buffer = BytesMut::with_capacity(BUFFER);
    while from_pod.read_buf(&mut buffer).await? > 0 {
        writer.send(&buffer).await?;
        buffer.clear();
    }
    Ok(())
}
