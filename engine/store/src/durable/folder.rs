//! Holding, making and reading the folder of a store.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use redb::{Database, ReadableDatabase, ReadableTable, TableError};

use super::disk::{self, Disk, FORMAT, META, NEWEST, OBJECTS};
use crate::objects::Objects;
use crate::state::FIRST_VERSION;
use crate::{Key, Stored, text};

/// What this version of the program writes, and the only format it reads.
const CURRENT_FORMAT: u64 = 1;

/// Why the store in a folder cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The folder cannot be made, read or written.
    #[error("cannot use {}: see that it is a folder that this user may write to", path.display())]
    Folder {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
    /// Another store has the folder open.
    #[error("{} is in use by {holder}: stop that process, or choose another folder", path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The process that holds it, as in `process 42`.
        holder: String,
    },
    /// The file is something else.
    #[error("{} is not the file of a store: move it away, or choose another folder", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by another version of this program.
    #[error("{} has the format {found} and this program reads {CURRENT_FORMAT}: open it with the program that wrote it", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
    },
    /// The file is damaged.
    #[error("{} is damaged ({detail}): put a copy in its place, or move it away to begin with an empty store", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
}

/// Takes the folder, which ends with the process however that ends.
pub(super) fn lock(folder: &Path) -> Result<File, OpenError> {
    let path = folder.join("lock");
    let failed = |source| OpenError::Folder { path: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::Error(source)) => return Err(failed(source)),
        Err(TryLockError::WouldBlock) => {
            let mut holder = String::new();
            // The holder may be about to write its number.
            let known = file.read_to_string(&mut holder).is_ok() && !holder.is_empty();
            let holder = if known { format!("process {}", holder.trim_end()) } else { "another process".to_owned() };
            return Err(OpenError::InUse { path: folder.to_owned(), holder });
        }
    }
    let number = format!("{}\n", std::process::id());
    file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(number.as_bytes())).map_err(failed)?;
    Ok(file)
}

/// The path of the file; if there is none yet, it is made elsewhere first, so that it is never there in part.
pub(super) fn create(folder: &Path) -> Result<PathBuf, OpenError> {
    let path = folder.join("store.redb");
    let failed = |source| OpenError::Folder { path: folder.to_owned(), source };
    if path.try_exists().map_err(failed)? {
        return Ok(path);
    }
    let new = folder.join("store.redb.new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    write_empty(&new).map_err(|error| from_redb(&new, error))?;
    fs::rename(&new, &path).map_err(failed)?;
    for folder in [Some(folder), folder.parent()].into_iter().flatten().filter(|path| !path.as_os_str().is_empty()) {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    Ok(path)
}

fn write_empty(path: &Path) -> Result<(), redb::Error> {
    // Secrets are in it: nobody else reads them.
    File::options().write(true).create_new(true).mode(0o600).open(path).map_err(redb::Error::Io)?;
    let database = Database::create(path)?;
    let transaction = database.begin_write()?;
    transaction.open_table(OBJECTS)?;
    {
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT, CURRENT_FORMAT)?;
        meta.insert(NEWEST, FIRST_VERSION)?;
    }
    Ok(transaction.commit()?)
}

/// All that a file has.
pub(super) struct Contents {
    pub(super) newest: u64,
    /// By resource.
    pub(super) objects: HashMap<Arc<str>, Objects>,
}

/// Opens and checks the file, and reads all of it.
pub(super) fn load(path: PathBuf) -> Result<(Disk, Contents), OpenError> {
    // redb reads some pages of a file that was closed well before it can check them, and panics on nonsense in them.
    let (database, contents) =
        panic::catch_unwind(|| read(&path)).unwrap_or_else(|_| Err(damaged(&path, "its pages make no sense")))?;
    Ok((Disk::new(path, Box::new(disk::open), database), contents))
}

fn read(path: &Path) -> Result<(Database, Contents), OpenError> {
    let database = verified(path).map_err(|error| from_redb(path, error))?;
    let database = database.ok_or_else(|| damaged(path, "checksums do not match"))?;
    let (format, newest) = read_meta(&database).map_err(|error| from_redb(path, error))?;
    match format {
        Some(CURRENT_FORMAT) => {}
        Some(found) => return Err(OpenError::Format { path: path.to_owned(), found }),
        None => return Err(OpenError::Foreign { path: path.to_owned() }),
    }
    // etcd counts in 63 bits, and clients may parse a version so.
    let newest = newest
        .filter(|newest| (FIRST_VERSION..=i64::MAX as u64).contains(newest))
        .ok_or_else(|| damaged(path, "it has no newest resourceVersion"))?;
    let objects = read_objects(&database, newest).map_err(|error| match error {
        ReadError::Redb(error) => from_redb(path, error),
        ReadError::Object(key) => damaged(path, format!("the resourceVersion of {key} is wrong")),
    })?;
    Ok((database, Contents { newest, objects }))
}

fn damaged(path: &Path, detail: impl Into<String>) -> OpenError {
    OpenError::Damaged { path: path.to_owned(), detail: detail.into() }
}

/// The database with all its checksums checked, or `None` if they are wrong.
fn verified(path: &Path) -> Result<Option<Database>, redb::Error> {
    let mut database = disk::open(path)?;
    Ok(database.check_integrity()?.then_some(database))
}

fn read_meta(database: &Database) -> Result<(Option<u64>, Option<u64>), redb::Error> {
    let meta = match database.begin_read()?.open_table(META) {
        Ok(meta) => meta,
        Err(TableError::Storage(error)) => return Err(error.into()),
        Err(_) => return Ok((None, None)),
    };
    let value = |key| -> Result<_, redb::Error> { Ok(meta.get(key)?.map(|value| value.value())) };
    Ok((value(FORMAT)?, value(NEWEST)?))
}

enum ReadError {
    Redb(redb::Error),
    Object(Key),
}

impl<E: Into<redb::Error>> From<E> for ReadError {
    fn from(error: E) -> ReadError {
        ReadError::Redb(error.into())
    }
}

fn read_objects(database: &Database, newest: u64) -> Result<HashMap<Arc<str>, Objects>, ReadError> {
    let mut resources: HashMap<Arc<str>, Objects> = HashMap::new();
    for entry in database.begin_read()?.open_table(OBJECTS)?.iter()? {
        let (key, value) = entry?;
        let (resource, namespace, name) = key.value();
        let (resource_version, bytes) = value.value();
        let key = Key::new(resource, namespace, name);
        if resource_version > newest || text::version_of(bytes) != Some(resource_version) {
            return Err(ReadError::Object(key));
        }
        let stored = Stored { bytes: Bytes::copy_from_slice(bytes), resource_version };
        resources.entry(key.resource.clone()).or_default().set(&key, Some(&stored));
    }
    Ok(resources)
}

/// What an error of redb means for the one who opens a store.
fn from_redb(path: &Path, error: redb::Error) -> OpenError {
    let owned = path.to_owned();
    match error {
        redb::Error::DatabaseAlreadyOpen => OpenError::InUse { path: owned, holder: "another process".to_owned() },
        // redb says so for a file that does not begin as its files do.
        redb::Error::Io(source) if source.kind() == io::ErrorKind::InvalidData => OpenError::Foreign { path: owned },
        redb::Error::Io(source) if source.kind() == io::ErrorKind::UnexpectedEof => damaged(path, source.to_string()),
        redb::Error::Io(source) => OpenError::Folder { path: owned, source },
        other => damaged(path, other.to_string()),
    }
}
