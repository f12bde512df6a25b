//! Whether a directory is one that the app sees as well.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Makes a directory that is missing, if it is in a volume. Without a volume it would be the agent's alone, and updates that the app never sees would be
/// reported as done.
pub(super) fn make_in_volume(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let existing = path.ancestors().find_map(|folder| folder.canonicalize().ok());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    if existing.is_some_and(|folder| is_in_volume(&mounts, &folder)) {
        return DirBuilder::new().recursive(true).create(path);
    }
    let problem = "there is no such directory, and no volume is mounted there: mount the volume that the app reads in the agent's container as well";
    Err(io::Error::new(ErrorKind::NotFound, problem))
}

/// Whether something other than the root file system of the container is mounted at this directory or above it.
fn is_in_volume(mounts: &str, folder: &Path) -> bool {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped);
    points.filter(|point| point != Path::new("/")).any(|point| folder.starts_with(point))
}

/// A path as the kernel shows it: blanks and backslashes are octal.
fn unescaped(text: &str) -> PathBuf {
    let mut result = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| first == b'\\').and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            result.push(byte);
            rest = &after[3..];
        } else {
            result.push(first);
            rest = after;
        }
    }
    PathBuf::from(String::from_utf8_lossy(&result).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_mount_is_in_a_volume() {
        let mounts = "22 1 8:1 / / rw - overlay overlay rw\n30 22 8:2 /x /app/my\\040files rw - ext4 /dev/sda rw\n";
        for (folder, expected) in [
            ("/app/my files", true),
            ("/app/my files/a/b", true),
            ("/app", false),
            ("/app/my files-2", false),
            ("/", false),
        ] {
            assert_eq!(is_in_volume(mounts, Path::new(folder)), expected, "{folder}");
        }
    }

    #[test]
    fn a_directory_without_a_volume_is_not_made() {
        // Mounts elsewhere do not count.
        let path = Path::new("/pillion-agent-of-a-test/downloads");
        let error = make_in_volume(path).unwrap_err();
        assert!(error.to_string().contains("no volume is mounted there"), "{error}");
        assert!(!path.parent().unwrap().exists());
        assert!(make_in_volume(&std::env::temp_dir()).is_ok());
    }
}
