//! The `pillion` command, also `kubectl pillion`.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The supervisor of a pod of `pillion up` is this program again.
    if let Some(code) = pillion_process::supervise_if_asked() {
        return code;
    }
    pillion::run(std::env::args_os())
}
