//! `pillion-process`: the supervisor as a program of its own, for tests, whose main function is not theirs to change.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion_process::supervise_if_asked().unwrap_or_else(|| {
        eprintln!("pillion-process: pods are started by the library; alone this program does nothing");
        ExitCode::FAILURE
    })
}
