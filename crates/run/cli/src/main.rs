//! The `pillion` command, also `kubectl pillion`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion::run(std::env::args_os())
}
