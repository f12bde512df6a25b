//! Processes as `/proc` shows them.

use std::fs;
use std::time::Duration;

use anyhow::Context as _;

/// Linux reports processor time in hundredths of a second, on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// What a process has used, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// In user and kernel mode, of all threads.
    pub processor: Duration,
    /// Bytes of memory.
    pub resident: u64,
}

/// A process and its command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub id: u32,
    arguments: Vec<String>,
}

impl Process {
    /// The value of `--flag=value`; empty for a flag without one.
    pub fn argument(&self, flag: &str) -> Option<&str> {
        let rest = self.arguments.iter().find_map(|argument| argument.strip_prefix(flag))?;
        Some(rest.strip_prefix('=').unwrap_or(rest))
    }
}

/// The process of a program that was started with an argument.
pub fn find(program: &str, argument: &str) -> Option<Process> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let id = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read_to_string(entry.path().join("cmdline")).ok()?;
        let arguments: Vec<String> = line.split('\0').map(str::to_owned).collect();
        let is_program = arguments.first()?.rsplit('/').next()? == program;
        (is_program && arguments.iter().any(|given| given == argument)).then_some(Process { id, arguments })
    })
}

/// What a process has used so far, and holds now.
pub fn usage(id: u32) -> anyhow::Result<Usage> {
    let read =
        |file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).with_context(|| format!("process {id} is gone"));
    let (stat, status) = (read("stat")?, read("status")?);
    parse(&stat, &status).with_context(|| format!("/proc/{id} is not as Linux writes it"))
}

fn parse(stat: &str, status: &str) -> Option<Usage> {
    // The name of the program may hold anything, and ends with the last parenthesis; user and kernel time are the 14th and 15th field.
    let mut times = stat.rsplit_once(") ")?.1.split(' ').skip(11).take(2).map(str::parse::<u32>);
    let ticks = times.next()?.ok()?.checked_add(times.next()?.ok()?)?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(Usage { processor: Duration::from_secs_f64(f64::from(ticks) / TICKS_PER_SECOND), resident: kibibytes * 1024 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_found_after_a_name_with_a_parenthesis() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 4 0 100 1 1";
        let usage = parse(stat, "Name:\ta\nVmRSS:\t    2048 kB\n").unwrap();
        assert_eq!(usage, Usage { processor: Duration::from_secs(2), resident: 2 << 20 });
    }

    #[test]
    fn this_process_is_found_and_holds_memory() {
        assert!(usage(std::process::id()).unwrap().resident > 0);
    }

    #[test]
    fn an_argument_has_a_value_or_none() {
        let process = Process { id: 1, arguments: vec!["etcd".to_owned(), "--a=b".to_owned(), "--c".to_owned()] };
        assert_eq!(["--a", "--c", "--d"].map(|flag| process.argument(flag)), [Some("b"), Some(""), None]);
    }
}
