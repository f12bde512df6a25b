//! A client in memory.

use bytes::BufMut as _;
use futures::FutureExt as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

use super::*;

/// Opens a stream. The headers are compressed as one stored block, with no dictionary.
fn open(id: u32, is_first: bool) -> Vec<u8> {
    let block = headers::empty_block(is_first);
    let mut frame = Vec::new();
    frame.put_u32(0x8003_0001);
    frame.put_u32(u32::try_from(10 + block.len()).unwrap());
    frame.put_u32(id);
    frame.put_slice(&[0; 6]);
    frame.put_slice(block);
    frame
}

fn connected() -> (DuplexStream, Connection) {
    let (client, server) = tokio::io::duplex(1024 * 1024);
    (client, Connection::new(Transport::over(server)))
}

async fn frame(client: &mut DuplexStream) -> (Header, Vec<u8>) {
    let mut header = [0; frame::HEADER];
    client.read_exact(&mut header).await.unwrap();
    let header = Header::read(header).unwrap();
    let (Header::Data { length, .. } | Header::Control { length, .. }) = header;
    let mut payload = vec![0; length];
    client.read_exact(&mut payload).await.unwrap();
    (header, payload)
}

#[tokio::test]
async fn a_stream_carries_data_in_both_directions() {
    let (mut client, mut connection) = connected();
    client.write_all(&open(1, true)).await.unwrap();
    let mut stream = connection.accept().await.unwrap().unwrap();
    client
        .write_all(&[frame::data(1, b"hel"), frame::data(1, b"lo"), frame::fin(1), frame::ping(b"1234")].concat())
        .await
        .unwrap();
    client.write_all(&open(3, false)).await.unwrap();
    let second = connection.accept().await.unwrap().unwrap();
    let mut received = Vec::new();
    while let Some(piece) = stream.data.recv().await {
        received.extend(piece);
    }
    assert_eq!(received, b"hello");
    stream.writer.send(b"world").await.unwrap();
    stream.writer.finish().await;
    second.writer.reset().await;
    let kinds = [frame(&mut client).await, frame(&mut client).await, frame(&mut client).await];
    assert!(matches!(kinds[0], (Header::Control { kind: 2, .. }, _)));
    assert_eq!(kinds[1], (Header::Control { kind: frame::PING, flags: 0, length: 4 }, b"1234".to_vec()));
    assert!(matches!(kinds[2], (Header::Control { kind: 2, .. }, _)));
    assert_eq!(frame(&mut client).await, (Header::Data { stream: 1, flags: 0, length: 5 }, b"world".to_vec()));
    assert_eq!(frame(&mut client).await, (Header::Data { stream: 1, flags: frame::FIN, length: 0 }, vec![]));
    assert!(matches!(frame(&mut client).await, (Header::Control { kind: frame::RST_STREAM, .. }, _)));
    drop(client);
    assert!(connection.accept().await.unwrap().is_none());
    drop((stream.data, second.data));
}

#[tokio::test]
async fn a_stream_that_the_client_resets_says_so() {
    let (mut client, mut connection) = connected();
    client.write_all(&open(1, true)).await.unwrap();
    let stream = connection.accept().await.unwrap().unwrap();
    client.write_all(&frame::refuse(1)).await.unwrap();
    drop(client);
    assert!(connection.accept().await.unwrap().is_none());
    assert!(stream.reset.await.is_ok());
}

#[tokio::test]
async fn there_is_a_limit_to_open_streams() {
    let (mut client, mut connection) = connected();
    let mut streams = Vec::new();
    for id in 0..u32::try_from(STREAMS).unwrap() {
        client.write_all(&open(id, id == 0)).await.unwrap();
        streams.push(connection.accept().await.unwrap().unwrap());
        assert!(matches!(frame(&mut client).await, (Header::Control { kind: 2, .. }, _)));
    }
    client.write_all(&open(99_999, false)).await.unwrap();
    client.write_all(&frame::data(99_999, b"lost")).await.unwrap();
    assert!(connection.accept().now_or_never().is_none());
    assert!(matches!(frame(&mut client).await, (Header::Control { kind: frame::RST_STREAM, .. }, _)));
    // One that has ended makes room.
    drop(streams.pop());
    client.write_all(&open(100_001, false)).await.unwrap();
    assert_eq!(connection.accept().await.unwrap().unwrap().id, 100_001);
}

#[tokio::test]
async fn what_is_not_spdy_is_refused() {
    for (sent, expected) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "unexpected end of file"),
        (b"\x80\x02\x00\x01\x00\x00\x00\x00", "a frame has version 2 of SPDY, which is not 3"),
        (b"\x80\x03\x00\x01\x00\xff\xff\xff", "a control frame is too large"),
        (
            b"\x80\x03\x00\x01\x00\x00\x00\x02ab",
            "Not enough bytes remaining in buffer to read value (requested 4 but only 2 available)",
        ),
        (b"\x80\x03", "unexpected end of file"),
    ] {
        let (mut client, mut connection) = connected();
        client.write_all(sent).await.unwrap();
        drop(client);
        assert_eq!(connection.accept().await.err().unwrap().to_string(), expected);
    }
}
