//! What a container uses.

use std::fs;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use nix::unistd::{SysconfVar, sysconf};
use serde::{Deserialize, Serialize};

use crate::tree::Table;

/// What a container uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time of all its processes since it started, those that have ended among them. Never less than before.
    pub cpu: Duration,
    /// Memory that the kernel cannot take back without swapping, in bytes: anonymous and shared.
    pub working_set: u64,
    /// How many processes it has.
    pub processes: usize,
}

/// What the whole machine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineUsage {
    /// CPU time of all processors since it booted, but for the time in which they had nothing to do.
    pub cpu: Duration,
    /// Memory that is not available for new processes, in bytes.
    pub working_set: u64,
    /// When it booted.
    pub since: Timestamp,
}

impl MachineUsage {
    /// What this machine uses now; `None` when it does not say.
    pub fn now() -> Option<MachineUsage> {
        let read = |name: &str| fs::read_to_string(Path::new("/proc").join(name)).ok();
        MachineUsage::parse(&read("stat")?, &read("meminfo")?)
    }

    fn parse(stat: &str, meminfo: &str) -> Option<MachineUsage> {
        let line = |text: &str, name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
        let times = line(stat, "cpu ")?;
        let times: Vec<u64> = times.split_whitespace().map_while(|number| number.parse().ok()).collect();
        // After user, nice and system come idle and iowait; guests are part of user.
        let [user, nice, system, _, _, irq, softirq, steal, ..] = *times.as_slice() else { return None };
        let kibibytes = |name: &str| line(meminfo, name)?.split_whitespace().next()?.parse::<u64>().ok();
        let used = kibibytes("MemTotal:")?.saturating_sub(kibibytes("MemAvailable:")?);
        Some(MachineUsage {
            cpu: duration(user + nice + system + irq + softirq + steal),
            working_set: used * 1024,
            since: Timestamp::from_second(line(stat, "btime ")?.trim().parse().ok()?).ok()?,
        })
    }
}

/// What everything below `supervisor` uses; the supervisor itself does not count.
pub(crate) fn measure(proc: &Path, supervisor: i32) -> Usage {
    let table = Table::read(proc);
    let processes = table.descendants(supervisor);
    let of_the_dead = table.entry(supervisor).map_or(0, |entry| entry.ticks_of_children);
    let ticks = processes.iter().map(|entry| entry.ticks + entry.ticks_of_children).sum::<u64>() + of_the_dead;
    let living: Vec<_> = processes.iter().filter(|entry| !entry.zombie).collect();
    let alone = living.len() == 1;
    let working_set = living.iter().map(|entry| memory(&proc.join(entry.pid.to_string()), alone)).sum();
    Usage { cpu: duration(ticks), working_set, processes: living.len() }
}

fn duration(ticks: u64) -> Duration {
    let per_second = sysconf(SysconfVar::CLK_TCK).ok().flatten().and_then(|ticks| u64::try_from(ticks).ok());
    let per_second = per_second.filter(|ticks| *ticks > 0).unwrap_or(100);
    Duration::from_secs(ticks / per_second) + Duration::from_nanos(ticks % per_second * 1_000_000_000 / per_second)
}

/// Bytes of one process. What several share counts once, in parts; that takes the kernel longer to say.
fn memory(process: &Path, alone: bool) -> u64 {
    let shares = || sum(&fs::read_to_string(process.join("smaps_rollup")).ok()?, ["Pss_Anon:", "Pss_Shmem:"]);
    let whole = || sum(&fs::read_to_string(process.join("status")).ok()?, ["RssAnon:", "RssShmem:"]);
    if alone { whole() } else { shares().or_else(whole) }.unwrap_or(0)
}

/// The sum of lines such as `RssAnon:  123 kB`, in bytes; `None` when there is none of them.
fn sum(text: &str, names: [&str; 2]) -> Option<u64> {
    let lines = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    let numbers = lines.filter_map(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    numbers.map(|kilobytes| kilobytes * 1024).reduce(|sum, next| sum + next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_uses_what_is_neither_idle_nor_available() {
        let stat = "cpu  100 20 30 4000 500 6 7 8 90 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nbtime 1767225600\n";
        let meminfo = "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    600 kB\n";
        let usage = MachineUsage::parse(stat, meminfo).unwrap();
        assert_eq!((usage.cpu, usage.working_set), (duration(171), 400 * 1024));
        assert_eq!(usage.since.to_string(), "2026-01-01T00:00:00Z");
        assert_eq!(MachineUsage::parse("", meminfo), None);
        assert!(MachineUsage::now().unwrap().working_set > 1024 * 1024);
    }

    #[test]
    fn memory_is_the_sum_of_two_lines() {
        let status = "VmRSS:\t  900 kB\nRssAnon:\t  100 kB\nRssFile:\t  700 kB\nRssShmem:\t  20 kB\n";
        assert_eq!(sum(status, ["RssAnon:", "RssShmem:"]), Some(120 * 1024));
        assert_eq!(sum("State:\tZ (zombie)\n", ["RssAnon:", "RssShmem:"]), None);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(memory(Path::new("/proc/self"), true) > 0);
        assert!(memory(Path::new("/proc/self"), false) > 0);
    }
}
