//! Runs a command that ends when the work is done.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::thread;

use crate::arguments::Sidecar;
use crate::child::{Child, block_signals};
use crate::error::Error;
use crate::state::Watched;

/// A thread that waits for locks needs little.
const STACK: usize = 64 * 1024;

/// Runs it, and returns its exit code: 0 if it was stopped because the work is done.
pub(crate) fn run(command: &Sidecar) -> Result<u8, Error> {
    let signals = block_signals()?;
    let watched = || command.work.iter().map(|name| Watched::new(&command.run.state, name, command.policy));
    if watched().all(|work| work.is_done()) {
        return Ok(0);
    }
    let done = watch(watched().collect())?;
    let ended = Child::start(&command.run.command, signals)?.wait(Some(&done), command.grace)?;
    // The end of the work may be what it has ended of.
    if ended.after_work || watched().all(|work| work.is_done()) { Ok(0) } else { Ok(ended.code) }
}

/// Something can be read from the pipe when all work is done.
fn watch(work: Vec<Watched>) -> Result<PipeReader, Error> {
    let (reader, mut writer): (PipeReader, PipeWriter) = std::io::pipe().map_err(Error::System)?;
    let wait = move || {
        for work in &work {
            work.done();
        }
        // Without a reader the process ends just now.
        let _ = writer.write_all(b"done");
    };
    thread::Builder::new().name("work".to_owned()).stack_size(STACK).spawn(wait).map_err(Error::System)?;
    Ok(reader)
}
