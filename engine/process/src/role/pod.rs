//! Process 1 of a pod: starts the supervisors of containers, and is the parent of orphans.
//!
//! When its socket closes, the program that runs the pods is gone, however it ended. Then this process ends, and with
//! process 1 the kernel ends the whole namespace.

use std::collections::HashSet;
use std::io;
use std::path::Path;

use nix::poll::PollTimeout;
use nix::sys::prctl::{set_child_subreaper, set_pdeathsig};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setsid};

use super::child::{self, Streams};
use super::{Woken, children_ended, container, wait};
use crate::channel::Channel;
use crate::message::PodConfig;
use crate::namespaces::mount_proc;
use crate::tree::{Table, end_all};

pub(super) fn supervise(config: &PodConfig) -> io::Result<()> {
    set_pdeathsig(Signal::SIGKILL)?;
    // Away from the terminal and its signals.
    setsid()?;
    set_child_subreaper(true)?;
    if config.abilities.pid_namespaces {
        mount_proc()?;
    }
    let mut channel = Channel::from_stdin()?;
    let ended = children_ended()?;
    let mut containers = HashSet::new();
    let lived = live(&mut channel, config, &ended, &mut containers);
    end_all(Path::new("/proc"), drop);
    lived
}

fn live(
    channel: &mut Channel,
    config: &PodConfig,
    ended: &nix::sys::signalfd::SignalFd,
    containers: &mut HashSet<i32>,
) -> io::Result<()> {
    loop {
        let Woken { asked, child_ended } = wait(channel, ended, PollTimeout::NONE)?;
        if asked {
            if !channel.receive()? {
                return Ok(());
            }
            while channel.next::<()>()?.is_some() {
                containers.extend(start_container(channel, config));
            }
        }
        if child_ended {
            while ended.read_signal()?.is_some() {}
            reap(containers);
        }
    }
}

/// The supervisor of a container, with the socket and the two pipes that came for it. If it does not start, these are
/// closed, and the caller sees that.
fn start_container(channel: &mut Channel, config: &PodConfig) -> Option<i32> {
    let [control, stdout, stderr] = [channel.descriptor()?, channel.descriptor()?, channel.descriptor()?];
    let streams = Streams { stdin: Some(control), stdout: Some(stdout), stderr: Some(stderr) };
    Some(child::spawn(streams, || container::supervise(config)).ok()?.as_raw())
}

/// Waits for whom nobody else waits for. A child that is no supervisor was a container's whose supervisor is gone: then so
/// is the container. Each one that ends may leave more, and each end leads here.
fn reap(containers: &mut HashSet<i32>) {
    while let Ok(status) = waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG)) {
        if status == WaitStatus::StillAlive {
            break;
        }
        if let Some(pid) = status.pid() {
            containers.remove(&pid.as_raw());
        }
    }
    let table = Table::read(Path::new("/proc"));
    for child in table.children(Pid::this().as_raw()) {
        if !containers.contains(child) {
            table.kill(*child);
        }
    }
}
