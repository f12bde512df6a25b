//! Disks that fail, files that are damaged, folders that are taken.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use redb::backends::FileBackend;
use redb::{BackendError, Database, DatabaseError, StorageBackend};
use serde_json::json;
use tempfile::TempDir;

use super::commit::Committer;
use super::disk::Disk;
use super::folder;
use crate::state::State;
use crate::write::Draft;
use crate::{Key, OpenError, Options, StorageError, Store, Write, WriteError};

fn create(name: &str, filler: &str) -> Write {
    let object = json!({"metadata": {"name": name}, "data": filler}).as_object().unwrap().clone();
    Write::Create { key: Key::new("configmaps", "default", name), object }
}

/// What a store has, as text.
fn contents(store: &Store) -> String {
    let mut text = format!("{}\n", store.resource_version());
    for (_, name, stored) in store.list("configmaps", None).iter() {
        writeln!(text, "{name} {} {:?}", stored.resource_version, stored.bytes).unwrap();
    }
    text
}

/// A disk that is full from the n-th operation on that changes it, until it is repaired (a negative n).
#[derive(Debug)]
struct Failing {
    file: FileBackend,
    left: Arc<AtomicI64>,
}

impl Failing {
    fn open(path: &Path, left: &Arc<AtomicI64>) -> Result<Database, DatabaseError> {
        let file = FileBackend::new(File::options().read(true).write(true).open(path)?)?;
        Database::builder().create_with_backend(Failing { file, left: left.clone() })
    }

    fn step(&self) -> io::Result<()> {
        match self.left.load(Ordering::SeqCst) {
            0 => return Err(io::ErrorKind::StorageFull.into()),
            _ => self.left.fetch_sub(1, Ordering::SeqCst),
        };
        Ok(())
    }
}

impl StorageBackend for Failing {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step()?;
        self.file.set_len(len)
    }
    fn sync_data(&self) -> io::Result<()> {
        self.step()?;
        self.file.sync_data()
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step()?;
        self.file.write(offset, data)
    }
    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }
    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}

/// A store on a failing disk, to be written to through its parts.
fn failing(folder: &Path, left: &Arc<AtomicI64>) -> (Arc<State>, Committer) {
    let lock = folder::lock(folder).unwrap();
    let path = folder::create(folder).unwrap();
    let (disk, contents) = folder::load(path.clone()).unwrap();
    drop(disk);
    let database = Failing::open(&path, left).unwrap();
    let open = left.clone();
    let disk = Disk::new(path, Box::new(move |path| Failing::open(path, &open)), database);
    let state = Arc::new(State::new(contents.newest, contents.objects, Options::default()));
    (state.clone(), Committer::start(state, disk, lock).unwrap())
}

#[tokio::test]
async fn wherever_a_commit_fails_its_writes_are_undone_and_the_store_goes_on() {
    let filler = "x".repeat(20_000);
    for fails_after in 0.. {
        let folder = TempDir::new().unwrap();
        let left = Arc::new(AtomicI64::new(-1));
        let (state, committer) = failing(folder.path(), &left);
        let write = async |write| committer.write(Draft::new(write).unwrap()).await;
        write(create("before", &filler)).await.unwrap();

        left.store(fails_after, Ordering::SeqCst);
        let failed = write(create("failed", &filler)).await;
        let done = failed.is_ok();
        if let Err(error) = failed {
            assert!(matches!(&error, WriteError::Storage(error) if matches!(**error, StorageError::Commit { .. })));
            assert!(matches!(write(create("again", &filler)).await, Err(WriteError::Storage(_))), "still failing");
            assert_eq!((state.newest().get(), state.list("configmaps", None).len()), (2, 1), "reading goes on");
        }

        left.store(-1, Ordering::SeqCst);
        assert!(matches!(write(create("before", "")).await, Err(WriteError::AlreadyExists)));
        write(create("after", &filler)).await.unwrap();
        drop(committer);

        let store = Store::open(folder.path(), Options::default()).unwrap();
        let names: Vec<String> = store.list("configmaps", None).iter().map(|(_, name, _)| name.to_string()).collect();
        assert_eq!(store.resource_version(), state.newest().get());
        if done {
            assert_eq!(names, ["after", "before", "failed"]);
            assert!(fails_after > 2, "some commits must have failed");
            return;
        }
        assert_eq!(names, ["after", "before"], "after {fails_after} operations");
    }
}

async fn filled() -> TempDir {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    for name in ["a", "b", "c", "d"] {
        store.write(create(name, &name.repeat(3000))).await.unwrap();
    }
    folder
}

fn error(folder: &Path) -> String {
    let error = Store::open(folder, Options::default()).unwrap_err();
    error.to_string().replace(folder.to_str().unwrap(), "FOLDER")
}

#[test]
fn a_folder_that_is_in_use_says_by_whom_and_is_free_again_when_the_store_is_dropped() {
    let folder = TempDir::new().unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    let holder = std::process::id();
    let expected = format!("FOLDER is in use by process {holder}: stop that process, or choose another folder");
    assert_eq!(error(folder.path()), expected);
    let clone = store.clone();
    drop(store);
    assert_eq!(error(folder.path()), expected);
    drop(clone);
    Store::open(folder.path(), Options::default()).unwrap();
}

#[test]
fn what_is_not_a_store_is_refused_and_left_alone() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.redb");
    let expected = "FOLDER/store.redb is not the file of a store: move it away, or choose another folder";
    for text in ["", "a", "Dear diary, this is longer than any magic number."] {
        fs::write(&path, text).unwrap();
        assert_eq!(error(folder.path()), expected);
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::remove_file(&path).unwrap();
    drop(Database::create(&path).unwrap());
    assert_eq!(error(folder.path()), expected);

    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(error(&file), "cannot use FOLDER: see that it is a folder that this user may write to");
}

#[test]
fn another_format_is_refused_by_its_number() {
    let folder = TempDir::new().unwrap();
    drop(Store::open(folder.path(), Options::default()).unwrap());
    let database = Database::open(folder.path().join("store.redb")).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(super::disk::META).unwrap().insert(super::disk::FORMAT, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert_eq!(
        error(folder.path()),
        "FOLDER/store.redb has the format 2 and this program reads 1: open it with the program that wrote it"
    );
}

#[tokio::test]
async fn a_file_that_was_not_finished_is_made_anew() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("store.redb.new"), "half").unwrap();
    let store = Store::open(folder.path(), Options::default()).unwrap();
    store.write(create("a", "")).await.unwrap();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "lock and store.redb");
}

#[test]
fn nobody_else_reads_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let _store = Store::open(folder.path(), Options::default()).unwrap();
    let mode = fs::metadata(folder.path().join("store.redb")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Wherever the file is damaged, opening it finds all objects or says that it is damaged; it neither panics nor finds
/// others.
#[tokio::test]
async fn damage_anywhere_is_noticed() {
    let folder = filled().await;
    let expected = contents(&Store::open(folder.path(), Options::default()).unwrap());
    let path = folder.path().join("store.redb");
    let whole = fs::read(&path).unwrap();
    let mut damaged = 0;
    for place in (0..320).step_by(3).chain((320..whole.len()).step_by(whole.len() / 150)) {
        let mut bytes = whole.clone();
        bytes[place] ^= 0x40;
        fs::write(&path, &bytes).unwrap();
        match Store::open(folder.path(), Options::default()) {
            Ok(store) => assert_eq!(contents(&store), expected, "byte {place}"),
            Err(OpenError::Damaged { .. } | OpenError::Foreign { .. } | OpenError::Format { .. }) => damaged += 1,
            Err(error) => panic!("byte {place}: {error}"),
        }
    }
    assert!(damaged > 20, "only {damaged} were noticed");
    for len in (1..whole.len()).step_by(whole.len() / 10) {
        fs::write(&path, &whole[..len]).unwrap();
        assert!(Store::open(folder.path(), Options::default()).is_err(), "{len} of {} bytes", whole.len());
    }
}
