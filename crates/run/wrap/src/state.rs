//! How the wrappers of a pod tell each other how far they are: two files for each container that does work.
//!
//! `NAME.lock` is locked by its wrapper and is not empty from then on; the lock goes with the process, however it dies. `NAME.exit` holds the code
//! of the last attempt, if its wrapper lived to write it. `NAME.sidecar` is of a sidecar, which alone reads it: how its last attempt ended.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::libc;

use crate::arguments::Policy;
use crate::error::Error;

/// How often it is looked whether work has started, or has started again. Nothing waits like this while it runs.
const LOOK: Duration = Duration::from_millis(100);

/// The lock of a container that works. It is free when this, or the process, is gone.
pub(crate) struct Working {
    _lock: Flock<File>,
    exit: PathBuf,
}

/// Begins an attempt.
pub(crate) fn begin(folder: &Path, name: &str) -> Result<Working, Error> {
    let path = folder.join(format!("{name}.lock"));
    let file = own(OpenOptions::new().append(true), &path)?;
    let mut lock = loop {
        match Flock::lock(file.try_clone().map_err(Error::system("copy a file descriptor"))?, FlockArg::LockExclusive) {
            Ok(lock) => break lock,
            Err((_, Errno::EINTR)) => {}
            Err((_, error)) => return Err(Error::file("lock", &path)(error.into())),
        }
    };
    let exit = folder.join(format!("{name}.exit"));
    match fs::remove_file(&exit) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::file("remove", &exit)(error)),
        _ => {}
    }
    lock.write_all(b"started\n").map_err(Error::file("write", &path))?;
    Ok(Working { _lock: lock, exit })
}

impl Working {
    /// Records how the attempt ended, as a whole or not at all.
    pub(crate) fn ended(&self, code: u8) -> Result<(), Error> {
        write_whole(&self.exit, code)
    }
}

/// How a sidecar ended last, for its next attempt.
#[derive(Clone)]
pub(crate) struct LastEnd(PathBuf);

impl LastEnd {
    /// What an attempt has ended with that could not say so.
    const KILLED: u8 = 137;

    pub(crate) fn new(folder: &Path, name: &str) -> LastEnd {
        LastEnd(folder.join(format!("{name}.sidecar")))
    }

    /// The code of the last attempt; 0 if there was none.
    pub(crate) fn code(&self) -> u8 {
        fs::read_to_string(&self.0).ok().and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Begins an attempt, which may be killed before it can write anything more.
    pub(crate) fn begins(&self) -> Result<(), Error> {
        self.ended(LastEnd::KILLED)
    }

    pub(crate) fn ended(&self, code: u8) -> Result<(), Error> {
        write_whole(&self.0, code)
    }
}

fn write_whole(path: &Path, code: u8) -> Result<(), Error> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let mut file = own(OpenOptions::new().write(true).truncate(true), &new)?;
    file.write_all(code.to_string().as_bytes()).map_err(Error::file("write", &new))?;
    fs::rename(&new, path).map_err(Error::file("write", path))
}

/// Opens a file of this container, and makes it if it is missing. The other containers of the pod write to the folder as well: no link is followed.
fn own(options: &mut OpenOptions, path: &Path) -> Result<File, Error> {
    options.create(true).custom_flags(libc::O_NOFOLLOW).open(path).map_err(Error::file("write", path))
}

/// Work that somebody else does.
pub(crate) struct Watched {
    lock: PathBuf,
    exit: PathBuf,
    policy: Policy,
}

impl Watched {
    pub(crate) fn new(folder: &Path, name: &str, policy: Policy) -> Watched {
        Watched { lock: folder.join(format!("{name}.lock")), exit: folder.join(format!("{name}.exit")), policy }
    }

    /// Whether it is done, as far as can be said without waiting.
    pub(crate) fn is_done(&self) -> bool {
        self.look(FlockArg::LockSharedNonblock) == Look::Done
    }

    /// Returns when it is done. It sleeps in the kernel while the work runs.
    pub(crate) fn done(&self) {
        loop {
            match self.look(FlockArg::LockShared) {
                Look::Done => return,
                Look::Runs => {}
                Look::Pauses => std::thread::sleep(LOOK),
            }
        }
    }

    fn look(&self, how: FlockArg) -> Look {
        let Ok(file) = File::open(&self.lock) else { return Look::Pauses };
        // Before its first attempt there is nothing in it.
        if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
            return Look::Pauses;
        }
        let Ok(_free) = Flock::lock(file, how) else { return Look::Runs };
        let code = fs::read_to_string(&self.exit).ok();
        match (self.policy, code.as_deref()) {
            (Policy::Never, _) | (Policy::OnFailure, Some("0")) => Look::Done,
            // It is started again.
            (Policy::OnFailure, _) => Look::Pauses,
        }
    }
}

#[derive(PartialEq, Eq)]
enum Look {
    Done,
    Runs,
    /// It has yet to start, or to start again.
    Pauses,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_the_shared_folder_are_not_followed() {
        let (folder, precious) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        for name in ["main.lock", "main.exit.new"] {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(precious.path(), &link).unwrap();
            let ended = begin(folder.path(), "main").and_then(|working| working.ended(1));
            assert!(ended.is_err(), "{name}");
            fs::remove_file(link).unwrap();
        }
        assert_eq!(fs::read_to_string(precious.path()).unwrap(), "");
    }

    #[test]
    fn work_is_done_when_its_lock_is_free_and_under_on_failure_after_an_exit_with_0() {
        // What is recorded, and whether that is the end under Never and under OnFailure.
        for (code, never, on_failure) in [(Some(0), true, true), (Some(1), true, false), (None, true, false)] {
            let folder = tempfile::tempdir().unwrap();
            let done = || {
                [Policy::Never, Policy::OnFailure].map(|policy| Watched::new(folder.path(), "main", policy).is_done())
            };
            assert_eq!(done(), [false, false], "it has not started");
            let working = begin(folder.path(), "main").unwrap();
            assert_eq!(done(), [false, false], "it runs");
            if let Some(code) = code {
                working.ended(code).unwrap();
            }
            assert_eq!(done(), [false, false], "its wrapper runs");
            drop(working);
            assert_eq!(done(), [never, on_failure], "{code:?}");
            let again = begin(folder.path(), "main").unwrap();
            assert_eq!(done(), [false, false], "it runs again");
            drop(again);
        }
    }
}
