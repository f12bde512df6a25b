//! Files that somebody else changes.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use tokio::io::unix::AsyncFd;

/// Tells when anything in a directory changes. The kubelet replaces files of volumes by renaming a symbolic link beside them.
pub(crate) struct Changes {
    inotify: AsyncFd<OwnedFd>,
}

impl Changes {
    /// Watches a directory.
    pub(crate) fn of(directory: &Path) -> std::io::Result<Changes> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::CLOSE_WRITE | WatchFlags::MOVED_TO | WatchFlags::CREATE | WatchFlags::DELETE;
        inotify::add_watch(inotify.as_fd(), directory, flags | WatchFlags::ONLYDIR)?;
        // SAFETY: an `OwnedFd` is open and the same until it is dropped, and the `AsyncFd` owns it.
        #[expect(unsafe_code, reason = "tokio has no safe way to wait for any other descriptor than a socket")]
        let inotify = unsafe { AsyncFd::register_with_interest(inotify, tokio::io::Interest::READABLE) }
            .map_err(|error| error.into_parts().1)?;
        Ok(Changes { inotify })
    }

    /// Returns when something has changed since the last call.
    pub(crate) async fn next(&self) -> std::io::Result<()> {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        loop {
            let mut ready = self.inotify.readable().await?;
            let mut seen = false;
            let mut reader = inotify::Reader::new(self.inotify.get_ref().as_fd(), &mut buffer);
            // All that has happened so far is one change.
            while reader.next().is_ok() {
                seen = true;
            }
            ready.clear_ready();
            if seen {
                return Ok(());
            }
        }
    }
}

/// The keys of a downward API file (`key="value"`), which has Go's quotes.
pub(crate) fn downward(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    // Go's escapes of valid text are JSON's, but for \a, \v and \x, which no annotation that we read has.
    serde_json::from_str(line).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_downward_api_is_read() {
        let text = "a=\"b\"\nkruise.io/podprobe=\"[{\\\"name\\\": \\\"x\\\"}]\"\nkruise.io/podprobemarker-list=\"x\"\n";
        assert_eq!(downward(text, "kruise.io/podprobe").as_deref(), Some("[{\"name\": \"x\"}]"));
        assert_eq!(downward(text, "kruise.io"), None);
    }

    #[tokio::test]
    async fn a_change_in_a_directory_is_seen() {
        let directory = tempfile::tempdir().unwrap();
        let changes = Changes::of(directory.path()).unwrap();
        std::fs::write(directory.path().join("x"), "1").unwrap();
        changes.next().await.unwrap();
        assert!(Changes::of(&directory.path().join("none")).is_err());
    }
}
