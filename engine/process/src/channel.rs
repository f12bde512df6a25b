//! Lines and descriptors through a Unix socket.

use std::collections::VecDeque;
use std::io;
use std::io::{IoSlice, IoSliceMut, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// So many descriptors come with one message at most.
const DESCRIPTORS: usize = 3;

/// A supervisor's end of a socket. It blocks.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: UnixStream,
    received: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Channel {
    pub(crate) fn new(socket: UnixStream) -> Channel {
        Channel { socket, received: Vec::new(), descriptors: VecDeque::new() }
    }

    /// The socket that a supervisor is given as its standard input.
    pub(crate) fn from_stdin() -> io::Result<Channel> {
        Ok(Channel::new(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?)))
    }

    /// Waits for something to come; `false` when nothing will come any more.
    pub(crate) fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 * 1024];
        let mut space = cmsg_space!([RawFd; DESCRIPTORS]);
        let mut slices = [IoSliceMut::new(&mut bytes)];
        let message =
            recvmsg::<()>(self.socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(descriptors) = control {
                self.descriptors.extend(descriptors.into_iter().map(owned));
            }
        }
        let length = message.bytes;
        self.received.extend(&bytes[..length]);
        Ok(length > 0)
    }

    /// The next whole message that has come.
    pub(crate) fn next<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(end) = self.received.iter().position(|byte| *byte == b'\n') else { return Ok(None) };
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Ok(Some(serde_json::from_slice(&line)?))
    }

    /// Waits for the next message; `None` when none will come any more.
    pub(crate) fn wait<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(Some(message));
            }
            if !self.receive()? {
                return Ok(None);
            }
        }
    }

    /// The next descriptor that has come.
    pub(crate) fn descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        self.socket.write_all(&line(message)?)
    }

    pub(crate) fn send_with(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = line(message)?;
        let sent = send_with_descriptors(self.socket.as_fd(), &bytes, descriptors)?;
        self.socket.write_all(bytes.get(sent..).unwrap_or_default())
    }
}

impl Channel {
    /// Ends the conversation: the other side sees that nothing will come any more.
    pub(crate) fn close(&self) -> io::Result<()> {
        self.socket.shutdown(Shutdown::Both)
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A message as it is sent.
pub(crate) fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// Sends as much of `bytes` as can be sent at once, with the descriptors, and says how much it was.
pub(crate) fn send_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<usize> {
    let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&raw)];
    let control = if raw.is_empty() { &rights[..0] } else { &rights[..] };
    Ok(sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(bytes)], control, MsgFlags::MSG_NOSIGNAL, None)?)
}

/// Takes over a descriptor that has just been received.
#[expect(unsafe_code, reason = "nix gives received descriptors as numbers")]
fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: the kernel made this descriptor for the message that was received a moment ago; nobody else knows it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Read as _, Write as _};

    use super::*;

    #[test]
    fn descriptors_come_with_their_messages() {
        let (near, far) = UnixStream::pair().unwrap();
        let (mut reader, writer) = io::pipe().unwrap();
        let message = line(&"hello").unwrap();
        let sent = send_with_descriptors(near.as_fd(), &message, &[writer.as_fd()]).unwrap();
        assert_eq!(sent, message.len());
        drop((near, writer));
        let mut channel = Channel::new(far);
        assert_eq!(channel.wait::<String>().unwrap().as_deref(), Some("hello"));
        File::from(channel.descriptor().unwrap()).write_all(b"through the pipe").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through the pipe");
        assert!(channel.wait::<String>().unwrap().is_none());
    }

    #[test]
    fn a_message_longer_than_a_buffer_comes_whole() {
        let (near, far) = UnixStream::pair().unwrap();
        let long = "x".repeat(1 << 20);
        let sender = {
            let long = long.clone();
            std::thread::spawn(move || Channel::new(near).send(&long))
        };
        assert_eq!(Channel::new(far).wait::<String>().unwrap(), Some(long));
        sender.join().unwrap().unwrap();
    }
}
