//! This program again, in another role.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use pillion_engine_load::process::{self, Usage};

use crate::manage::Ready;

/// A child that has said that it is ready. It ends with this value.
pub(crate) struct Running {
    child: Child,
    pub(crate) ready: Ready,
}

impl Running {
    pub(crate) fn usage(&self) -> anyhow::Result<Usage> {
        process::usage(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again.
pub(crate) fn start(arguments: &[&OsStr]) -> anyhow::Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().context("cannot start a child")?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("stdout is a pipe")?).read_line(&mut said)?;
    let ready = serde_json::from_str(&said).context("a child ended before it was ready")?;
    Ok(Running { child, ready })
}

/// The usage when the process has come to rest.
pub(crate) async fn settle(running: &Running) -> anyhow::Result<Usage> {
    let mut usage = running.usage()?;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let next = running.usage()?;
        if next.processor.saturating_sub(usage.processor) < Duration::from_millis(60) {
            return Ok(next);
        }
        usage = next;
    }
}
