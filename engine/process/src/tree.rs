//! Processes as `/proc` shows them, and the end of all that a supervisor has below it.
//!
//! The whole of `/proc` is read, since not every kernel has `/proc/PID/task/TID/children`. In a pod's process namespace
//! that is only the pod.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;

/// One process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) pid: i32,
    pub(crate) parent: i32,
    /// Whether it has ended, and only waits for its parent.
    pub(crate) zombie: bool,
    /// CPU time of its own, in clock ticks.
    pub(crate) ticks: u64,
    /// CPU time of the children that it has waited for.
    pub(crate) ticks_of_children: u64,
}

/// All processes of a `/proc`.
pub(crate) struct Table {
    entries: HashMap<i32, Entry>,
    children: HashMap<i32, Vec<i32>>,
}

impl Table {
    /// Reads a `/proc` that may be mounted anywhere.
    pub(crate) fn read(proc: &Path) -> Table {
        let folders = fs::read_dir(proc).into_iter().flatten().flatten();
        Table::new(folders.filter_map(|folder| {
            folder.file_name().to_str()?.parse::<i32>().ok()?;
            parse(&fs::read_to_string(folder.path().join("stat")).ok()?)
        }))
    }

    fn new(all: impl Iterator<Item = Entry>) -> Table {
        let mut table = Table { entries: HashMap::new(), children: HashMap::new() };
        for entry in all {
            table.children.entry(entry.parent).or_default().push(entry.pid);
            table.entries.insert(entry.pid, entry);
        }
        table
    }

    pub(crate) fn entry(&self, pid: i32) -> Option<Entry> {
        self.entries.get(&pid).copied()
    }

    pub(crate) fn children(&self, pid: i32) -> &[i32] {
        self.children.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Everything below a process, parents first.
    pub(crate) fn descendants(&self, pid: i32) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut waiting = self.children(pid).to_vec();
        while let Some(pid) = waiting.pop() {
            found.extend(self.entry(pid));
            waiting.extend(self.children(pid));
        }
        found
    }

    /// SIGKILL to a process and everything below it.
    pub(crate) fn kill(&self, pid: i32) {
        // From above to below: a parent that is gone starts no more children.
        for pid in std::iter::once(pid).chain(self.descendants(pid).iter().map(|entry| entry.pid)) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// `/proc/PID/stat`; the second field is a name that may hold spaces and parentheses.
fn parse(stat: &str) -> Option<Entry> {
    let (start, rest) = stat.rsplit_once(") ")?;
    let pid = start.split_once(' ')?.0.parse().ok()?;
    let fields: Vec<&str> = rest.split(' ').collect();
    // Numbered as in proc(5), where the state is field 3.
    let field = |number: usize| fields.get(number - 3).and_then(|field| field.parse::<u64>().ok());
    Some(Entry {
        pid,
        parent: fields.get(1)?.parse().ok()?,
        zombie: matches!(*fields.first()?, "Z" | "X"),
        ticks: field(14)? + field(15)?,
        ticks_of_children: field(16)? + field(17)?,
    })
}

/// Ends a process that orphans come to, and before it everything below it.
pub(crate) fn end(proc: &Path, pid: Pid) {
    // It starts no more.
    let _ = kill(pid, Signal::SIGSTOP);
    // Whoever cannot be killed at once, because of a disk, is not waited for.
    for _ in 0..100 {
        let mut below = Table::read(proc).descendants(pid.as_raw());
        below.retain(|entry| !entry.zombie);
        if below.is_empty() {
            break;
        }
        for entry in below {
            let _ = kill(Pid::from_raw(entry.pid), Signal::SIGKILL);
        }
    }
    let _ = kill(pid, Signal::SIGKILL);
}

/// Ends everything below this process, which has to be the one that orphans come to, and reports each child.
pub(crate) fn end_all(proc: &Path, mut ended: impl FnMut(WaitStatus)) {
    loop {
        let table = Table::read(proc);
        let me = Pid::this().as_raw();
        for child in table.children(me) {
            table.kill(*child);
        }
        match waitpid(Pid::from_raw(-1), None) {
            Ok(status) => ended(status),
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_with_parentheses() {
        let stat = "42 (a) b (c)) S 7 2 3 0 -1 4194560 5 6 7 8 100 20 30 4 20 0 1 0 4711 1000 200\n";
        assert_eq!(parse(stat), Some(Entry { pid: 42, parent: 7, zombie: false, ticks: 120, ticks_of_children: 34 }));
        assert_eq!(parse("42 (a"), None);
        assert_eq!(parse("42 (a) S 1"), None);
    }

    #[test]
    fn descendants_are_of_every_generation() {
        let entry = |pid, parent| Entry { pid, parent, zombie: false, ticks: 0, ticks_of_children: 0 };
        let table = Table::new([entry(1, 0), entry(2, 1), entry(3, 2), entry(4, 3), entry(5, 1)].into_iter());
        let pids: Vec<i32> = table.descendants(2).iter().map(|entry| entry.pid).collect();
        assert_eq!(pids, [3, 4]);
        assert_eq!(table.descendants(4), []);
    }
}
