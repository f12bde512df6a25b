//! The program; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    pillion_agent::program(std::env::args().skip(1))
}
