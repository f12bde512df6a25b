//! `pillion-wrap`: runs the commands of a pod so that its sidecars end when the work is done (KEP-0008), on any kubelet.
//!
//! ```
//! use pillion_wrap::{Command, parse};
//!
//! let arguments = ["work", "--name=main", "--state=/state", "--", "/bin/backup", "--all"];
//! let Ok(Command::Work(work)) = parse(arguments.map(Into::into)) else { panic!() };
//! assert_eq!((work.name.as_str(), work.command.len()), ("main", 2));
//! ```
//!
//! ```text
//!  init container   pillion-wrap install FOLDER                 copies itself into a volume that the others mount read-only
//!
//!  main             pillion-wrap work ── holds main.lock ──▶ runs the command ──▶ writes main.exit ──▶ exits with its code
//!                                             │ closes, however the wrapper dies
//!  sidecar          pillion-wrap sidecar ◀────┘ every lock is free, for good? ──▶ TERM, grace period, KILL ──▶ exits with 0
//! ```
//!
//! # Invariants
//! - The child gets the signals, the standard streams and the environment that the container has; its exit code is the container's, 128 plus the
//!   signal if one ended it.
//! - Only a sidecar that was stopped because the work is done exits with 0 instead. It gets TERM once, whoever sends it first.
//! - A sidecar that had failed, and whose next attempt comes after the end of the work, repeats its error.
//! - The death of a wrapper ends its child, and is noticed by the lock that it held: nothing has to be written by whoever dies.
//! - Under `OnFailure` work is done only after a recorded exit with 0; under `Never` after any end.
//! - Orphans are reaped.

mod arguments;
mod child;
mod error;
mod install;
mod sidecar;
mod state;
mod work;

use std::ffi::OsString;

pub use arguments::{Command, Policy, Sidecar, Work, parse};
pub use error::Error;

/// What the wrapper exits with when it cannot do its own part, as container runtimes do.
const OWN_FAILURE: u8 = 125;

/// Does what the arguments say, and returns the code to exit with.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let outcome = parse(arguments).and_then(|command| match command {
        Command::Install(folder) => install::install(&folder).map(|()| 0),
        Command::Work(command) => work::run(&command),
        Command::Sidecar(command) => sidecar::run(&command),
    });
    outcome.unwrap_or_else(|error| {
        eprintln!("pillion-wrap: {error}");
        error.exit_code().unwrap_or(OWN_FAILURE)
    })
}
