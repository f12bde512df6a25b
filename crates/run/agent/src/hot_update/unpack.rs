//! Unpacks archives without trusting them.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::directory::{Directory, folder_mode};
use super::zip;

/// No more files come out of an archive.
const FILES: usize = 10_000;

/// The name of the directory that an archive is unpacked to; `None` if this is no archive.
pub(crate) fn folder_name(file: &str) -> Option<&str> {
    let name = [".tar.gz", ".tgz", ".tar", ".zip"].iter().find_map(|suffix| file.strip_suffix(suffix))?;
    (!name.is_empty()).then_some(name)
}

/// Unpacks one of the agent's own files into a directory of its own.
///
/// # Errors
/// The archive is damaged, too large, or contains something other than files and directories below itself.
pub(crate) fn unpack(directory: &Directory, archive: &str, staged: &str, most: u64) -> Result<(), String> {
    let open = || directory.read(archive).map_err(|error| error.to_string());
    let mut head = Vec::new();
    open()?.take(4).read_to_end(&mut head).map_err(|error| error.to_string())?;
    let root = directory.create_folder(staged).map_err(|error| error.to_string())?;
    let folder = Folder { root, mode: directory.mode(), most };
    if zip::is_zip(&head) {
        folder.extract_zip(&mut open()?)
    } else if head.starts_with(&[0x1f, 0x8b]) {
        folder.extract_tar(flate2::read::GzDecoder::new(open()?))
    } else {
        folder.extract_tar(open()?)
    }
}

/// Where an archive is unpacked to, and how much of it.
struct Folder {
    root: OwnedFd,
    mode: u32,
    most: u64,
}

impl Folder {
    fn too_large(&self) -> String {
        format!("the archive has more than {} bytes; raise `maxUnpackedBytes` if this is meant", self.most)
    }

    fn extract_zip(&self, file: &mut File) -> Result<(), String> {
        let entries = zip::entries(file)?;
        if entries.len() > FILES {
            return Err(format!("the archive has more than {FILES} entries"));
        }
        let mut bytes = 0u64;
        for entry in entries {
            let names = names(Path::new(&entry.name))?;
            if entry.is_directory {
                enter(&self.root, &names, self.mode)?;
                continue;
            }
            // What does not have the size that it says is refused when it is read.
            bytes = bytes.saturating_add(entry.size);
            if bytes > self.most {
                return Err(self.too_large());
            }
            let mut to = self.create(&names, entry.is_executable)?;
            zip::copy(file, &entry, &mut to)?;
            to.sync_all().map_err(|error| format!("{}: {error}", entry.name))?;
        }
        Ok(())
    }

    /// A new file; one that is there is refused.
    fn create(&self, names: &[&str], is_executable: bool) -> Result<File, String> {
        let Some((name, parents)) = names.split_last() else {
            return Err("the archive has a file without a name".to_owned());
        };
        let parent = enter(&self.root, parents, self.mode)?;
        let bits = if is_executable { self.mode | ((self.mode & 0o444) >> 2) } else { self.mode };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(bits & 0o777);
        let failed = |error: Errno| format!("{}: {error}", names.join("/"));
        let file = fs::openat(parent.as_fd(), *name, flags, mode).map_err(failed)?;
        // Whatever the agent's umask is.
        fs::fchmod(&file, mode).map_err(failed)?;
        Ok(File::from(file))
    }

    fn extract_tar(&self, reader: impl Read) -> Result<(), String> {
        let Folder { root: folder, mode, most } = self;
        // A little more than the contents may have, for headers; beyond it nothing is read, whatever the headers say.
        let mut archive = tar::Archive::new(reader.take(most.saturating_add(FILES as u64 * 1024)));
        let (mut files, mut bytes) = (0, 0u64);
        for entry in archive.entries().map_err(|error| format!("the archive cannot be read: {error}"))? {
            let mut entry = entry.map_err(|error| format!("the archive cannot be read: {error}"))?;
            files += 1;
            if files > FILES {
                return Err(format!("the archive has more than {FILES} entries"));
            }
            let path = entry.path().map_err(|error| error.to_string())?.into_owned();
            let shown = path.display();
            let names = names(&path)?;
            match entry.header().entry_type() {
                tar::EntryType::Directory => drop(enter(folder, &names, *mode)?),
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    bytes = bytes.saturating_add(entry.header().size().unwrap_or(u64::MAX));
                    if bytes > *most {
                        return Err(self.too_large());
                    }
                    let executable = entry.header().mode().is_ok_and(|bits| bits & 0o100 != 0);
                    let mut file = self.create(&names, executable)?;
                    std::io::copy(&mut entry, &mut file).map_err(|error| format!("{shown}: {error}"))?;
                    file.flush().and_then(|()| file.sync_all()).map_err(|error| format!("{shown}: {error}"))?;
                }
                tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => {}
                other => {
                    return Err(format!(
                        "the archive contains {shown}, which is neither a file nor a directory ({other:?})"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The components of a path that stays below its directory.
fn names(path: &Path) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => match name.to_str() {
                Some(name) => names.push(name),
                None => return Err(format!("{} is not a name in UTF-8", path.display())),
            },
            _ => return Err(format!("the archive contains {}, which leads out of its directory", path.display())),
        }
    }
    Ok(names)
}

/// Opens a directory below another, and makes it if it is missing; never through a symbolic link.
fn enter(folder: &OwnedFd, names: &[&str], mode: u32) -> Result<OwnedFd, String> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let mut at = folder.try_clone().map_err(|error| error.to_string())?;
    for name in names {
        let failed = |error: Errno| format!("{name}: {error}");
        let made = fs::mkdirat(&at, *name, folder_mode(mode));
        if let Err(error) = made
            && error != Errno::EXIST
        {
            return Err(failed(error));
        }
        at = fs::openat(&at, *name, flags, Mode::empty()).map_err(failed)?;
        if made.is_ok() {
            fs::fchmod(&at, folder_mode(mode)).map_err(failed)?;
        }
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn modes_arrive_whatever_the_umask_is() {
        let folder = tempfile::tempdir().unwrap();
        let unpacked = Folder { root: File::open(folder.path()).unwrap().into(), mode: 0o666, most: 0 };
        unpacked.create(&["folder", "file"], false).unwrap();
        unpacked.create(&["folder", "program"], true).unwrap();
        for (name, expected) in [("folder", 0o777), ("folder/file", 0o666), ("folder/program", 0o777)] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{name}");
        }
    }
}
