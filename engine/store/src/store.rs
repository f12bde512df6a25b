//! The store as its users see it.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::durable::{self, Committer};
use crate::options::Options;
use crate::state::{FIRST_VERSION, State};
use crate::write::Draft;
use crate::{Event, Expired, Key, ListAtError, OpenError, Snapshot, Stored, Watch, Write, WriteError};

/// The objects, versions and watch log of one API server. A clone is the same store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

struct Inner {
    state: Arc<State>,
    writer: Writer,
}

/// Who makes one write after the other.
enum Writer {
    Memory(Mutex<()>),
    Durable(Committer),
}

impl Store {
    /// An empty store that lives as long as this process.
    pub fn memory(options: Options) -> Store {
        let state = Arc::new(State::new(FIRST_VERSION, HashMap::new(), options));
        Store { inner: Arc::new(Inner { state, writer: Writer::Memory(Mutex::new(())) }) }
    }

    /// The store in a folder, which is made when it is not there. It is held until the last clone of the store is
    /// dropped, which waits until the writes that are under way are done. Blocks while it reads the file.
    pub fn open(folder: &Path, options: Options) -> Result<Store, OpenError> {
        let (state, committer) = durable::open(folder, options)?;
        Ok(Store { inner: Arc::new(Inner { state, writer: Writer::Durable(committer) }) })
    }

    /// The newest version.
    pub fn resource_version(&self) -> u64 {
        self.inner.state.newest().get()
    }

    /// An object, as it is now.
    pub fn get(&self, key: &Key) -> Option<Stored> {
        self.inner.state.find(key).1
    }

    /// The objects of a resource, or of one namespace of it, as they are now. Constant work.
    pub fn list(&self, resource: &str, namespace: Option<&str>) -> Snapshot {
        self.inner.state.list(resource, namespace)
    }

    /// As [`Store::list`], as it was at that version. Work grows with the number of writes since.
    pub fn list_at(
        &self,
        resource: &str,
        namespace: Option<&str>,
        resource_version: u64,
    ) -> Result<Snapshot, ListAtError> {
        self.inner.state.list_at(resource, namespace, resource_version)
    }

    /// Every event of a resource, or of one namespace of it, after that version; which may be one still to come.
    pub fn watch(&self, resource: &str, namespace: Option<&str>, after: u64) -> Result<Watch, Expired> {
        let state = &self.inner.state;
        Watch::new(state.subscribe(resource), state.newest().clone(), namespace, after)
    }

    /// Does a write, and returns what it did when it is visible to every reader and, in a durable store, on the disk.
    ///
    /// In memory it is done at the first poll. In a durable store, a write whose future is dropped may be done or not.
    pub async fn write(&self, write: Write) -> Result<Arc<Event>, WriteError> {
        let draft = Draft::new(write)?;
        match &self.inner.writer {
            Writer::Durable(committer) => committer.write(draft).await,
            Writer::Memory(turn) => {
                let state = &self.inner.state;
                let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                let (key, current) = state.find(draft.key());
                let event = Arc::new(draft.decide(key, current, state.newest().get() + 1)?);
                state.publish(std::slice::from_ref(&event));
                Ok(event)
            }
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("resource_version", &self.resource_version()).finish_non_exhaustive()
    }
}
