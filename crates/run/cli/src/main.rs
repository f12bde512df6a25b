//! The `pillion` command, also `kubectl pillion`.

use std::process::ExitCode;

/// Objects are many small pieces of JSON, made by one task and dropped by another: half of the time of the system's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The supervisor of a pod of `pillion up` is this program again.
    if let Some(code) = pillion_embedded::supervise_if_asked() {
        return code;
    }
    // `pillion` is also the program of images that need not be built for `pillion up`.
    if let Some(code) = pillion::own_program(std::env::args_os()) {
        return code;
    }
    pillion::run(std::env::args_os())
}
