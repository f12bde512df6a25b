//! The one thread that writes: it takes all writes that wait and makes one transaction of them.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use tokio::sync::{mpsc, oneshot};

use super::disk::Disk;
use crate::state::State;
use crate::write::Draft;
use crate::{Event, Key, OpenError, StorageError, Stored, WriteError};

/// How many writes share one transaction, and how many more may wait for the next.
const BATCH: usize = 1024;

type Outcome = Result<Arc<Event>, WriteError>;

struct Request {
    draft: Draft,
    reply: oneshot::Sender<Outcome>,
}

/// The way to the thread that writes. Dropping it does what is waiting, closes the file and gives the folder free.
pub(crate) struct Committer {
    path: PathBuf,
    queue: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
    _lock: File,
}

impl Committer {
    pub(super) fn start(state: Arc<State>, disk: Disk, lock: File) -> Result<Committer, OpenError> {
        let (queue, requests) = mpsc::channel(BATCH);
        let path = disk.path.clone();
        let thread = thread::Builder::new()
            .name("pillion-store".to_owned())
            .spawn(move || run(&state, disk, requests))
            .map_err(|source| OpenError::Folder { path: path.clone(), source })?;
        Ok(Committer { path, queue: Some(queue), thread: Some(thread), _lock: lock })
    }

    pub(crate) async fn write(&self, draft: Draft) -> Outcome {
        let (reply, outcome) = oneshot::channel();
        if let Some(queue) = &self.queue
            && queue.send(Request { draft, reply }).await.is_ok()
            && let Ok(outcome) = outcome.await
        {
            return outcome;
        }
        Err(WriteError::Storage(Arc::new(StorageError::Ended { path: self.path.clone() })))
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            // Its panic, if there was one, has been reported by itself.
            let _ = thread.join();
        }
    }
}

fn run(state: &State, mut disk: Disk, mut requests: mpsc::Receiver<Request>) {
    let mut batch = Vec::new();
    while requests.blocking_recv_many(&mut batch, BATCH) > 0 {
        commit(state, &mut disk, batch.drain(..));
    }
}

/// Decides writes one after the other, makes them durable together, then visible, then acknowledges them.
fn commit(state: &State, disk: &mut Disk, batch: impl Iterator<Item = Request>) {
    let mut version = state.newest().get();
    let mut events = Vec::new();
    let mut changed: HashMap<Key, Option<Stored>> = HashMap::new();
    let mut outcomes = Vec::new();
    for Request { draft, reply } in batch {
        let (key, stored) = state.find(draft.key());
        let current = changed.get(&key).cloned().unwrap_or(stored);
        let outcome = draft.decide(key, current, version + 1).map(Arc::new);
        if let Ok(event) = &outcome {
            version += 1;
            changed.insert(event.key.clone(), event.state().cloned());
            events.push(event.clone());
        }
        outcomes.push((reply, outcome));
    }

    // A refusal may rest on an earlier write of the same batch. So it is as uncertain as that one until now.
    let failure = if events.is_empty() { None } else { disk.commit(state, &events).err() };
    let failure = failure.map(|source| Arc::new(StorageError::Commit { path: disk.path.clone(), source }));
    if failure.is_none() {
        state.publish(&events);
    }
    for (reply, outcome) in outcomes {
        // Whoever asked may have stopped waiting.
        let _ = reply.send(failure.clone().map_or(outcome, |failure| Err(WriteError::Storage(failure))));
    }
}
