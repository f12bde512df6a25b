//! Unpacks archives without trusting them: everything is bounded before it is written, and lands in a directory that can always be removed.

use std::cell::Cell;
use std::collections::HashSet;
use std::fs::File;
use std::hash::{BuildHasher as _, Hash as _, Hasher as _, RandomState};
use std::io::{self, Read, Write as _};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};
use std::rc::Rc;

use rustix::fs::{self, Mode, OFlags};
use rustix::io::Errno;

use super::directory::{Directory, folder_mode};
use super::zip;

/// An archive may have so many entries, and become so many files and directories.
const ENTRIES: usize = 10_000;
/// A file may be so many directories deep.
const DEPTH: usize = 64;
/// The bytes of a path in an archive.
const PATH: usize = 1024;
/// The bytes of one name in it: as many as file systems take.
const NAME: usize = 255;
/// The bytes of everything that describes one entry of a tar archive: long names and extended headers are read into memory.
const HEADERS: u64 = 64 << 10;

/// The name of the directory that an archive is unpacked to; `None` if this is no archive.
pub(crate) fn folder_name(file: &str) -> Option<&str> {
    let name = [".tar.gz", ".tgz", ".tar", ".zip"].iter().find_map(|suffix| file.strip_suffix(suffix))?;
    (!name.is_empty()).then_some(name)
}

/// Unpacks one of the agent's own files into a directory of its own.
///
/// # Errors
/// The archive is damaged, too large, too deep, or contains something other than files and directories below itself.
pub(crate) fn unpack(directory: &Directory, archive: &str, staged: &str, most: u64) -> Result<(), String> {
    let open = || directory.read(archive).map_err(|error| error.to_string());
    let mut head = Vec::new();
    open()?.take(4).read_to_end(&mut head).map_err(|error| error.to_string())?;
    let root = directory.create_folder(staged).map_err(|error| error.to_string())?;
    let folder = Folder { root, mode: directory.mode(), most, left: Cell::new(ENTRIES) };
    if zip::is_zip(&head) {
        folder.extract_zip(&mut open()?)
    } else if head.starts_with(&[0x1f, 0x8b]) {
        folder.extract_tar(|| open().map(flate2::read::GzDecoder::new))
    } else {
        folder.extract_tar(open)
    }
}

/// Where an archive is unpacked to, and how much of it.
struct Folder {
    root: OwnedFd,
    mode: u32,
    most: u64,
    /// So many files and directories may still be made.
    left: Cell<usize>,
}

impl Folder {
    fn too_large(&self) -> String {
        format!("the archive has more than {} bytes; raise `maxUnpackedBytes` if this is meant", self.most)
    }

    /// Counts a file or a directory, before it is made.
    fn count(&self) -> Result<(), String> {
        let left = self.left.get().checked_sub(1).ok_or_else(too_many)?;
        self.left.set(left);
        Ok(())
    }

    fn extract_zip(&self, file: &mut File) -> Result<(), String> {
        let entries = zip::entries(file, ENTRIES)?;
        // The list of files says everything but the contents: it is checked before anything is written.
        let (mut made, mut bytes) = (Made::default(), 0u64);
        for entry in &entries {
            made.add(&names(Path::new(&entry.name))?)?;
            // What does not have the size that it says is refused when it is read.
            bytes = bytes.saturating_add(entry.size);
        }
        if bytes > self.most {
            return Err(self.too_large());
        }
        for entry in entries {
            let names = names(Path::new(&entry.name))?;
            if entry.is_directory {
                self.enter(&names)?;
                continue;
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
        let parent = self.enter(parents)?;
        self.count()?;
        let bits = if is_executable { self.mode | ((self.mode & 0o444) >> 2) } else { self.mode };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(bits & 0o777);
        let failed = |error: Errno| format!("{}: {error}", names.join("/"));
        let file = fs::openat(parent.as_fd(), *name, flags, mode).map_err(failed)?;
        // Whatever the agent's umask is.
        fs::fchmod(&file, mode).map_err(failed)?;
        Ok(File::from(file))
    }

    /// Reads the archive twice: before anything is written, all of it is known to be within its bounds.
    fn extract_tar<R: Read>(&self, open: impl Fn() -> Result<R, String>) -> Result<(), String> {
        self.read_tar(open()?, Pass::Check)?;
        self.read_tar(open()?, Pass::Write)
    }

    fn read_tar(&self, reader: impl Read, pass: Pass) -> Result<(), String> {
        let unread = Rc::new(Cell::new(0));
        let mut archive = tar::Archive::new(Bounded { reader, left: Rc::clone(&unread) });
        let damaged = |error: io::Error| format!("the archive cannot be read: {error}");
        let mut entries = archive.entries().map_err(damaged)?;
        let (mut made, mut count, mut bytes) = (Made::default(), 0, 0u64);
        loop {
            unread.set(HEADERS);
            let Some(entry) = entries.next() else { return Ok(()) };
            let mut entry = entry.map_err(damaged)?;
            count += 1;
            if count > ENTRIES {
                return Err(too_many());
            }
            let path = entry.path().map_err(|error| error.to_string())?.into_owned();
            let names = names(&path)?;
            let kind = entry.header().entry_type();
            if pass == Pass::Check && !matches!(kind, tar::EntryType::XGlobalHeader | tar::EntryType::XHeader) {
                made.add(&names)?;
            }
            match kind {
                tar::EntryType::Directory if pass == Pass::Check => {}
                tar::EntryType::Directory => drop(self.enter(&names)?),
                tar::EntryType::Regular | tar::EntryType::Continuous => {
                    bytes = bytes.saturating_add(entry.size());
                    if bytes > self.most {
                        return Err(self.too_large());
                    }
                    unread.set(entry.size());
                    let failed = |error: io::Error| format!("{}: {error}", path.display());
                    if pass == Pass::Check {
                        io::copy(&mut entry, &mut io::sink()).map_err(failed)?;
                        continue;
                    }
                    let is_executable = entry.header().mode().is_ok_and(|bits| bits & 0o100 != 0);
                    let mut file = self.create(&names, is_executable)?;
                    let copied =
                        io::copy(&mut entry, &mut file).and_then(|_| file.flush()).and_then(|()| file.sync_all());
                    copied.map_err(failed)?;
                }
                tar::EntryType::XGlobalHeader | tar::EntryType::XHeader => {}
                other => {
                    return Err(format!(
                        "the archive contains {}, which is neither a file nor a directory ({other:?})",
                        path.display()
                    ));
                }
            }
        }
    }

    /// Opens a directory below the first one, and makes it if it is missing; never through a symbolic link.
    fn enter(&self, names: &[&str]) -> Result<OwnedFd, String> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
        let mut at = self.root.try_clone().map_err(|error| error.to_string())?;
        for name in names {
            let failed = |error: Errno| format!("{name}: {error}");
            match fs::openat(&at, *name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    self.count()?;
                    fs::mkdirat(&at, *name, folder_mode(self.mode)).map_err(failed)?;
                    at = fs::openat(&at, *name, flags, Mode::empty()).map_err(failed)?;
                    fs::fchmod(&at, folder_mode(self.mode)).map_err(failed)?;
                }
                opened => at = opened.map_err(failed)?,
            }
        }
        Ok(at)
    }
}

/// What is done with an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Whether it is within its bounds.
    Check,
    Write,
}

/// The files and directories that an archive would make, those among them that only paths name: hashes of their paths.
#[derive(Default)]
struct Made {
    paths: HashSet<u64>,
    hashing: RandomState,
}

impl Made {
    fn add(&mut self, names: &[&str]) -> Result<(), String> {
        let mut path = self.hashing.build_hasher();
        for name in names {
            name.hash(&mut path);
            self.paths.insert(path.finish());
            if self.paths.len() > ENTRIES {
                return Err(too_many());
            }
        }
        Ok(())
    }
}

fn too_many() -> String {
    format!("the archive has more than {ENTRIES} files and directories")
}

/// A reader that may be read only so far: as far as its owner has said for what comes next.
struct Bounded<R> {
    reader: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.left.get()).unwrap_or(usize::MAX);
        if left == 0 && !buffer.is_empty() {
            let problem = format!("what describes an entry is longer than {HEADERS} bytes");
            return Err(io::Error::new(io::ErrorKind::InvalidData, problem));
        }
        let most = buffer.len().min(left);
        let read = self.reader.read(&mut buffer[..most])?;
        self.left.set(self.left.get() - read as u64);
        Ok(read)
    }
}

/// The components of a path that stays below its directory, and is not longer or deeper than the agent removes and applications open.
fn names(path: &Path) -> Result<Vec<&str>, String> {
    if path.as_os_str().len() > PATH {
        return Err(format!("the archive has a path of more than {PATH} bytes"));
    }
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => match name.to_str() {
                Some(name) if name.len() > NAME => {
                    return Err(format!("the archive has a name of more than {NAME} bytes"));
                }
                Some(name) => names.push(name),
                None => return Err(format!("{} is not a name in UTF-8", path.display())),
            },
            _ => return Err(format!("the archive contains {}, which leads out of its directory", path.display())),
        }
    }
    if names.len() > DEPTH {
        return Err(format!("the archive has more than {DEPTH} directories inside each other"));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn modes_arrive_whatever_the_umask_is_and_what_is_made_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let root = File::open(folder.path()).unwrap().into();
        let unpacked = Folder { root, mode: 0o666, most: 0, left: Cell::new(3) };
        unpacked.create(&["folder", "file"], false).unwrap();
        unpacked.create(&["folder", "program"], true).unwrap();
        for (name, expected) in [("folder", 0o777), ("folder/file", 0o666), ("folder/program", 0o777)] {
            let mode = folder.path().join(name).metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, expected, "{name}");
        }
        // The directories that names imply count as well.
        unpacked.left.set(2);
        let error = unpacked.create(&["one", "two", "file"], false).unwrap_err();
        assert!(error.contains("more than 10000 files and directories"), "{error}");
    }

    /// A tar archive of files of these names and sizes, also of names that a file system would not take.
    fn tarred(files: &[(String, usize)]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, size) in files {
            let mut header = tar::Header::new_gnu();
            header.set_mode(0o644);
            header.set_size(*size as u64);
            builder.append_data(&mut header, name, vec![0; *size].as_slice()).unwrap();
        }
        builder.into_inner().unwrap()
    }

    /// The same as a zip archive, in which nothing is compressed.
    fn zipped(files: &[(String, usize)]) -> Vec<u8> {
        let word = |number: usize| u32::try_from(number).unwrap().to_le_bytes();
        let (mut bytes, mut central) = (Vec::new(), Vec::new());
        for (name, size) in files {
            let data = vec![0; *size];
            let mut crc = flate2::Crc::new();
            crc.update(&data);
            // From the version to the lengths, which both headers have.
            let mut common = vec![20, 0, 0, 8, 0, 0, 0, 0, 0, 0];
            common.extend(crc.sum().to_le_bytes());
            common.extend([word(*size), word(*size), word(name.len())].concat());
            let at = word(bytes.len());
            for part in [b"PK\x03\x04".as_slice(), &common, name.as_bytes(), &data] {
                bytes.extend(part);
            }
            for part in [b"PK\x01\x02\x14\x03".as_slice(), &common, &[0; 10], &at, name.as_bytes()] {
                central.extend(part);
            }
        }
        let start = word(bytes.len());
        let count = u16::try_from(files.len()).unwrap().to_le_bytes();
        for part in [central.as_slice(), b"PK\x05\x06\0\0\0\0", &count, &count, &word(central.len()), &start, &[0; 2]] {
            bytes.extend(part);
        }
        bytes
    }

    /// Unpacks an archive. Of one that is refused nothing may have been written by then.
    fn unpacked(bytes: &[u8]) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let directory = Directory::open(folder.path(), 0o644).unwrap();
        directory.create("incoming").unwrap().write_all(bytes).unwrap();
        let result = unpack(&directory, "incoming", "staged", 1000);
        let made = || folder.path().join(".pillion-agent/staged").read_dir().unwrap().count();
        assert_eq!(made() == 0, result.is_err(), "{result:?}");
        // Everything that was unpacked can be removed, and the next archive takes its place.
        directory.create_folder("staged").unwrap();
        assert_eq!(made(), 0);
        result
    }

    #[test]
    fn nothing_is_written_of_an_archive_that_breaks_a_bound() {
        let table = [
            (vec![], ""),
            (vec![(format!("{}file", "d/".repeat(64)), 1)], "more than 64 directories inside each other"),
            (vec![(format!("{}file", "name/".repeat(300)), 1)], "a path of more than 1024 bytes"),
            (vec![("n".repeat(256), 1)], "a name of more than 255 bytes"),
            ((0..ENTRIES).map(|number| (format!("f{number}"), 0)).collect(), "more than 10000 files and directories"),
            ((0..5000).map(|number| (format!("d{number}/f"), 0)).collect(), "more than 10000 files and directories"),
            (vec![("second".to_owned(), 500), ("third".to_owned(), 500)], "more than 1000 bytes"),
        ];
        for (mut files, expected) in table {
            // What is wrong comes after something that is right.
            files.insert(0, ("first".to_owned(), 1));
            for (what, result) in [("tar", unpacked(&tarred(&files))), ("zip", unpacked(&zipped(&files)))] {
                let error = result.err().unwrap_or_default();
                assert!(error.contains(expected) && error.is_empty() == expected.is_empty(), "{what}: {error}");
            }
        }
    }

    #[test]
    fn archives_are_bounded_in_depth_and_names() {
        let nested = |depth: usize| vec![(format!("{}file", "d/".repeat(depth)), 0)];
        let table = [
            (nested(63), ""),
            (nested(64), "more than 64 directories inside each other"),
            (nested(500), "more than 64 directories inside each other"),
            (nested(5000), "a path of more than 1024 bytes"),
            (nested(100_000), "longer than 65536 bytes"),
            (vec![("n".repeat(255), 0)], ""),
            (vec![("n".repeat(256), 0)], "a name of more than 255 bytes"),
        ];
        for (files, expected) in table {
            let what = files[0].0.chars().take(20).collect::<String>();
            match unpacked(&tarred(&files)) {
                Ok(()) => assert_eq!(expected, "", "{what}"),
                Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{what}: {error}"),
            }
        }
    }

    #[test]
    fn a_size_in_an_extended_header_counts() {
        let mut builder = tar::Builder::new(Vec::new());
        builder.append_pax_extensions([("size", b"2000".as_slice())]).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_path("file").unwrap();
        header.set_mode(0o644);
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, io::empty()).unwrap();
        let mut bytes = builder.into_inner().unwrap();
        bytes.extend([0; 4096]);
        assert!(unpacked(&bytes).unwrap_err().contains("more than 1000 bytes"));
    }
}
