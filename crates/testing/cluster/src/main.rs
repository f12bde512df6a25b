//! `pillion-cluster`: what `cargo xtask cluster` and `cargo xtask image` do, as a program of its own for tests.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use pillion_cluster::cli::{self, ClusterCommand, ImageCommand};

/// A real Kubernetes on this machine, for tests.
#[derive(Parser)]
#[command(name = "pillion-cluster")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(flatten)]
    Cluster(ClusterCommand),
    Image(ImageCommand),
}

fn main() -> ExitCode {
    if let Some(code) = pillion_cluster::supervise_if_asked() {
        return code;
    }
    let done = match Arguments::parse().command {
        Command::Cluster(command) => cli::run(command),
        Command::Image(command) => cli::image(&command),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cluster: {error:#}");
        ExitCode::FAILURE
    })
}
