//! The server's side of SPDY/3.1, which carries the streams of `kubectl port-forward`.
//!
//! Only what Kubernetes' clients use of it: streams that the client opens, data in both directions, resets, pings. There is no flow control,
//! since they have none: while one stream is not read, the connection waits.

mod frame;
mod headers;
#[cfg(test)]
mod tests;
mod transport;

use std::collections::{BTreeMap, HashMap};
use std::io;

use bytes::{Buf as _, Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{SinkExt as _, StreamExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use self::frame::Header;
use self::headers::HeaderReader;
pub(super) use self::transport::Transport;

/// A control frame is refused when it is larger.
const LARGEST_CONTROL: usize = 64 * 1024;

/// So many streams can be open at once; each connection of a user needs two.
const STREAMS: usize = 2000;

/// So many frames wait in each direction.
const QUEUE: usize = 32;

pub(super) struct Connection {
    incoming: Incoming,
    headers: HeaderReader,
    outgoing: mpsc::Sender<Bytes>,
    writer: JoinHandle<()>,
    has_replied: bool,
    streams: HashMap<u32, Open>,
}

/// What the connection knows of a stream.
struct Open {
    /// `None` when the client sends no more.
    data: Option<mpsc::Sender<Bytes>>,
    reset: oneshot::Sender<()>,
}

/// A stream that the client has opened.
pub(super) struct Stream {
    pub(super) id: u32,
    /// Their names are in lower case.
    pub(super) headers: BTreeMap<String, String>,
    /// What the client sends.
    pub(super) data: mpsc::Receiver<Bytes>,
    /// Is there when the client wants no more of it.
    pub(super) reset: oneshot::Receiver<()>,
    pub(super) writer: StreamWriter,
}

/// The server's direction of a stream.
pub(super) struct StreamWriter {
    id: u32,
    outgoing: mpsc::Sender<Bytes>,
}

impl StreamWriter {
    /// Sends data.
    ///
    /// # Errors
    /// The connection is gone.
    pub(super) async fn send(&self, data: &[u8]) -> io::Result<()> {
        self.frame(frame::data(self.id, data)).await
    }

    /// Sends no more. A connection that is gone needs no end.
    pub(super) async fn finish(self) {
        let _ = self.frame(frame::fin(self.id)).await;
    }

    /// Refuses the stream.
    pub(super) async fn reset(self) {
        let _ = self.frame(frame::refuse(self.id)).await;
    }

    async fn frame(&self, frame: Bytes) -> io::Result<()> {
        self.outgoing.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Connection {
    pub(super) fn new(transport: Transport) -> Connection {
        let Transport { incoming, outgoing: mut sink } = transport;
        let (outgoing, mut frames) = mpsc::channel(QUEUE);
        let writer = tokio::spawn(async move {
            while let Some(frame) = frames.recv().await {
                if sink.send(frame).await.is_err() {
                    return;
                }
            }
            let _ = sink.close().await;
        });
        Connection {
            incoming: Incoming { pieces: incoming, bytes: BytesMut::new() },
            headers: HeaderReader::new(),
            outgoing,
            writer,
            has_replied: false,
            streams: HashMap::new(),
        }
    }

    /// The next stream that the client opens; `None` when it has closed the connection. All streams get their data while this is waited for.
    ///
    /// # Errors
    /// The connection has broken, or what comes is not SPDY.
    pub(super) async fn accept(&mut self) -> io::Result<Option<Stream>> {
        loop {
            let Some(header) = self.incoming.header().await? else { return Ok(None) };
            match Header::read(header)? {
                Header::Data { stream, flags, length } => self.data(stream, flags, length).await?,
                Header::Control { length, .. } if length > LARGEST_CONTROL => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a control frame is too large"));
                }
                Header::Control { kind, flags, length } => {
                    let payload = self.incoming.read_bytes(length).await?;
                    match kind {
                        frame::GO_AWAY => return Ok(None),
                        frame::SYN_STREAM => {
                            if let Some(stream) = self.open(payload, flags).await? {
                                return Ok(Some(stream));
                            }
                        }
                        _ => self.control(kind, payload).await?,
                    }
                }
            }
        }
    }

    async fn open(&mut self, mut payload: Bytes, flags: u8) -> io::Result<Option<Stream>> {
        let id = payload.try_get_u32().map_err(io::Error::other)? & 0x7fff_ffff;
        // The stream that it belongs to, its priority and its slot.
        payload.try_get_u32().map_err(io::Error::other)?;
        payload.try_get_u16().map_err(io::Error::other)?;
        // Whatever becomes of the stream, what was compressed has to be read.
        let headers = self.headers.read(&payload)?;
        self.streams.retain(|_, open| !open.reset.is_closed());
        if self.streams.len() >= STREAMS || self.streams.contains_key(&id) {
            self.send(frame::refuse(id)).await?;
            return Ok(None);
        }
        let (sender, data) = mpsc::channel(QUEUE);
        let (reset, is_reset) = oneshot::channel();
        let is_open = flags & frame::FIN == 0;
        self.streams.insert(id, Open { data: is_open.then_some(sender), reset });
        let block = headers::empty_block(!self.has_replied);
        self.has_replied = true;
        self.send(frame::reply(id, block)).await?;
        let writer = StreamWriter { id, outgoing: self.outgoing.clone() };
        Ok(Some(Stream { id, headers, data, reset: is_reset, writer }))
    }

    async fn control(&mut self, kind: u16, mut payload: Bytes) -> io::Result<()> {
        match kind {
            frame::RST_STREAM => {
                let id = payload.try_get_u32().map_err(io::Error::other)?;
                if let Some(open) = self.streams.remove(&id) {
                    // Nobody may be interested in the stream any more.
                    let _ = open.reset.send(());
                }
            }
            frame::PING => self.send(frame::ping(&payload)).await?,
            frame::HEADERS => {
                payload.try_get_u32().map_err(io::Error::other)?;
                self.headers.read(&payload)?;
            }
            // Settings and windows concern flow control.
            _ => {}
        }
        Ok(())
    }

    /// Hands data on, in the pieces in which it comes. What belongs to no stream is dropped: the client may not know yet that it has ended.
    async fn data(&mut self, id: u32, flags: u8, mut length: usize) -> io::Result<()> {
        let open = self.streams.get_mut(&id);
        let mut data = open.and_then(|open| if flags & frame::FIN == 0 { open.data.clone() } else { open.data.take() });
        while length > 0 {
            let piece = self.incoming.piece(length).await?;
            length -= piece.len();
            if let Some(sender) = &data
                && sender.send(piece).await.is_err()
            {
                data = None;
            }
        }
        Ok(())
    }

    async fn send(&mut self, frame: Bytes) -> io::Result<()> {
        self.outgoing.send(frame).await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Closes the connection once everything is sent. Streams must be gone.
    pub(super) async fn close(self) {
        drop(self.outgoing);
        // It ends when nobody sends any more; an error is as good.
        let _ = self.writer.await;
    }
}

/// What comes from the client.
struct Incoming {
    pieces: BoxStream<'static, io::Result<Bytes>>,
    bytes: BytesMut,
}

impl Incoming {
    /// The header of the next frame; `None` at the end of the connection.
    async fn header(&mut self) -> io::Result<Option<[u8; frame::HEADER]>> {
        if self.bytes.is_empty() && !self.more().await? {
            return Ok(None);
        }
        let bytes = self.read_bytes(frame::HEADER).await?;
        Ok(bytes.as_ref().try_into().ok())
    }

    /// So many bytes.
    async fn read_bytes(&mut self, length: usize) -> io::Result<Bytes> {
        while self.bytes.len() < length {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(self.bytes.split_to(length).freeze())
    }

    /// What is there, but not more than so many bytes; at least one.
    async fn piece(&mut self, most: usize) -> io::Result<Bytes> {
        while self.bytes.is_empty() {
            if !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let length = self.bytes.len().min(most);
        Ok(self.bytes.split_to(length).freeze())
    }

    async fn more(&mut self) -> io::Result<bool> {
        let Some(piece) = self.pieces.next().await.transpose()? else { return Ok(false) };
        self.bytes.extend_from_slice(&piece);
        // An empty message is not the end.
        Ok(true)
    }
}
