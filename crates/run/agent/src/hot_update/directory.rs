//! The one directory that updates are written to.
//!
//! The app's containers share it, so that nothing in it is trusted: every step is relative to an open descriptor, and no symbolic link is
//! followed. What goes into place gets there by one rename.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use pillion_assist::OnDisk;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use tokio::sync::OwnedMutexGuard;

use super::mounted::make_in_volume;
use crate::log;

/// The agent's own directory inside it: on the same file system, so that a rename is enough.
const OWN: &str = ".pillion-agent";
const JOURNAL: &str = "journal.json";
const CURRENT: &str = "current.json";
/// The digest of the ConfigMap that was followed last.
const TAKEN: &str = "config-map";

/// An open directory.
pub(crate) struct Directory {
    files: OwnedFd,
    own: OwnedFd,
    mode: u32,
    /// Whoever changes files here holds it, so that nobody else does.
    _turn: Option<OwnedMutexGuard<()>>,
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

impl Directory {
    /// Opens the directory, and makes it if it is missing in a volume.
    pub(crate) fn open(path: &Path, mode: u32) -> std::io::Result<Directory> {
        make_in_volume(path)?;
        let files = fs::openat(CWD, path, FOLDER | OFlags::RDONLY, Mode::empty())?;
        match fs::mkdirat(&files, OWN, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let own = fs::openat(&files, OWN, FOLDER | OFlags::RDONLY, Mode::empty())?;
        Ok(Directory { files, own, mode, _turn: None })
    }

    /// Keeps its turn until it is closed: an archive that is being unpacked goes on, and keeps the next update waiting, when its update is given up.
    pub(crate) fn during(self, turn: OwnedMutexGuard<()>) -> Directory {
        Directory { _turn: Some(turn), ..self }
    }

    /// A new file among the agent's own; what had the name is gone.
    pub(crate) fn create(&self, name: &str) -> std::io::Result<File> {
        self.clear(name)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(self.mode & 0o777);
        let file = fs::openat(&self.own, name, flags, mode)?;
        // Whatever the agent's umask is.
        fs::fchmod(&file, mode)?;
        Ok(File::from(file))
    }

    /// A new directory among the agent's own.
    pub(crate) fn create_folder(&self, name: &str) -> std::io::Result<OwnedFd> {
        self.clear(name)?;
        let mode = folder_mode(self.mode);
        fs::mkdirat(&self.own, name, mode)?;
        let folder = fs::openat(&self.own, name, FOLDER | OFlags::RDONLY, Mode::empty())?;
        fs::fchmod(&folder, mode)?;
        Ok(folder)
    }

    /// Opens one of the agent's own files for reading.
    pub(crate) fn read(&self, name: &str) -> std::io::Result<File> {
        Ok(File::from(fs::openat(&self.own, name, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?))
    }

    /// The mode of files.
    pub(crate) fn mode(&self) -> u32 {
        self.mode
    }

    /// Removes one of the agent's own files or directories, if it is there and can be removed.
    pub(crate) fn discard(&self, name: &str) {
        if let Err(error) = remove(self.own.as_fd(), name) {
            log::line(format_args!("hot_update: {OWN}/{name} cannot be removed: {error}"));
        }
    }

    /// Removes what an update has left: these names, and what `clear` has set aside.
    pub(crate) fn sweep(&self, names: &[&str]) {
        for name in names {
            self.discard(name);
        }
        for number in 0..SET_ASIDE {
            self.discard(&set_aside(number));
        }
    }

    /// Makes a name free. What cannot be removed is set aside, so that it does not stop every later update: the app may have put a directory there
    /// that is another user's.
    fn clear(&self, name: &str) -> std::io::Result<()> {
        let Err(error) = remove(self.own.as_fd(), name) else { return Ok(()) };
        let free = |number| fs::renameat_with(&self.own, name, &self.own, set_aside(number), RenameFlags::NOREPLACE);
        if (0..SET_ASIDE).any(|number| free(number).is_ok()) {
            return Ok(());
        }
        let problem = format!("{OWN}/{name} in `fileDir` cannot be removed: {error}; remove it, and try again");
        Err(std::io::Error::new(error.kind(), problem))
    }

    /// What is in place under a name.
    pub(crate) fn on_disk(&self, file: &str) -> std::io::Result<OnDisk> {
        digest(self.files.as_fd(), file)
    }

    /// The digest of something of the agent's own.
    pub(crate) fn own_digest(&self, name: &str) -> std::io::Result<OnDisk> {
        digest(self.own.as_fd(), name)
    }

    /// Puts `staged` in place as `file`, in one step. What was there is `staged` afterwards. Done twice, nothing has changed.
    pub(crate) fn exchange(&self, staged: &str, file: &str) -> std::io::Result<()> {
        let there = match fs::statat(&self.files, file, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => true,
            Err(Errno::NOENT) => false,
            Err(error) => return Err(error.into()),
        };
        let flags = if there { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        fs::renameat_with(&self.own, staged, &self.files, file, flags)?;
        self.sync()
    }

    /// Takes `file` out of place, to be `staged` again.
    pub(crate) fn take_out(&self, file: &str, staged: &str) -> std::io::Result<()> {
        self.discard(staged);
        fs::renameat_with(&self.files, file, &self.own, staged, RenameFlags::NOREPLACE)?;
        self.sync()
    }

    fn sync(&self) -> std::io::Result<()> {
        fs::fsync(&self.own)?;
        Ok(fs::fsync(&self.files)?)
    }

    /// Writes one of the agent's own files so that it is either old or new.
    fn write(&self, name: &str, text: &str) -> std::io::Result<()> {
        let temporary = format!("{name}.new");
        let mut file = self.create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::renameat(&self.own, &temporary, &self.own, name)?;
        Ok(fs::fsync(&self.own)?)
    }

    fn load(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        self.read(name).ok()?.take(64 << 10).read_to_string(&mut text).ok()?;
        Some(text)
    }

    pub(crate) fn save_journal<T: serde::Serialize>(&self, journal: &T) -> std::io::Result<()> {
        self.write(JOURNAL, &serde_json::to_string(journal)?)
    }

    pub(crate) fn journal<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.load(JOURNAL)?).ok()
    }

    pub(crate) fn close_journal(&self) {
        self.discard(JOURNAL);
        let _ = fs::fsync(&self.own);
    }

    pub(crate) fn save_current<T: serde::Serialize>(&self, current: &T) -> std::io::Result<()> {
        self.write(CURRENT, &serde_json::to_string(current)?)
    }

    pub(crate) fn save_taken(&self, digest: &str) -> std::io::Result<()> {
        self.write(TAKEN, digest)
    }

    pub(crate) fn taken(&self) -> Option<String> {
        self.load(TAKEN)
    }

    pub(crate) fn current<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(&self.load(CURRENT)?).ok()
    }
}

/// The mode of directories beside files of this mode: whoever reads may enter.
pub(crate) fn folder_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode | 0o700 | ((mode & 0o444) >> 2))
}

/// So many things that could not be removed are kept aside.
const SET_ASIDE: u32 = 8;

fn set_aside(number: u32) -> String {
    format!("left-{number}")
}

/// Removes a file, or a directory with everything in it. The tree may be of any depth: directories are moved up into the first one and emptied
/// there, so that neither memory nor the number of open files grows with it. No link is followed.
fn remove(at: BorrowedFd<'_>, name: &str) -> std::io::Result<()> {
    if unlink(at, name)? {
        return Ok(());
    }
    let root = fs::openat(at, name, FOLDER | OFlags::RDONLY, Mode::empty())?;
    let mut moved = 0;
    loop {
        let mut is_empty = true;
        for entry in fs::Dir::read_from(&root)? {
            let entry = entry?;
            if !is_dot(entry.file_name()) {
                is_empty = false;
                flatten(root.as_fd(), entry.file_name(), &mut moved)?;
            }
        }
        if is_empty {
            return Ok(fs::unlinkat(at, name, AtFlags::REMOVEDIR)?);
        }
    }
}

/// Removes one entry of `root`. The directories in it become entries of `root`, which its caller reads until nothing is left.
fn flatten(root: BorrowedFd<'_>, name: &CStr, moved: &mut u64) -> std::io::Result<()> {
    if unlink(root, name)? {
        return Ok(());
    }
    let folder = fs::openat(root, name, FOLDER | OFlags::RDONLY, Mode::empty())?;
    for entry in fs::Dir::read_from(&folder)? {
        let entry = entry?;
        if !is_dot(entry.file_name()) && !unlink(folder.as_fd(), entry.file_name())? {
            move_up(folder.as_fd(), entry.file_name(), root, moved)?;
        }
    }
    match fs::unlinkat(root, name, AtFlags::REMOVEDIR) {
        // Some file systems leave out entries while others are removed: the next look finds them.
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Moves a directory into `root`, under a name that is free there.
fn move_up(from: BorrowedFd<'_>, name: &CStr, root: BorrowedFd<'_>, moved: &mut u64) -> std::io::Result<()> {
    loop {
        *moved += 1;
        match fs::renameat_with(from, name, root, format!("moved-{moved}"), RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            other => return Ok(other?),
        }
    }
}

/// Removes what is not a directory, or is not there. Returns whether it was.
fn unlink(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> std::io::Result<bool> {
    match fs::unlinkat(at, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(true),
        Err(Errno::ISDIR) => Ok(false),
        // POSIX has this for a directory; Linux for what the caller has no right to remove.
        Err(Errno::PERM) if is_folder(at, name) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn is_folder(at: BorrowedFd<'_>, name: impl rustix::path::Arg) -> bool {
    fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Directory)
}

fn is_dot(name: &CStr) -> bool {
    matches!(name.to_bytes(), b"." | b"..")
}

/// The names in a directory, sorted.
fn names(folder: &OwnedFd) -> std::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in fs::Dir::read_from(folder)? {
        let entry = entry?;
        if !is_dot(entry.file_name()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The digest of a tree has so many levels below the first: as many as an archive may have.
const LEVELS: u32 = 64;

/// The SHA-256 of a file, or of the listing of a directory with the digests of its files.
fn digest(at: BorrowedFd<'_>, name: &str) -> std::io::Result<OnDisk> {
    match fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(OnDisk::Nothing),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(OnDisk::Digest(digest_at(at, name, 0)?)),
    }
}

fn digest_at(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy, depth: u32) -> std::io::Result<String> {
    let kind = FileType::from_raw_mode(fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode);
    let mut hash = Sha256::new();
    if kind == FileType::RegularFile {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let mut file = File::from(fs::openat(at, name, flags, Mode::empty())?);
        let mut buffer = [0; 16 << 10];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                return Ok(hex(&hash.finalize()));
            }
            hash.update(&buffer[..read]);
        }
    }
    if kind == FileType::Directory && depth <= LEVELS {
        let folder = fs::openat(at, name, FOLDER | OFlags::RDONLY, Mode::empty())?;
        for entry in names(&folder)? {
            let below = digest_at(folder.as_fd(), entry.as_c_str(), depth + 1)?;
            for part in [below.as_bytes(), b"  ", entry.to_bytes(), b"\n"] {
                hash.update(part);
            }
        }
        return Ok(hex(&hash.finalize()));
    }
    // A link, a device or a socket of the app's own: whatever it leads to is nobody's update.
    Ok("neither a file nor a directory".to_owned())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use rustix::process::{Uid, geteuid};
    use rustix::thread::set_thread_res_uid;

    use super::*;

    /// Nests directories in each other, each with a file.
    fn nest(root: &Path, depth: usize) {
        let mut at: OwnedFd = File::open(root).unwrap().into();
        for _ in 0..depth {
            fs::mkdirat(&at, "deep", Mode::from_raw_mode(0o755)).unwrap();
            at = fs::openat(&at, "deep", FOLDER | OFlags::RDONLY, Mode::empty()).unwrap();
            fs::openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, Mode::from_raw_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn a_tree_of_any_depth_is_removed_and_no_link_in_it_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::create_dir(&precious).unwrap();
        std::fs::write(precious.join("file"), "precious").unwrap();
        let directory = Directory::open(folder.path(), 0o644).unwrap();
        let staged = folder.path().join(OWN).join("staged");
        std::fs::create_dir(&staged).unwrap();
        nest(&staged, 300);
        for name in ["a", "b", "moved-1"] {
            std::fs::create_dir_all(staged.join(name).join("x/y")).unwrap();
            symlink(&precious, staged.join(name).join("x/link")).unwrap();
        }
        symlink(&precious, staged.join("link")).unwrap();
        directory.create_folder("staged").unwrap();
        assert_eq!(names(&File::open(&staged).unwrap().into()).unwrap(), Vec::<CString>::new());
        assert_eq!(std::fs::read_to_string(precious.join("file")).unwrap(), "precious");
    }

    /// Does something as a user whom modes bind: root may remove everything.
    fn as_a_user(work: impl FnOnce() + Send) {
        std::thread::scope(|scope| {
            let user = || {
                if geteuid().is_root() {
                    // Of this thread alone.
                    let nobody = Uid::from_raw(65_534);
                    set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                work();
            };
            scope.spawn(user).join().unwrap();
        });
    }

    /// The app may have put a directory there that the agent may not write to.
    #[test]
    fn what_cannot_be_removed_is_set_aside_until_it_can_be() {
        let folder = tempfile::tempdir().unwrap();
        let allow = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        allow(folder.path(), 0o777);
        as_a_user(|| {
            let directory = Directory::open(folder.path(), 0o644).unwrap();
            let own = folder.path().join(OWN);
            let there = |name: &str| {
                let names = names(&File::open(own.join(name)).unwrap().into()).unwrap();
                names.into_iter().map(|name| name.into_string().unwrap()).collect::<Vec<_>>()
            };
            let put = |name: &str| {
                std::fs::create_dir(own.join(name)).unwrap();
                std::fs::write(own.join(name).join("file"), "").unwrap();
                allow(&own.join(name), 0o500);
            };
            put("staged");
            directory.create_folder("staged").unwrap();
            put("incoming");
            directory.create("incoming").unwrap();
            assert_eq!(there(""), ["incoming", "left-0", "left-1", "staged"]);
            assert_eq!((there("staged"), there("left-0")), (vec![], vec!["file".to_owned()]));
            directory.sweep(&["incoming", "staged"]);
            assert_eq!(there(""), ["left-0", "left-1"], "it still cannot be removed");
            // There is room for so many.
            for _ in 2..SET_ASIDE {
                put("staged");
                directory.create_folder("staged").unwrap();
                directory.discard("staged");
            }
            put("staged");
            let error = directory.create_folder("staged").unwrap_err().to_string();
            assert!(error.contains(".pillion-agent/staged in `fileDir` cannot be removed"), "{error}");
            for name in there("") {
                allow(&own.join(name), 0o700);
            }
            directory.sweep(&["staged"]);
            assert_eq!(there(""), [""; 0]);
        });
    }

    #[test]
    fn names_that_are_no_text_have_a_digest() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), 0o644).unwrap();
        let digest_with = |name: &[u8]| {
            std::fs::create_dir(folder.path().join("conf")).unwrap();
            std::fs::write(folder.path().join("conf").join(OsStr::from_bytes(name)), "one").unwrap();
            let OnDisk::Digest(digest) = directory.on_disk("conf").unwrap() else { panic!("there is a directory") };
            std::fs::remove_dir_all(folder.path().join("conf")).unwrap();
            digest
        };
        assert_ne!(digest_with(b"a\xff"), digest_with(b"a\xfe"));
        assert_eq!(digest_with(b"a"), hex(&Sha256::digest(format!("{}  a\n", hex(&Sha256::digest("one"))))));
    }

    #[test]
    fn modes_arrive_whatever_the_umask_is() {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), 0o666).unwrap();
        directory.create("file").unwrap();
        directory.create_folder("folder").unwrap();
        for (name, expected) in [("file", 0o666), ("folder", 0o777)] {
            let mode = folder.path().join(OWN).join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{name}");
        }
    }
}
