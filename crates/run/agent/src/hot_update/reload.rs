//! Makes the main process read its files again.

use std::time::Duration;

use hyper::Method;
use pillion_assist::{Process, Reload, select, signal_number};
use pillion_probe::{Exec as _, ExecError};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::http::{self, Connector, Request};
use crate::prober::Commands;

/// How a reload ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reloaded {
    /// The main process was asked.
    Asked,
    /// There is no main process yet: it reads the new files when it starts.
    NotRunning(String),
    /// It is not clear which process is the main process: one that runs may have read the old files.
    Unclear(String),
    /// It may be on its way: it has read its files perhaps, and cannot be asked yet.
    NotReady(String),
    /// It could not be asked.
    Failed(String),
}

/// One request or command may take this long.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Asks the main process once.
pub(crate) async fn reload(reload: &Reload) -> Reloaded {
    match reload {
        Reload::Nothing => Reloaded::Asked,
        Reload::Signal { process, signal } => send_signal(process, signal),
        Reload::Request { url, method } => {
            let connector = Connector::new(http::connector());
            let method = Method::from_bytes(method.as_bytes()).unwrap_or(Method::POST);
            let request = Request { method, url: url.clone(), headers: Vec::new(), body: None };
            match tokio::time::timeout(TIMEOUT, connector.send(request)).await {
                Err(_) => Reloaded::Failed(format!("{url} did not answer in time")),
                Ok(Err(error)) => Reloaded::NotReady(error),
                Ok(Ok(response)) if response.status().is_success() => Reloaded::Asked,
                Ok(Ok(response)) => Reloaded::Failed(format!("{url} answered {}", response.status())),
            }
        }
        Reload::Command(command) => match Commands.exec(command, TIMEOUT).await {
            Ok(output) if output.code == 0 => Reloaded::Asked,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.output).trim().to_owned();
                Reloaded::Failed(format!("the command ended with {}: {said}", output.code))
            }
            Err(ExecError::TimedOut(error) | ExecError::Failed(error)) => Reloaded::Failed(error),
        },
    }
}

fn send_signal(name: &str, signal: &str) -> Reloaded {
    let processes = processes();
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let Some(number) = signal_number(signal) else { return Reloaded::Failed(format!("{signal} is not a signal")) };
    let pid = match select(&processes, name, own) {
        Ok(Some(pid)) => pid,
        Ok(None) => {
            return Reloaded::NotRunning(format!(
                "no process of this pod has {name:?} in its command line; is `shareProcessNamespace: true` set on the pod?"
            ));
        }
        Err(problem) => return Reloaded::Unclear(problem),
    };
    let Some(chosen) = processes.iter().find(|process| process.pid == pid) else {
        return Reloaded::NotRunning("the process has ended".to_owned());
    };
    let Some(pid) = Pid::from_raw(pid) else { return Reloaded::Failed(format!("{pid} is not a process")) };
    let open = match rustix::process::pidfd_open(pid, PidfdFlags::empty()) {
        Ok(open) => open,
        Err(Errno::SRCH) => return Reloaded::NotRunning(format!("process {} has ended", chosen.pid)),
        Err(error) => return Reloaded::Failed(format!("process {}: {error}", chosen.pid)),
    };
    // Between the look and the descriptor another process may have got the number.
    if read(chosen.pid)
        .as_ref()
        .is_none_or(|now| now.command_line != chosen.command_line || now.parent != chosen.parent)
    {
        return Reloaded::Unclear(format!("process {} has changed meanwhile", chosen.pid));
    }
    // A process that has not set up its handler yet would be killed by the signal.
    if !handles(chosen.pid, number) {
        return Reloaded::NotReady(format!(
            "process {} ({}) does not handle {signal} yet",
            chosen.pid, chosen.command_line
        ));
    }
    let Some(signal_to_send) = Signal::from_named_raw(number) else {
        return Reloaded::Failed(format!("{signal} is not a signal"));
    };
    match rustix::process::pidfd_send_signal(&open, signal_to_send) {
        Ok(()) => Reloaded::Asked,
        Err(Errno::PERM) => Reloaded::Failed(format!(
            "no right to signal process {}: run the agent as the user of that process, or give it the capability KILL",
            chosen.pid
        )),
        Err(error) => Reloaded::Failed(format!("process {}: {error}", chosen.pid)),
    }
}

/// Every process that `/proc` shows.
fn processes() -> Vec<Process> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read).collect()
}

/// What `/proc` shows of a process to everybody.
fn read(pid: i32) -> Option<Process> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command_line = String::from_utf8_lossy(&command_line).replace('\0', " ").trim().to_owned();
    // The number in each namespace from ours down: one number is our own namespace.
    let namespaces = field("NSpid").map_or(1, |numbers| numbers.split_whitespace().count());
    Some(Process {
        pid,
        parent: field("PPid")?.parse().ok()?,
        command_line,
        name: field("Name")?.to_owned(),
        same_namespace: namespaces == 1,
    })
}

/// Whether a process catches or ignores a signal.
fn handles(pid: i32, number: i32) -> bool {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return false };
    let mask = |name: &str| {
        let text = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        u64::from_str_radix(text.trim(), 16).ok()
    };
    // What has no handler and does no harm: CONT, URG and WINCH.
    let harmless = matches!(number, 18 | 23 | 28);
    let bit = 1u64 << (number - 1);
    harmless
        || mask("SigCgt").or(Some(u64::MAX)).is_some_and(|caught| caught & bit != 0)
        || mask("SigIgn").is_some_and(|ignored| ignored & bit != 0)
}
