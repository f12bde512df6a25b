//! The `pillion` command, also `kubectl pillion`.

use std::process::ExitCode;

/// Objects are many small pieces of JSON, made by one task and dropped by another: half of the time of the system's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // The supervisor of a pod of `pillion up` is this program again.
    if let Some(code) = pillion_process::supervise_if_asked() {
        return code;
    }
    // So is the agent of a pod of `pillion up`, whose image nobody has to build.
    if let Some(arguments) = pillion::agent_arguments(std::env::args_os()) {
        return pillion_agent::program(arguments);
    }
    pillion::run(std::env::args_os())
}
