//! The program `pillion-agent`.

use std::path::Path;
use std::process::ExitCode;

use crate::agent;
use crate::arguments::{Arguments, Command, parse};
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
            runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(run(arguments)))
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

/// Runs the agent as a task: waking the future that a runtime blocks on takes a system call each time.
async fn run(arguments: Arguments) -> Result<(), String> {
    let agent = tokio::spawn(agent::run(arguments, Registry::new()));
    agent.await.unwrap_or_else(|error| Err(error.to_string()))
}

/// Copies this program to a path, for an init container that brings it into another image.
fn install(path: &Path) -> Result<(), String> {
    let copy = std::env::current_exe().and_then(|program| std::fs::copy(program, path));
    copy.map(drop).map_err(|error| format!("{}: {error}", path.display()))
}
