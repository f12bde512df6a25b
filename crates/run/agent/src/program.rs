//! The program `pillion-agent`.

use std::path::Path;
use std::process::ExitCode;

use crate::agent;
use crate::arguments::{Command, parse};
use crate::manager::Registry;

/// Runs the program with its arguments, without its name. Returns its exit status.
pub fn program(arguments: impl IntoIterator<Item = String>) -> ExitCode {
    let command = match parse(arguments) {
        Ok(command) => command,
        Err(problem) => {
            eprintln!("pillion-agent: {problem}");
            return ExitCode::from(2);
        }
    };
    let outcome = match command {
        Command::Print(text) => {
            print!("{text}");
            Ok(())
        }
        Command::Install(path) => install(&path),
        Command::Run(arguments) => {
            // One thread: the agent waits nearly always.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .map_err(|error| error.to_string())
                .and_then(|runtime| runtime.block_on(agent::run(arguments, Registry::new())))
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("pillion-agent: {problem}");
            ExitCode::FAILURE
        }
    }
}

/// Copies this program to a path, for an init container that brings it into another image.
fn install(path: &Path) -> Result<(), String> {
    let copy = std::env::current_exe().and_then(|program| std::fs::copy(program, path));
    copy.map(drop).map_err(|error| format!("{}: {error}", path.display()))
}
