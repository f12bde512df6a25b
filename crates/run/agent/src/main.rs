//! The program; see the library.

use std::process::ExitCode;

/// The allocator of musl returns memory to the system after each probe.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Its heap is smaller than one huge page. Best effort: where it fails, the agent takes a few megabytes more.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    pillion_agent::program(std::env::args().skip(1))
}
