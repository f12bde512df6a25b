//! Processes as `/proc` shows them.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use crate::folder::{Folder, MARK};

/// A process id with the time the process started, since ids are used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProcessIdentity {
    /// The process id.
    pub(crate) pid: u32,
    /// When it started, in clock ticks since boot.
    pub(crate) start_time: u64,
}

impl ProcessIdentity {
    /// The process that has this id now. One that has ended and only waits for its parent counts as gone.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Some(Self { pid, start_time: start_time(&stat)? })
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(self) -> bool {
        Self::of(self.pid) == Some(self)
    }

    /// Sends a signal if it still runs.
    pub(crate) fn signal(self, signal: Signal) {
        if let (true, Ok(pid)) = (self.is_alive(), i32::try_from(self.pid)) {
            // It may have ended in between, which is what is wanted.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }
}

/// Field 22 of `/proc/PID/stat`; the second field is a name that may hold spaces and parentheses.
fn start_time(stat: &str) -> Option<u64> {
    let mut after_name = stat.rsplit_once(") ")?.1.split(' ');
    match after_name.next()? {
        "Z" | "X" => None,
        _ => after_name.nth(18)?.parse().ok(),
    }
}

/// The processes that a supervisor started for `folder` and that still run, by the mark in their environment.
pub(crate) fn marked(folder: &Folder) -> Vec<ProcessIdentity> {
    let mark = [MARK.as_bytes(), b"=", folder.path().as_os_str().as_bytes()].concat();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            fs::read(format!("/proc/{pid}/environ"))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|variable| variable == mark))
        })
        .filter_map(ProcessIdentity::of)
        .collect()
}

/// Does `work` on a thread of its own: a namespace is entered by one thread, and the rest of the process stays where it
/// is.
pub(crate) fn on_a_thread<T: Send>(work: impl FnOnce() -> anyhow::Result<T> + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn the_start_time_is_found_behind_a_name_with_parentheses() {
        let rest = "S 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 4711 1000 200";
        assert_eq!(start_time(&format!("42 (a) b (c)) {rest}")), Some(4711));
        assert_eq!(start_time("42 (a"), None);
        assert_eq!(start_time("42 (a) S 1"), None);
    }

    #[test]
    fn a_process_that_has_ended_is_not_alive() {
        assert!(ProcessIdentity::of(std::process::id()).unwrap().is_alive());
        assert_eq!(start_time("42 (a) Z 1 2 3 0 -1 4194560 5 6 7 8 9 10 11 12 20 0 1 0 4711 1000 200"), None);
    }

    #[test]
    fn a_marked_process_is_found_and_another_is_not() {
        let folder = Folder::at("/tmp/pillion-marked".into()).unwrap();
        let start = |value: &str| {
            let mut child =
                Command::new("cat").env(MARK, value).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            // Its environment is to be seen once it does something.
            child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let mut children = [start("/tmp/pillion-marked"), start("/tmp/pillion-marked/other")];
        let found: Vec<u32> = marked(&folder).iter().map(|identity| identity.pid).collect();
        assert_eq!(found, [children[0].id()]);
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
