//! What carries the frames: a connection that was upgraded, or a WebSocket whose binary messages are pieces of it.

use std::io;
use std::pin::Pin;

use axum::extract::ws::{Message, WebSocket};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Sink, SinkExt as _, StreamExt as _, sink, stream};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// So much is read at once.
const BUFFER: usize = 32 * 1024;

/// Both directions of a connection.
pub(in crate::streaming) struct Transport {
    pub(super) incoming: BoxStream<'static, io::Result<Bytes>>,
    pub(super) outgoing: Pin<Box<dyn Sink<Bytes, Error = io::Error> + Send>>,
}

impl Transport {
    pub(in crate::streaming) fn over_websocket(socket: WebSocket) -> Transport {
        let (sink, messages) = socket.split();
        let incoming = messages.filter_map(async |message| match message {
            Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
            // Pings are answered by the WebSocket itself.
            Ok(_) => None,
            Err(error) => Some(Err(io::Error::other(error))),
        });
        let outgoing =
            sink.with(async |bytes| Ok::<_, axum::Error>(Message::Binary(bytes))).sink_map_err(io::Error::other);
        Transport { incoming: incoming.boxed(), outgoing: Box::pin(outgoing) }
    }

    pub(in crate::streaming) fn over(connection: impl AsyncRead + AsyncWrite + Send + 'static) -> Transport {
        let (reader, writer) = tokio::io::split(connection);
        let incoming = stream::try_unfold(reader, async |mut reader| {
            let mut bytes = BytesMut::with_capacity(BUFFER);
            let length = reader.read_buf(&mut bytes).await?;
            Ok::<_, io::Error>((length > 0).then(|| (bytes.freeze(), reader)))
        });
        let outgoing = sink::unfold(writer, async |mut writer, bytes: Bytes| {
            writer.write_all(&bytes).await?;
            writer.flush().await?;
            Ok::<_, io::Error>(writer)
        });
        Transport { incoming: incoming.boxed(), outgoing: Box::pin(outgoing) }
    }
}
