//! Frames: eight bytes of header, and what follows them.

use std::io;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// How long the header of a frame is.
pub(super) const HEADER: usize = 8;

/// The version in control frames; 3.1 has the same.
const VERSION: u16 = 3;

pub(super) const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
pub(super) const RST_STREAM: u16 = 3;
pub(super) const PING: u16 = 6;
pub(super) const GO_AWAY: u16 = 7;
pub(super) const HEADERS: u16 = 8;

/// The flag of the last frame that one side sends on a stream.
pub(super) const FIN: u8 = 1;

/// Why a stream is refused.
const REFUSED_STREAM: u32 = 3;

/// The header of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    Data { stream: u32, flags: u8, length: usize },
    Control { kind: u16, flags: u8, length: usize },
}

impl Header {
    pub(super) fn read(mut bytes: [u8; HEADER]) -> io::Result<Header> {
        let [_, _, _, _, flags, length @ ..] = bytes;
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let mut bytes = bytes.as_mut_slice() as &[u8];
        let first = bytes.get_u32();
        if first & 0x8000_0000 == 0 {
            return Ok(Header::Data { stream: first, flags, length });
        }
        let [version, kind] = [first >> 16 & 0x7fff, first & 0xffff].map(|half| u16::try_from(half).unwrap_or(0));
        if version != VERSION {
            let why = format!("a frame has version {version} of SPDY, which is not {VERSION}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(Header::Control { kind, flags, length })
    }
}

fn control(kind: u16, payload: &[u8]) -> Bytes {
    frame(1 << 31 | u32::from(VERSION) << 16 | u32::from(kind), 0, payload)
}

fn frame(first: u32, flags: u8, payload: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER + payload.len());
    bytes.put_u32(first);
    bytes.put_u32(u32::from(flags) << 24 | u32::try_from(payload.len()).unwrap_or(0));
    bytes.put_slice(payload);
    bytes.freeze()
}

/// Data of a stream. It is shorter than 16 MiB, the most that a frame can hold.
pub(super) fn data(stream: u32, data: &[u8]) -> Bytes {
    frame(stream, 0, data)
}

/// The end of what this side sends on a stream.
pub(super) fn fin(stream: u32) -> Bytes {
    frame(stream, FIN, &[])
}

/// Accepts a stream.
pub(super) fn reply(stream: u32, headers: &[u8]) -> Bytes {
    control(SYN_REPLY, &[&stream.to_be_bytes(), headers].concat())
}

pub(super) fn refuse(stream: u32) -> Bytes {
    control(RST_STREAM, &[stream.to_be_bytes(), REFUSED_STREAM.to_be_bytes()].concat())
}

/// Answers a ping.
pub(super) fn ping(payload: &[u8]) -> Bytes {
    control(PING, payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: &[u8]) -> Header {
        Header::read(bytes[..HEADER].try_into().unwrap()).unwrap()
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        assert_eq!(header(&data(7, b"abc")), Header::Data { stream: 7, flags: 0, length: 3 });
        assert_eq!(header(&fin(7)), Header::Data { stream: 7, flags: FIN, length: 0 });
        assert_eq!(header(&refuse(7)), Header::Control { kind: RST_STREAM, flags: 0, length: 8 });
        assert_eq!(&reply(7, b"x")[..], b"\x80\x03\x00\x02\x00\x00\x00\x05\x00\x00\x00\x07x");
    }

    #[test]
    fn another_version_is_refused() {
        let error = Header::read(*b"\x80\x02\x00\x01\x00\x00\x00\x00").unwrap_err();
        assert_eq!(error.to_string(), "a frame has version 2 of SPDY, which is not 3");
    }
}
