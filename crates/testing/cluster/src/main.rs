//! `pillion-cluster`: the program behind `cargo xtask cluster` and `cargo xtask image`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use pillion_cluster::cli::{self, ClusterCommand, ImageCommand};
use pillion_cluster::{Options, prerequisites, static_agent, static_wrapper};

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
    /// Fail if a real cluster cannot run here, and say what is missing
    Check,
    /// Run a program in the files of an image, and see whether it finds the address of a name
    #[command(hide = true)]
    FindName {
        /// The files
        root: PathBuf,
        /// The program, as a path in them
        program: String,
    },
    /// Build a program as it is put into images, and print its path
    Static {
        /// Which program
        program: StaticProgram,
    },
}

/// A program that images have, linked statically.
#[derive(Clone, ValueEnum)]
enum StaticProgram {
    PillionAgent,
    PillionWrap,
}

fn main() -> ExitCode {
    if let Some(code) = pillion_cluster::supervise_if_asked() {
        return code;
    }
    let done = match Arguments::parse().command {
        Command::Cluster(command) => cli::run(command),
        Command::Image(command) => cli::image(&command),
        Command::Check => check(),
        Command::FindName { root, program } => pillion_cluster::find_name(&root, &program).map(|()| ExitCode::SUCCESS),
        Command::Static { program } => print_static(&program),
    };
    done.unwrap_or_else(|error| {
        eprintln!("cluster: {error:#}");
        ExitCode::FAILURE
    })
}

fn check() -> anyhow::Result<ExitCode> {
    prerequisites(&Options::default())?;
    Ok(ExitCode::SUCCESS)
}

fn print_static(program: &StaticProgram) -> anyhow::Result<ExitCode> {
    let path = match program {
        StaticProgram::PillionAgent => static_agent()?,
        StaticProgram::PillionWrap => static_wrapper()?,
    };
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
