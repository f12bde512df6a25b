//! The command line of `pillion-manager`.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use pillion_manager::NAMESPACE;

use crate::args::{ClusterArgs, ManagerArgs, ToClusterArgs};
use crate::{Error, chain, connect, run};

/// The webhooks and controllers of Pillion
///
/// This program is in the image that `pillion install` uses. `pillion manager` does the same.
#[derive(Debug, Parser)]
#[command(name = "pillion-manager", version, args_conflicts_with_subcommands = true)]
pub struct Program {
    /// What to do instead of running the manager.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// How the manager runs.
    #[command(flatten)]
    pub manager: ManagerArgs,
}

/// What else the image does.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Stop the manager before a Helm release is deleted, so that its webhooks do not stay behind
    PrepareUninstall(PrepareArgs),
}

/// `pillion-manager prepare-uninstall`
#[derive(Debug, Args)]
pub struct PrepareArgs {
    /// The namespace of the manager
    #[arg(short, long, value_name = "NAME", default_value = NAMESPACE)]
    pub namespace: String,
    /// How long to wait for the manager to end, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    pub timeout: u64,
    /// The cluster.
    #[command(flatten)]
    pub cluster: ToClusterArgs,
}

impl Program {
    /// Runs the program with these arguments, the first of which is its name. Returns the exit status.
    pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
        // Manifests of version 0.1.0 begin the arguments with the command of `pillion`.
        let is_command_of_pillion = |(index, argument): &(usize, OsString)| *index == 1 && argument == "manager";
        let arguments = arguments.into_iter().enumerate().filter(|it| !is_command_of_pillion(it)).map(|(_, it)| it);
        let program = match Program::try_parse_from(arguments) {
            Ok(program) => program,
            Err(error) => {
                // Help goes to stdout, which a reader may have closed.
                let _ = error.print();
                return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
            }
        };
        let outcome = match &program.command {
            None => run(&program.manager),
            Some(Command::PrepareUninstall(args)) => prepare(args),
        };
        let (message, status) = match outcome {
            Ok(()) => return ExitCode::SUCCESS,
            Err(Error::Misuse(message)) => (message, 2),
            Err(Error::Failed(message)) => (message, 1),
            Err(Error::Io(error)) => (error.to_string(), 1),
        };
        eprintln!("error: {message}");
        ExitCode::from(status)
    }
}

fn prepare(args: &PrepareArgs) -> Result<(), Error> {
    connect::install_crypto();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let config = connect::config(&ClusterArgs::from(&args.cluster)).await?;
        let client = kube::Client::try_from(config).map_err(|error| Error::Misuse(chain(&error)))?;
        let timeout = Duration::from_secs(args.timeout);
        let prepared = pillion_install::prepare(&client, &args.namespace, timeout, &|line: &str| eprintln!("{line}"));
        prepared.await.map_err(|error| Error::Failed(chain(&error)))
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Program::command().debug_assert();
    }

    #[test]
    fn a_bound_of_recommendations_is_not_negative() {
        for flag in [
            "max-allowed-cpu-boost",
            "container-recommendation-max-allowed-cpu",
            "container-recommendation-max-allowed-memory",
        ] {
            let parse = |value: &str| {
                let arguments = ["pillion-manager", &format!("--{flag}"), value];
                Program::try_parse_from(arguments).map_err(|error| error.to_string())
            };
            assert!(parse("2").is_ok(), "{flag}");
            assert!(
                parse("-1").is_err_and(|error| error.contains(flag) && error.contains("must not be negative")),
                "{flag}"
            );
        }
    }
}
