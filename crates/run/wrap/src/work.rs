//! Runs a command that does the pod's work.

use std::time::Duration;

use crate::arguments::Work;
use crate::child::{Child, block_signals};
use crate::error::Error;
use crate::state;

/// Runs it, and returns its exit code.
pub(crate) fn run(command: &Work) -> Result<u8, Error> {
    let signals = block_signals()?;
    let working = state::begin(&command.state, &command.name)?;
    let code = match Child::start(&command.command, signals) {
        Ok(child) => child.wait(None, Duration::ZERO)?.code,
        // A command that cannot be run has ended, too.
        Err(error) => {
            eprintln!("pillion-wrap: {error}");
            error.exit_code().unwrap_or(crate::OWN_FAILURE)
        }
    };
    working.ended(code)?;
    Ok(code)
}
