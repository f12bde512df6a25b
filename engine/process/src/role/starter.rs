//! Starts the guards of pods, as children that share its memory. There is one for all pods of a host.
//!
//! When its socket closes, the program that runs the pods is gone; the guards see to their own end.

use std::io;

use nix::poll::PollTimeout;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, setpgid, setsid};

use super::child::{self, Streams};
use super::{Woken, children_ended, guard, wait};
use crate::channel::Channel;
use crate::message::PodConfig;

pub(super) fn start_pods() -> io::Result<()> {
    child::close_all_but_standard_streams()?;
    // Away from the terminal and its signals: a Ctrl-C is for the program, which ends the pods in its own order.
    setsid()?;
    let mut channel = Channel::from_stdin()?;
    let ended = children_ended()?;
    loop {
        let Woken { asked, child_ended } = wait(&channel, &ended, PollTimeout::NONE)?;
        if asked {
            if !channel.receive()? {
                return Ok(());
            }
            while let Some(config) = channel.next()? {
                start_guard(&mut channel, &config);
            }
        }
        if child_ended {
            while ended.read_signal()?.is_some() {}
            while waitpid(Pid::from_raw(-1), Some(WaitPidFlag::WNOHANG))
                .is_ok_and(|status| status != WaitStatus::StillAlive)
            {}
        }
    }
}

/// A guard, with the descriptors that came for it. If it does not start, these are closed, and the caller sees that.
fn start_guard(channel: &mut Channel, config: &PodConfig) {
    let mut next = || channel.descriptor();
    let streams = Streams { stdin: next(), stdout: next(), stderr: next() };
    let _ = child::spawn(streams, || {
        setpgid(Pid::from_raw(0), Pid::from_raw(0))?;
        guard::guard(config)
    });
}
