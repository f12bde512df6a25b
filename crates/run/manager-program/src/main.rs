//! `pillion-manager`: the program of the image that installations run.

use std::process::ExitCode;

/// Objects are many small pieces of JSON, made by one task and dropped by another: half of the time of the system's own allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    pillion_manager_program::Program::run(std::env::args_os())
}
