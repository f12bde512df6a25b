//! The folders of volumes.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use pillion_clock::Clock;

use crate::folder::remove_all;

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile<C> {
    /// What is in it.
    pub content: C,
    /// Its permission bits.
    pub mode: u32,
}

/// Removes the folder of a volume with all that is in it, if it is there.
pub fn remove(folder: &Path) -> io::Result<()> {
    remove_all(folder)
}

/// Makes the folder of a volume, which everybody may write. One that is there keeps what is in it.
pub fn create(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    // Not the mode of the builder: that is for those who ask, and the umask has a say in it.
    fs::set_permissions(folder, Permissions::from_mode(0o777))
}

/// Replaces all files of a volume at once, in the way that readers of Kubernetes' volumes know: each file is a link
/// through `..data`, which is a link to a folder with a time in its name. Who holds the old folder open sees the old files.
pub fn replace_files(folder: &Path, files: &BTreeMap<String, VolumeFile<impl AsRef<[u8]>>>) -> io::Result<()> {
    for path in files.keys() {
        check_path(path)?;
    }
    create(folder)?;
    let old = fs::read_link(folder.join(DATA)).ok();
    let new = Clock::system().now().strftime("..%Y_%m_%d_%H_%M_%S.%9f").to_string();
    let new_folder = folder.join(&new);
    write_files(&new_folder, files).inspect_err(|_| drop(remove_all(&new_folder)))?;
    let _ = fs::remove_file(folder.join(NEW_DATA));
    symlink(&new, folder.join(NEW_DATA))?;
    fs::rename(folder.join(NEW_DATA), folder.join(DATA))?;
    let names: Vec<&str> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        let link = folder.join(name);
        if fs::symlink_metadata(&link).is_err() {
            symlink(Path::new(DATA).join(name), link)?;
        }
    }
    for entry in fs::read_dir(folder)?.flatten() {
        let is_old = entry.file_name().to_str().is_some_and(|name| !name.starts_with("..") && !names.contains(&name));
        if is_old && entry.file_type()?.is_symlink() {
            fs::remove_file(entry.path())?;
        }
    }
    match old {
        Some(old) => remove_all(&folder.join(old)),
        None => Ok(()),
    }
}

fn write_files(folder: &Path, files: &BTreeMap<String, VolumeFile<impl AsRef<[u8]>>>) -> io::Result<()> {
    fs::create_dir(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(0o755))?;
    for (path, file) in files {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, &file.content)?;
        fs::set_permissions(&path, Permissions::from_mode(file.mode))?;
    }
    Ok(())
}

/// A path of a file inside a volume, in Kubernetes' words.
fn check_path(path: &str) -> io::Result<()> {
    let wrong = |problem: String| Err(io::Error::new(io::ErrorKind::InvalidInput, format!("invalid path: {problem}")));
    if path.is_empty() {
        return wrong(format!("must not be empty: {path:?}"));
    }
    if path.starts_with('/') {
        return wrong(format!("must be relative path: {path}"));
    }
    if Path::new(path).components().any(|component| component == Component::ParentDir) {
        return wrong(format!("must not contain '..': {path}"));
    }
    if path.starts_with("..") {
        return wrong(format!("must not start with '..': {path}"));
    }
    Ok(())
}

/// The part of a volume that a `subPath` means, made if it is missing. No link leads out of the volume.
pub fn sub_path(volume: &Path, path: &str) -> io::Result<PathBuf> {
    check_path(path)?;
    let volume = fs::canonicalize(volume)?;
    let mut place = volume.clone();
    for component in Path::new(path).components() {
        let next = place.join(component);
        if fs::symlink_metadata(&next).is_err() {
            fs::create_dir(&next)?;
            // Who may write into the volume may write here.
            fs::set_permissions(&next, fs::metadata(&volume)?.permissions())?;
        }
        place = fs::canonicalize(&next)?;
        if !place.starts_with(&volume) {
            let out = format!("subpath {path:?} not within volume path {:?}", volume.display().to_string());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, out));
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files<'a>(all: &[(&str, &'a str)]) -> BTreeMap<String, VolumeFile<&'a [u8]>> {
        let file = |content: &'a str| VolumeFile { content: content.as_bytes(), mode: 0o640 };
        all.iter().map(|(path, content)| ((*path).to_owned(), file(content))).collect()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names.into_iter().filter(|name| !name.starts_with("..2")).collect()
    }

    #[test]
    fn files_are_replaced_all_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let volume = folder.path().join("config");
        replace_files(&volume, &files(&[("a", "1"), ("deep/er/b", "2"), ("c", "3")])).unwrap();
        assert_eq!(names(&volume), ["..data", "a", "c", "deep"]);
        assert_eq!(fs::read_to_string(volume.join("deep/er/b")).unwrap(), "2");
        assert_eq!(fs::metadata(volume.join("a")).unwrap().permissions().mode() & 0o777, 0o640);
        replace_files(&volume, &files(&[("a", "new"), ("d", "4")])).unwrap();
        assert_eq!(names(&volume), ["..data", "a", "d"]);
        assert_eq!(fs::read_to_string(volume.join("a")).unwrap(), "new");
        // The folder before is gone.
        assert_eq!(fs::read_dir(&volume).unwrap().count(), 4);
    }

    #[test]
    fn paths_that_lead_out_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (path, problem) in [
            ("", "invalid path: must not be empty: \"\""),
            ("/etc/passwd", "invalid path: must be relative path: /etc/passwd"),
            ("a/../../b", "invalid path: must not contain '..': a/../../b"),
            ("..data", "invalid path: must not start with '..': ..data"),
        ] {
            let error = replace_files(folder.path(), &files(&[(path, "x")])).unwrap_err();
            assert_eq!(error.to_string(), problem);
        }
    }

    #[test]
    fn a_sub_path_is_made_and_stays_inside() {
        let folder = tempfile::tempdir().unwrap();
        let volume = fs::canonicalize(folder.path()).unwrap();
        assert_eq!(sub_path(&volume, "a/b").unwrap(), volume.join("a/b"));
        fs::write(volume.join("file"), "x").unwrap();
        assert_eq!(sub_path(&volume, "file").unwrap(), volume.join("file"));
        symlink("/etc", volume.join("out")).unwrap();
        assert!(sub_path(&volume, "out/passwd").unwrap_err().to_string().contains("not within volume path"));
        assert!(sub_path(&volume, "../x").is_err());
    }
}
