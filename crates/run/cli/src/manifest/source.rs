//! From the paths of the command line to texts.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Broken, Position, ReadError};
use crate::io_reason;

/// The largest text that is read. An API server refuses a request of 3 MiB; this is room for twenty of them in one file.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The endings by which a folder's manifests are known, as kubectl knows them.
const EXTENSIONS: [&str; 3] = ["json", "yaml", "yml"];

/// A text and the name by which messages call it.
pub(super) struct Source {
    pub(super) name: Arc<str>,
    pub(super) text: String,
}

/// The texts of `paths`, in order.
pub(super) fn open(paths: &[PathBuf], stdin: &mut dyn Read) -> Vec<Result<Source, ReadError>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            sources.push(read_text("<stdin>", stdin));
        } else if path.is_dir() {
            open_folder(path, &mut sources);
        } else {
            sources.push(read_file(path));
        }
    }
    sources
}

fn open_folder(folder: &Path, sources: &mut Vec<Result<Source, ReadError>>) {
    let mut files = Vec::new();
    match list(folder, &mut files) {
        Err(error) => sources.push(Err(error)),
        Ok(()) if files.is_empty() => sources.push(Err(unreadable(folder, "no *.yaml, *.yml or *.json file in it"))),
        Ok(()) => sources.extend(files.iter().map(|file| read_file(file))),
    }
}

/// The manifests below `folder`, sorted by path. Hidden entries are left out (`.git`, the `..data` of a mounted
/// ConfigMap), and links to folders are not followed: they may lead in a circle.
fn list(folder: &Path, files: &mut Vec<PathBuf>) -> Result<(), ReadError> {
    let entries = fs::read_dir(folder).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let mut entries = entries.map_err(|error| unreadable(folder, &io_reason(&error)))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            list(&path, files)?;
        } else if path.extension().is_some_and(|ending| EXTENSIONS.iter().any(|known| ending == *known))
            && path.is_file()
        {
            files.push(path);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Source, ReadError> {
    let mut file = fs::File::open(path).map_err(|error| unreadable(path, &io_reason(&error)))?;
    read_text(&path.display().to_string(), &mut file)
}

fn read_text(name: &str, reader: &mut dyn Read) -> Result<Source, ReadError> {
    let mut bytes = Vec::new();
    reader
        .take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| ReadError::Unreadable { path: name.to_owned(), reason: io_reason(&error) })?;
    if bytes.len() as u64 > MAX_BYTES {
        let reason = format!("larger than {} MiB; split it", MAX_BYTES / 1024 / 1024);
        return Err(ReadError::Unreadable { path: name.to_owned(), reason });
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Source { name: name.into(), text }),
        Err(error) => Err(ReadError::Broken(not_utf8(name, error.as_bytes(), error.utf8_error().valid_up_to()))),
    }
}

fn not_utf8(name: &str, bytes: &[u8], valid: usize) -> Broken {
    let before = String::from_utf8_lossy(bytes.get(..valid).unwrap_or_default());
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let column = before[line_start..].chars().count() + 1;
    let line = before.bytes().filter(|b| *b == b'\n').count() + 1;
    let rest = String::from_utf8_lossy(bytes.get(line_start..).unwrap_or_default());
    let error = pillion_yaml::Error {
        position: Position::new(line, column),
        message: "not UTF-8 text".to_owned(),
        excerpt: rest.lines().next().unwrap_or_default().to_owned(),
    };
    Broken { source_name: name.into(), error }
}

fn unreadable(path: &Path, reason: &str) -> ReadError {
    ReadError::Unreadable { path: path.display().to_string(), reason: reason.to_owned() }
}
