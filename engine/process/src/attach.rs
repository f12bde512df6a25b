//! Those who are attached to a container: each gets what it writes from then on, and all can write what it reads.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::{Semaphore, mpsc};

use crate::terminal::Terminal;

/// So many bytes wait for a client that reads slowly; then the container waits as well.
const LARGEST_QUEUE: usize = 256 * 1024;

/// What a process reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Whether it reads what clients that attach to it write. Otherwise its input is empty.
    pub stdin: bool,
    /// Whether its input ends with the first client that closes it. A terminal stays open.
    pub once: bool,
    /// Whether it reads from and writes to a terminal.
    pub terminal: bool,
}

/// Where output comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The standard output, or a terminal.
    Stdout,
    /// The standard error.
    Stderr,
}

/// The streams of a container, for one client.
#[derive(Debug)]
pub struct Attachment {
    /// What it reads, if it reads anything.
    pub stdin: Option<AttachedInput>,
    /// What it writes from now on.
    pub output: AttachedOutput,
    pub terminal: Option<Arc<Terminal>>,
}

/// What the container reads. Clones are the same.
#[derive(Clone, Debug)]
pub struct AttachedInput {
    writer: Arc<tokio::sync::Mutex<Option<pipe::Sender>>>,
    /// Whether it ends with the first client that closes it.
    once: bool,
}

impl AttachedInput {
    pub(crate) fn new(writer: pipe::Sender, once: bool) -> AttachedInput {
        AttachedInput { writer: Arc::new(tokio::sync::Mutex::new(Some(writer))), once }
    }

    /// Lets the container read this.
    ///
    /// # Errors
    /// It reads no more.
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        match self.writer.lock().await.as_mut() {
            Some(writer) => writer.write_all(bytes).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The client has no more input. Returns whether that was the end of the container's input; otherwise it waits for the next client.
    pub async fn close(&self) -> bool {
        if self.once {
            self.writer.lock().await.take();
        }
        self.once
    }
}

/// What a container writes.
#[derive(Debug)]
pub struct AttachedOutput {
    queue: mpsc::UnboundedReceiver<(Source, Vec<u8>)>,
    room: Arc<Semaphore>,
}

impl AttachedOutput {
    /// The next bytes; `None` when the container has ended.
    pub async fn next(&mut self) -> Option<(Source, Vec<u8>)> {
        let (source, bytes) = self.queue.recv().await?;
        self.room.add_permits(bytes.len());
        Some((source, bytes))
    }
}

impl Drop for AttachedOutput {
    fn drop(&mut self) {
        // Nobody waits for room any more.
        self.room.close();
    }
}

/// All clients of a container. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clients {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    clients: Vec<Client>,
    is_closed: bool,
}

#[derive(Clone, Debug)]
struct Client {
    queue: mpsc::UnboundedSender<(Source, Vec<u8>)>,
    room: Arc<Semaphore>,
}

impl Clients {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is written from now on. It is at its end at once when the container has ended.
    pub(crate) fn attach(&self) -> AttachedOutput {
        let (sender, queue) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(LARGEST_QUEUE));
        let mut state = self.state();
        if !state.is_closed {
            state.clients.push(Client { queue: sender, room: Arc::clone(&room) });
        }
        AttachedOutput { queue, room }
    }

    /// Sends to every client, as soon as each has room.
    pub(crate) async fn send(&self, source: Source, bytes: &[u8]) {
        let clients = {
            let mut state = self.state();
            state.clients.retain(|client| !client.queue.is_closed());
            state.clients.clone()
        };
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for client in clients {
            if let Ok(room) = client.room.acquire_many(length).await {
                room.forget();
            }
            // One that has gone meanwhile needs nothing.
            let _ = client.queue.send((source, bytes.to_vec()));
        }
    }

    /// The container has ended: nobody waits for clients any more. What is left in its pipes is not much.
    pub(crate) fn finish(&self) {
        for client in &self.state().clients {
            client.room.close();
        }
    }

    /// Everything was sent.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        state.clients.clear();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_container_waits_for_a_client_that_reads_slowly_and_its_end_for_none() {
        let clients = Clients::default();
        let mut output = clients.attach();
        let half = vec![0; LARGEST_QUEUE / 2];
        clients.send(Source::Stdout, &half).await;
        clients.send(Source::Stdout, &half).await;
        assert!(clients.send(Source::Stderr, b"more").now_or_never().is_none());
        assert_eq!(
            output.next().await.map(|(source, bytes)| (source, bytes.len())),
            Some((Source::Stdout, half.len()))
        );
        assert!(clients.send(Source::Stderr, b"more").now_or_never().is_some());
        clients.finish();
        assert!(clients.send(Source::Stdout, &half).now_or_never().is_some());
        clients.close();
        let mut sizes = Vec::new();
        while let Some((_, bytes)) = output.next().await {
            sizes.push(bytes.len());
        }
        assert_eq!(sizes, [half.len(), 4, half.len()]);
        assert!(clients.attach().next().await.is_none());
    }

    #[tokio::test]
    async fn a_client_that_leaves_holds_nobody_up() {
        let clients = Clients::default();
        let output = clients.attach();
        clients.send(Source::Stdout, &vec![0; LARGEST_QUEUE]).await;
        let send = clients.send(Source::Stdout, b"more");
        tokio::pin!(send);
        assert!(send.as_mut().now_or_never().is_none());
        drop(output);
        send.await;
    }
}
