//! The file: one transaction for many events.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, DatabaseError, Table, TableDefinition};

use crate::state::State;
use crate::{Event, Key, Stored};

/// Resource, namespace and name; resourceVersion and JSON.
pub(super) const OBJECTS: TableDefinition<(&str, &str, &str), (u64, &[u8])> = TableDefinition::new("objects");
type ObjectTable<'a> = Table<'a, (&'static str, &'static str, &'static str), (u64, &'static [u8])>;
/// [`FORMAT`] and [`NEWEST`].
pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("pillion-store");
/// In [`META`]: how to read the file.
pub(super) const FORMAT: &str = "format";
/// In [`META`]: the newest resourceVersion. It outlives the objects that had it.
pub(super) const NEWEST: &str = "resourceVersion";

/// Everything is read from memory, so the file needs few of its pages at a time. More was measured to be no faster, and
/// it costs more memory than its size: buffers of pages between the objects leave gaps when they are freed.
const CACHE: usize = 1 << 20;

/// How the file is opened; a parameter so that tests can have a disk that fails.
pub(super) type Open = Box<dyn Fn(&Path) -> Result<Database, DatabaseError> + Send>;

/// Opens a file that exists.
pub(super) fn open(path: &Path) -> Result<Database, DatabaseError> {
    Database::builder().set_cache_size(CACHE).open(path)
}

/// The file of a store.
pub(super) struct Disk {
    pub(super) path: PathBuf,
    open: Open,
    /// After an input or output error a database must be opened anew.
    database: Option<Database>,
    /// What a failed transaction touched. Whether it left a trace is unknown until the next one has written over it.
    doubtful: HashSet<Key>,
}

impl Disk {
    pub(super) fn new(path: PathBuf, open: Open, database: Database) -> Disk {
        Disk { path, open, database: Some(database), doubtful: HashSet::new() }
    }

    /// Makes events durable, all or none. `state` is what it was before them.
    pub(super) fn commit(&mut self, state: &State, events: &[Arc<Event>]) -> Result<(), redb::Error> {
        let database = match self.database.take() {
            Some(database) => database,
            None => (self.open)(&self.path)?,
        };
        let done = self.transact(&database, state, events);
        if done.is_ok() {
            self.doubtful.clear();
            self.database = Some(database);
        } else {
            self.doubtful.extend(events.iter().map(|event| event.key.clone()));
        }
        done
    }

    fn transact(&self, database: &Database, state: &State, events: &[Arc<Event>]) -> Result<(), redb::Error> {
        let transaction = database.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for key in &self.doubtful {
                set(&mut objects, key, state.find(key).1.as_ref())?;
            }
            for event in events {
                set(&mut objects, &event.key, event.state())?;
            }
        }
        if let Some(event) = events.last() {
            transaction.open_table(META)?.insert(NEWEST, event.resource_version())?;
        }
        // With the durability that is redb's default: it returns when the disk has it.
        Ok(transaction.commit()?)
    }
}

fn set(objects: &mut ObjectTable<'_>, key: &Key, state: Option<&Stored>) -> Result<(), redb::Error> {
    let key = (&*key.resource, &*key.namespace, &*key.name);
    match state {
        Some(stored) => objects.insert(key, (stored.resource_version, &*stored.bytes))?,
        None => objects.remove(key)?,
    };
    Ok(())
}
