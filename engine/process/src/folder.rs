//! Folders of pods: which names they may have, and how they are removed.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// Whether a name can be a file name of its own: letters, digits, `-`, `_` and `.`, not first.
pub fn check_name(name: &str) -> io::Result<()> {
    let allowed = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
    if name.is_empty() || name.starts_with('.') || name.len() > 253 || !name.chars().all(allowed) {
        let wrong = format!("{name:?} is no name: 1 to 253 letters, digits, '-', '_' and '.', which is not the first");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, wrong));
    }
    Ok(())
}

/// Removes a folder, which may be missing and may contain folders without permission to enter.
pub(crate) fn remove_all(folder: &Path) -> io::Result<()> {
    let missing_is_fine = |removed: io::Result<()>| match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    };
    match missing_is_fine(fs::remove_dir_all(folder)) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            open_up(folder);
            missing_is_fine(fs::remove_dir_all(folder))
        }
        removed => removed,
    }
}

fn open_up(folder: &Path) {
    let _ = fs::set_permissions(folder, Permissions::from_mode(0o700));
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["web", "web-0", "5d9c7.x_Y"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", ".hidden", "a/b", "a b", "a\0", "é"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_folder_that_nobody_may_enter_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let locked = folder.path().join("a/b");
        fs::create_dir_all(locked.join("c")).unwrap();
        fs::set_permissions(&locked, Permissions::from_mode(0o0)).unwrap();
        remove_all(&folder.path().join("a")).unwrap();
        assert!(!folder.path().join("a").exists());
        remove_all(&folder.path().join("a")).unwrap();
    }
}
