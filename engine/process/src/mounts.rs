//! Volumes over the machine's own files.
//!
//! A container's root is the machine's. A volume may be mounted where the machine has nothing: then the folder that
//! would have to hold the mount point is rebuilt in memory, each of its entries bound to the machine's, and the mount
//! point is made in there. What such a folder gets later the container does not see, and what the container writes
//! right into it is gone with the container, as with the writable layer of an image.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _, symlink};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::statvfs::{FsFlags, statvfs};
use nix::unistd::{chdir, chroot, pivot_root};
use serde::{Deserialize, Serialize};

use crate::start_error::{StartError, words};

const NOTHING: Option<&str> = None;

/// A file or folder of the machine that a container sees somewhere else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// What is seen.
    pub source: PathBuf,
    /// Where, as an absolute path.
    pub target: PathBuf,
    /// Whether it cannot be written.
    pub read_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    File,
    Folder,
}

/// Puts mounts into a fresh mount namespace, and makes a working directory that is missing, as container runtimes do.
/// `staging` is an empty folder; this process is in `/proc`.
pub(crate) fn apply(mounts: &[Mount], working_directory: Option<&Path>, staging: &Path) -> Result<(), StartError> {
    let mut mounts: Vec<Mount> =
        mounts.iter().map(|mount| Mount { target: clean(&mount.target), ..mount.clone() }).collect();
    // Parents first, so that one volume can be mounted inside another.
    mounts.sort_by_key(|mount| mount.target.components().count());
    let failed = |mount: &Mount, error: io::Error| StartError::Mount {
        source_path: mount.source.clone(),
        target: mount.target.clone(),
        problem: words(&error),
    };
    let mut machine = Machine { staging, made: Vec::new(), rebuilt: Vec::new() };
    for mount in mounts.iter().filter(|mount| !is_inside_another(&mount.target, &mounts)) {
        let made = kind(&mount.source).and_then(|kind| machine.make(&mount.target, kind));
        made.map_err(|error| failed(mount, error))?;
    }
    if let Some(folder) = working_directory.map(clean).filter(|folder| !is_inside_another(folder, &mounts)) {
        let made = machine.make(&folder, Kind::Folder);
        made.map_err(|error| StartError::WorkingDirectory { path: folder, problem: words(&error) })?;
    }
    // From here on a mount may hide the source of another: they are held open.
    let sources = mounts.iter().map(|mount| open(&mount.source).map_err(|error| failed(mount, error)));
    let sources: Vec<File> = sources.collect::<Result<_, _>>()?;
    for (mount, source) in mounts.iter().zip(&sources) {
        bind_volume(source, mount).map_err(|error| failed(mount, error))?;
    }
    Ok(())
}

/// A path without `.`, `..` and double slashes, from the root.
fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => cleaned.push(name),
            Component::ParentDir => {
                cleaned.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    cleaned
}

fn is_inside_another(path: &Path, mounts: &[Mount]) -> bool {
    mounts.iter().any(|mount| path != mount.target && path.starts_with(&mount.target))
}

fn kind(source: &Path) -> io::Result<Kind> {
    Ok(if fs::metadata(source)?.is_dir() { Kind::Folder } else { Kind::File })
}

fn open(source: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(OFlag::O_PATH.bits()).open(source)
}

/// Binds a volume, whose mount point exists or is inside another volume.
fn bind_volume(source: &File, mount: &Mount) -> io::Result<()> {
    let place = Place::of(&mount.target)?;
    place.make(if source.metadata()?.is_dir() { Kind::Folder } else { Kind::File })?;
    let target = fs::canonicalize(&mount.target)?;
    // Relative to the `/proc` that this process is in, whatever is mounted over it.
    bind(Path::new(&format!("self/fd/{}", source.as_raw_fd())), &target)?;
    if mount.read_only { make_read_only(&target) } else { Ok(()) }
}

fn bind(source: &Path, target: &Path) -> io::Result<()> {
    // A user may not take what is mounted below apart from what it is mounted in.
    Ok(mount(Some(source), target, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?)
}

fn make_read_only(target: &Path) -> io::Result<()> {
    let now = statvfs(target)?.flags();
    let mut flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    // What the machine has forbidden stays forbidden; asking for less is refused.
    for (is, stays) in [
        (FsFlags::ST_NOSUID, MsFlags::MS_NOSUID),
        (FsFlags::ST_NODEV, MsFlags::MS_NODEV),
        (FsFlags::ST_NOEXEC, MsFlags::MS_NOEXEC),
        (FsFlags::ST_NOATIME, MsFlags::MS_NOATIME),
        (FsFlags::ST_NODIRATIME, MsFlags::MS_NODIRATIME),
        // `relatime` is what the kernel sets if neither it nor `noatime` is asked for.
    ] {
        if now.contains(is) {
            flags |= stays;
        }
    }
    Ok(mount(NOTHING, target, NOTHING, flags, NOTHING)?)
}

/// A path: what of it exists, with all links followed, and what does not.
struct Place {
    existing: PathBuf,
    missing: Vec<PathBuf>,
}

impl Place {
    fn of(path: &Path) -> io::Result<Place> {
        let mut existing = PathBuf::from("/");
        let mut names = path.components().skip(1).map(|component| PathBuf::from(component.as_os_str()));
        for name in names.by_ref() {
            match fs::canonicalize(existing.join(&name)) {
                Ok(next) => existing = next,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(Place { existing, missing: std::iter::once(name).chain(names).collect() });
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Place { existing, missing: Vec::new() })
    }

    fn make(&self, kind: Kind) -> io::Result<()> {
        let Some((last, folders)) = self.missing.split_last() else { return Ok(()) };
        let mut path = self.existing.clone();
        for folder in folders {
            path.push(folder);
            fs::create_dir(&path)?;
        }
        path.push(last);
        match kind {
            Kind::Folder => fs::create_dir(path),
            Kind::File => File::create_new(path).map(drop),
        }
    }
}

/// The machine's files, as this mount namespace shows them.
struct Machine<'a> {
    staging: &'a Path,
    /// What was made in folders that were rebuilt.
    made: Vec<PathBuf>,
    rebuilt: Vec<PathBuf>,
}

impl Machine<'_> {
    /// Makes a mount point, unless there is one.
    fn make(&mut self, path: &Path, kind: Kind) -> io::Result<()> {
        let place = Place::of(path)?;
        let Some(first) = place.missing.first() else { return Ok(()) };
        let is_ours =
            self.rebuilt.contains(&place.existing) || self.made.iter().any(|made| place.existing.starts_with(made));
        if !is_ours {
            self.rebuild(&place.existing)?;
        }
        place.make(kind)?;
        self.made.push(place.existing.join(first));
        Ok(())
    }

    /// Puts a folder in memory over one of the machine's, with the same entries.
    fn rebuild(&mut self, folder: &Path) -> io::Result<()> {
        if ["/proc", "/sys"].iter().any(|special| folder.starts_with(special)) {
            return Err(Errno::EPERM.into());
        }
        let mode = fs::metadata(folder)?.permissions().mode() & 0o7777;
        mount(Some("tmpfs"), self.staging, Some("tmpfs"), MsFlags::empty(), NOTHING)?;
        fs::set_permissions(self.staging, Permissions::from_mode(mode))?;
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            // One that cannot be shown is missing.
            let _ = copy_entry(&entry, &self.staging.join(entry.file_name()));
        }
        if folder == Path::new("/") {
            enter_root(self.staging)?;
        } else {
            mount(Some(self.staging), folder, NOTHING, MsFlags::MS_MOVE, NOTHING)?;
        }
        self.rebuilt.push(folder.to_owned());
        Ok(())
    }
}

/// Shows an entry of a folder in another folder.
fn copy_entry(entry: &fs::DirEntry, copy: &Path) -> io::Result<()> {
    let kind = entry.file_type()?;
    if kind.is_symlink() {
        return symlink(fs::read_link(entry.path())?, copy);
    }
    if kind.is_dir() {
        fs::create_dir(copy)?;
        bind(&entry.path(), copy).inspect_err(|_| drop(fs::remove_dir(copy)))
    } else {
        File::create_new(copy)?;
        bind(&entry.path(), copy).inspect_err(|_| drop(fs::remove_file(copy)))
    }
}

/// Makes a mounted folder the root, and goes back to `/proc`.
fn enter_root(root: &Path) -> io::Result<()> {
    chdir(root)?;
    match pivot_root(".", ".") {
        // The old root lies over the new one now.
        Ok(()) => umount2(".", MntFlags::MNT_DETACH)?,
        // The first root of a machine that has booted from memory cannot be put away, only covered.
        Err(Errno::EINVAL) => {
            mount(Some("."), "/", NOTHING, MsFlags::MS_MOVE, NOTHING)?;
            chroot(".")?;
        }
        Err(error) => return Err(error.into()),
    }
    Ok(chdir("/proc")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cleaned_from_the_root() {
        for (path, cleaned) in
            [("/a//b/./c", "/a/b/c"), ("/../a/../b", "/b"), ("a/b", "/a/b"), ("/", "/"), ("/a/b/", "/a/b")]
        {
            assert_eq!(clean(Path::new(path)), Path::new(cleaned), "{path}");
        }
    }

    #[test]
    fn a_mount_is_inside_another_by_whole_names() {
        let mount = |target: &str| Mount { source: "/".into(), target: target.into(), read_only: false };
        let mounts = [mount("/data"), mount("/data/cache")];
        assert!(is_inside_another(Path::new("/data/cache"), &mounts));
        assert!(!is_inside_another(Path::new("/data"), &mounts));
        assert!(!is_inside_another(Path::new("/data2"), &mounts));
    }

    #[test]
    fn a_place_is_what_exists_and_what_does_not() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(root.join("run")).unwrap();
        symlink("run", root.join("var")).unwrap();
        let place = Place::of(&root.join("var/secrets/token")).unwrap();
        assert_eq!(place.existing, root.join("run"));
        assert_eq!(place.missing, [PathBuf::from("secrets"), PathBuf::from("token")]);
        place.make(Kind::File).unwrap();
        assert!(root.join("run/secrets/token").is_file());
        assert!(Place::of(&root.join("var/secrets/token")).unwrap().missing.is_empty());
    }
}
