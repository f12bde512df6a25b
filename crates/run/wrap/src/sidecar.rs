//! Runs a command that ends when the work is done.

use std::io::{PipeReader, PipeWriter, Write as _};
use std::thread;

use crate::arguments::Sidecar;
use crate::child::{Asked, Child, block_signals};
use crate::error::Error;
use crate::state::{LastEnd, Watched};

/// A thread that waits for locks needs little.
const STACK: usize = 64 * 1024;

/// Runs it, and returns its exit code: 0 if it was stopped because the work is done. One that had failed before, and is started again after
/// the work, repeats its error: the work had no sidecar when it ended.
pub(crate) fn run(command: &Sidecar) -> Result<u8, Error> {
    let signals = block_signals()?;
    let watched = || command.work.iter().map(|name| Watched::new(&command.run.state, name, command.policy));
    let is_done = || watched().all(|work| work.is_done());
    let last = LastEnd::new(&command.run.state, &command.run.name);
    if is_done() {
        return Ok(last.code());
    }
    last.begins()?;
    let done = watch(watched().collect(), last.clone())?;
    let outcome = Child::start(&command.run.command, signals).and_then(|child| child.wait(Some(&done), command.grace));
    let (code, asked) = match &outcome {
        Ok(ended) => (ended.code, ended.asked),
        Err(error) => (error.exit_code().unwrap_or(crate::OWN_FAILURE), None),
    };
    let code = match asked {
        Some(Asked::AfterWork) => 0,
        // On deletion it is a container as any other.
        Some(Asked::Outside) => code,
        // The end of the work may be what it has ended of.
        None if is_done() => 0,
        None => code,
    };
    last.ended(code)?;
    outcome.map(|_| code)
}

/// Something can be read from the pipe when all work is done. From then on it does not matter how the sidecar ends.
fn watch(work: Vec<Watched>, last: LastEnd) -> Result<PipeReader, Error> {
    let (reader, mut writer): (PipeReader, PipeWriter) = std::io::pipe().map_err(Error::system("make a pipe"))?;
    let wait = move || {
        for work in &work {
            work.done();
        }
        if let Err(error) = last.ended(0) {
            eprintln!("pillion-wrap: {error}");
        }
        // Without a reader the process ends just now.
        let _ = writer.write_all(b"done");
    };
    thread::Builder::new()
        .name("work".to_owned())
        .stack_size(STACK)
        .spawn(wait)
        .map_err(Error::system("start a thread"))?;
    Ok(reader)
}
