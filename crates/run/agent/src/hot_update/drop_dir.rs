//! `dropDir`: requests that are dropped as files, and their answers.
//!
//! ```text
//!  x.json ─(is it whole?)─▶ .x.json.taken ─▶ the update ─▶ x.result
//! ```
//!
//! Others write to the directory at the same time: nothing in it is trusted, no link is followed, and whatever is not a file is left alone.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use pillion_assist::{Refusal, Trigger};
use rustix::fs::OFlags;
use serde::de::IgnoredAny;

use crate::log;

/// No request is longer.
const LONGEST: u64 = 64 << 10;

/// The directory.
pub(super) struct DropDir {
    path: PathBuf,
    /// Files that end early: somebody may be writing them still.
    early: BTreeSet<String>,
}

/// A request that was taken.
pub(super) struct Request {
    /// The name of the file that was dropped.
    pub(super) name: String,
    pub(super) trigger: Result<Trigger, Refusal>,
}

impl DropDir {
    pub(super) fn new(path: &str) -> DropDir {
        DropDir { path: path.into(), early: BTreeSet::new() }
    }

    /// Files that may be requests, in the order in which they are taken: first those that were taken before a restart.
    pub(super) fn files(&mut self) -> std::io::Result<Vec<String>> {
        let entries = std::fs::read_dir(&self.path)?.flatten();
        let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
        let names = files.filter_map(|entry| entry.file_name().into_string().ok());
        let is_dropped = |name: &str| is_json(name) && !name.starts_with('.');
        let mut names: Vec<String> = names.filter(|name| is_dropped(name) || was_taken(name).is_some()).collect();
        self.early.retain(|file| names.contains(file));
        names.sort_by_key(|name| (was_taken(name).is_none(), name.clone()));
        Ok(names)
    }

    /// Takes a request, so that whoever drops another of the same name does not lose it. `None` if it is not whole yet: what has been written
    /// comes back with the next change.
    pub(super) fn take(&mut self, file: &str) -> Option<Request> {
        let Some(trigger) = self.read(file) else {
            if self.early.insert(file.to_owned()) {
                log::line(format_args!("hot_update: {file} is not whole JSON yet: it is read again when it changes"));
            }
            return None;
        };
        self.early.remove(file);
        if let Some(name) = was_taken(file) {
            return Some(Request { name: name.to_owned(), trigger });
        }
        let taken = taken(file);
        if let Err(error) = std::fs::rename(self.path.join(file), self.path.join(&taken)) {
            log::line(format_args!("hot_update: {file} cannot be taken: {error}"));
            return None;
        }
        // Another may have come into its place since it was read.
        let trigger = self.read(&taken)?;
        Some(Request { name: file.to_owned(), trigger })
    }

    /// Writes the answer to a request, and forgets the request.
    pub(super) fn answer(&self, name: &str, result: &str) {
        let answer = Path::new(name).with_extension("result");
        let written = self.write(&answer, &format!("{result}\n"));
        if let Err(error) = written {
            log::line(format_args!("hot_update: {} cannot be written: {error}", answer.display()));
        }
        if let Err(error) = std::fs::remove_file(self.path.join(taken(name))) {
            log::line(format_args!("hot_update: {} cannot be removed: {error}", taken(name)));
        }
    }

    /// What a file asks for; `None` if it ends early.
    fn read(&self, file: &str) -> Option<Result<Trigger, Refusal>> {
        let bad = |problem: String| Some(Err(Refusal::Bad(problem)));
        let text = match self.read_bounded(file) {
            Ok(text) => text,
            Err(error) => return bad(format!("the file cannot be read: {error}")),
        };
        if text.len() as u64 > LONGEST {
            return bad(format!("the file is longer than {LONGEST} bytes"));
        }
        match serde_json::from_slice::<IgnoredAny>(&text) {
            Err(error) if error.is_eof() => None,
            _ => Some(Trigger::from_json(&String::from_utf8_lossy(&text))),
        }
    }

    fn read_bounded(&self, file: &str) -> std::io::Result<Vec<u8>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let open = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(self.path.join(file))?;
        let mut text = Vec::new();
        open.take(LONGEST + 1).read_to_end(&mut text)?;
        Ok(text)
    }

    /// Replaces whatever has the name, also a link or a pipe, by a new file.
    fn write(&self, name: &Path, text: &str) -> std::io::Result<()> {
        let new = self.path.join(format!(".{}.new", name.display()));
        let _ = std::fs::remove_file(&new);
        // Exclusively, which follows no link either.
        let mut file: File = OpenOptions::new().write(true).create_new(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        std::fs::rename(new, self.path.join(name))
    }
}

/// The name of a request that is being worked on.
fn taken(name: &str) -> String {
    format!(".{name}.taken")
}

/// The name that a request had before it was taken; `None` if this is none.
fn was_taken(file: &str) -> Option<&str> {
    file.strip_prefix('.')?.strip_suffix(".taken").filter(|name| is_json(name))
}

fn is_json(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "json")
}

#[cfg(test)]
mod tests {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use serde_json::json;

    use super::*;

    fn request(version: &str) -> String {
        json!({"version": version, "url": "http://example.com/app.conf"}).to_string()
    }

    fn version(request: Option<Request>) -> Option<String> {
        request.map(|request| request.trigger.map_or_else(|no| no.message().to_owned(), |it| it.version.to_string()))
    }

    /// A directory, and what is in it.
    fn scene(files: &[(&str, &str)]) -> (tempfile::TempDir, DropDir) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let requests = DropDir::new(folder.path().to_str().unwrap());
        (folder, requests)
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    #[test]
    fn a_request_is_left_alone_until_it_is_whole() {
        let (folder, mut requests) = scene(&[]);
        let (path, whole) = (folder.path().join("x.json"), request("v1"));
        for end in 0..whole.len() {
            std::fs::write(&path, &whole[..end]).unwrap();
            assert_eq!(requests.files().unwrap(), ["x.json"]);
            assert!(requests.take("x.json").is_none(), "{end}");
            assert_eq!(names(folder.path()), ["x.json"], "{end}");
        }
        std::fs::write(&path, &whole).unwrap();
        assert_eq!(version(requests.take("x.json")).as_deref(), Some("v1"));
        requests.answer("x.json", "Update success");
        assert_eq!(names(folder.path()), ["x.result"]);
        assert_eq!(std::fs::read_to_string(folder.path().join("x.result")).unwrap(), "Update success\n");
    }

    #[test]
    fn what_can_never_be_a_request_is_answered() {
        let long = format!("{{\"version\": \"{}", "v".repeat(70_000));
        let (folder, mut requests) = scene(&[("a.json", "}"), ("b.json", "[]"), ("c.json", &long)]);
        for (file, expected) in [("a.json", "not JSON"), ("b.json", "not a JSON object"), ("c.json", "longer than")] {
            let said = version(requests.take(file)).unwrap();
            assert!(said.contains(expected), "{file}: {said}");
            requests.answer(file, &said);
        }
        assert_eq!(names(folder.path()), ["a.result", "b.result", "c.result"]);
    }

    #[test]
    fn a_request_that_comes_while_one_of_the_same_name_is_worked_on_is_the_next() {
        let (folder, mut requests) = scene(&[("x.json", &request("v1"))]);
        assert_eq!(version(requests.take("x.json")).as_deref(), Some("v1"));
        std::fs::write(folder.path().join("x.json"), request("v2")).unwrap();
        requests.answer("x.json", "one");
        assert_eq!(requests.files().unwrap(), ["x.json"]);
        assert_eq!(version(requests.take("x.json")).as_deref(), Some("v2"));
    }

    #[test]
    fn a_request_that_was_taken_before_a_restart_comes_first() {
        let (folder, mut requests) =
            scene(&[("+.json", &request("v2")), (".x.json.taken", &request("v1")), (".y.json", &request("v0"))]);
        let files = requests.files().unwrap();
        assert_eq!(files, [".x.json.taken", "+.json"]);
        let first = requests.take(&files[0]).unwrap();
        assert_eq!(first.name, "x.json");
        assert_eq!(version(Some(first)).as_deref(), Some("v1"));
        requests.answer("x.json", "again");
        assert_eq!(names(folder.path()), ["+.json", ".y.json", "x.result"]);
    }

    #[test]
    fn an_answer_goes_through_no_link_and_into_no_pipe() {
        let (folder, mut requests) =
            scene(&[("x.json", &request("v1")), ("y.json", &request("v1")), ("precious", "precious")]);
        let at = |name: &str| folder.path().join(name);
        for name in ["x.result", ".x.result.new"] {
            std::os::unix::fs::symlink(at("precious"), at(name)).unwrap();
        }
        mknodat(CWD, at("y.result"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        for name in ["x.json", "y.json"] {
            requests.take(name).unwrap();
            requests.answer(name, "done");
        }
        assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "precious");
        for name in ["x.result", "y.result"] {
            assert!(at(name).symlink_metadata().unwrap().is_file(), "{name}");
            assert_eq!(std::fs::read_to_string(at(name)).unwrap(), "done\n", "{name}");
        }
    }

    #[test]
    fn what_is_not_a_file_is_no_request() {
        let (folder, mut requests) = scene(&[("real", &request("v1"))]);
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("directory.json")).unwrap();
        std::fs::create_dir(at(".directory.json.taken")).unwrap();
        std::os::unix::fs::symlink(at("real"), at("link.json")).unwrap();
        mknodat(CWD, at("pipe.json"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(requests.files().unwrap(), Vec::<String>::new());
    }
}
