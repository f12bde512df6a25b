//! The program; see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(pillion_wrap::run(std::env::args_os().skip(1)))
}
