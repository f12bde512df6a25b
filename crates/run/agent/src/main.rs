//! The program; see the library.

use std::process::ExitCode;

use pillion_agent::{Command, Registry, parse};

fn main() -> ExitCode {
    let command = match parse(std::env::args().skip(1)) {
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
        Command::Install(path) => pillion_agent::install(&path),
        Command::Run(arguments) => {
            // One thread: the agent waits nearly always.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime
                .map_err(|error| error.to_string())
                .and_then(|runtime| runtime.block_on(pillion_agent::run(arguments, Registry::new())))
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
