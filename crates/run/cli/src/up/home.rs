//! Where a run keeps its files: a folder of its own that goes with it, or the one that the user names.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{geteuid, mkdtemp};

/// What is in a folder that a run has kept its objects in.
const OBJECTS: &str = "objects";

/// The folder of a run. One that the user did not name is removed when this is dropped.
pub(crate) struct Home {
    folder: PathBuf,
    is_temporary: bool,
}

impl Drop for Home {
    fn drop(&mut self) {
        if self.is_temporary {
            // Nothing is left to do for a folder that cannot be removed.
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

impl Home {
    /// The user's folder, or one that is gone afterwards.
    pub(crate) fn new(data: Option<&Path>) -> Result<Home, String> {
        let cannot = |folder: &Path, error: &io::Error| {
            format!("cannot keep anything in {}: {}", folder.display(), crate::io_reason(error))
        };
        let Some(folder) = data else {
            let parent = std::env::temp_dir();
            let folder = mkdtemp(&parent.join("pillion-XXXXXX")).map_err(|error| cannot(&parent, &error.into()))?;
            return Ok(Home { folder, is_temporary: true });
        };
        if let Some(link) = folder.read_link().ok().filter(|_| !folder.exists()) {
            let (name, link) = (folder.display(), link.display());
            return Err(format!("--data {name}: {name} is a link to {link}, which does not exist"));
        }
        if folder.exists() {
            check(folder).map_err(|error| cannot(folder, &error))??;
        }
        // Keys and secrets are in there: nobody else reads them. A folder that is there already stays as its owner made it.
        let make = |folder: &Path| DirBuilder::new().recursive(true).mode(0o700).create(folder);
        make(folder).and_then(|()| make(&folder.join(OBJECTS))).map_err(|error| cannot(folder, &error))?;
        let folder = folder.canonicalize().map_err(|error| cannot(folder, &error))?;
        Ok(Home { folder, is_temporary: false })
    }

    /// What kubectl is pointed to.
    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    /// The folder of the engine.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where objects are kept, if they are there after the end.
    pub(crate) fn objects(&self) -> Option<PathBuf> {
        (!self.is_temporary).then(|| self.folder.join(OBJECTS))
    }
}

/// A folder that is there must be empty, or a run's: nothing of the user's is mixed with ours.
fn check(folder: &Path) -> io::Result<Result<(), String>> {
    let name = folder.display();
    if !folder.is_dir() {
        return Ok(Err(format!("--data {name}: {name} is not a folder")));
    }
    let is_empty = std::fs::read_dir(folder)?.next().is_none();
    if !is_empty && !folder.join(OBJECTS).is_dir() {
        return Ok(Err(format!("--data {name}: {name} has other things in it; name a new or an empty folder")));
    }
    if std::fs::metadata(folder)?.uid() != geteuid().as_raw() {
        return Ok(Err(format!("--data {name}: {name} belongs to another user; name a folder of your own")));
    }
    // What others have put there is neither written nor removed: a link would lead us to files that are none of ours.
    let objects = folder.join(OBJECTS);
    for folder in [folder, &objects].into_iter().filter(|folder| folder.is_dir()) {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let path = entry.path();
            if metadata.is_symlink() {
                return Ok(Err(format!("--data {name}: {} is a link: remove it", path.display())));
            }
            if metadata.uid() != geteuid().as_raw() {
                return Ok(Err(format!("--data {name}: {} belongs to another user: remove it", path.display())));
            }
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(folder: &Path) -> u32 {
        fs::metadata(folder).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_folder_is_for_its_owner_only() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("a/b");
        let home = Home::new(Some(&data)).unwrap();
        assert_eq!((mode(&data), mode(&home.objects().unwrap())), (0o700, 0o700));
    }

    #[test]
    fn a_folder_that_is_there_keeps_its_mode() {
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o750)).unwrap();
        let home = Home::new(Some(place.path())).unwrap();
        assert_eq!((mode(place.path()), mode(&home.objects().unwrap())), (0o750, 0o700));
    }

    #[test]
    fn a_folder_of_an_earlier_run_is_taken_again() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("objects")).unwrap();
        fs::write(place.path().join("kubeconfig"), "").unwrap();
        assert!(Home::new(Some(place.path())).is_ok());
    }

    #[test]
    fn a_folder_with_other_things_in_it_and_a_file_are_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("notes");
        fs::write(&file, "").unwrap();
        let refusal = |path: &Path| Home::new(Some(path)).err().unwrap();
        let (folder, name) = (place.path().display(), file.display());
        assert_eq!(
            refusal(place.path()),
            format!("--data {folder}: {folder} has other things in it; name a new or an empty folder")
        );
        assert_eq!(refusal(&file), format!("--data {name}: {name} is not a folder"));
    }

    #[test]
    fn a_link_is_not_followed() {
        use std::os::unix::fs::symlink;
        let place = tempfile::tempdir().unwrap();
        let (data, other) = (place.path().join("data"), place.path().join("other"));
        fs::create_dir(&other).unwrap();
        let refusal = || Home::new(Some(&data)).err().unwrap();
        symlink(place.path().join("nowhere"), &data).unwrap();
        assert!(refusal().ends_with("nowhere, which does not exist"), "{}", refusal());
        fs::remove_file(&data).unwrap();
        for (made, link) in [("data", "objects"), ("data/objects", "kubeconfig"), ("data/objects", "objects/store")] {
            fs::create_dir_all(place.path().join(made)).unwrap();
            symlink(&other, data.join(link)).unwrap();
            assert!(refusal().ends_with(&format!("{link} is a link: remove it")), "{}", refusal());
            fs::remove_dir_all(&data).unwrap();
        }
        // A link to a folder of one's own is another name for it.
        symlink(&other, &data).unwrap();
        assert!(Home::new(Some(&data)).is_ok());
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        // Only root can give a folder away.
        if !geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::chown(place.path(), Some(65_534), None).unwrap();
        let refusal = Home::new(Some(place.path())).err().unwrap();
        assert!(refusal.ends_with("belongs to another user; name a folder of your own"), "{refusal}");
    }

    #[test]
    fn a_folder_that_nobody_named_is_gone_afterwards() {
        let home = Home::new(None).unwrap();
        let folder = home.folder().to_path_buf();
        assert!(folder.is_dir() && home.objects().is_none());
        drop(home);
        assert!(!folder.exists());
    }
}
