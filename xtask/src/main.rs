//! Developer commands: `cargo xtask test`, `bench`, `fuzz`, `kill`, `gen`, `screenshot`, `cluster`, `image`.
//!
//! Needs nothing but cargo; what a tier needs besides, the tier says.

mod agent;
mod alone;
mod bench;
mod build;
mod chart;
mod circles;
mod command;
mod fuzz;
mod generate;
mod house;
mod kill;
mod real;
mod screenshot;
mod tiers;
mod wrap;

use std::process::ExitCode;

use clap::Parser;
use pillion_cluster::cli::{self, ClusterCommand, ImageCommand};

/// Developer commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Command {
    /// Runs every test that this machine can run, and ends in a table of tiers.
    Test(tiers::Test),
    /// Runs the benchmarks, and prints the ratios that docs/benchmarks.md quotes.
    Bench(bench::Bench),
    /// Fuzzes the parsers (nightly compiler and cargo-fuzz).
    Fuzz(fuzz::Fuzz),
    /// Kills a writing store and a whole `pillion up` again and again, and checks what they acknowledged.
    Kill(kill::Kill),
    /// Writes the generated files: CRDs, manifests, the Helm chart, the reference of the command line.
    Gen(generate::Gen),
    /// Draws the picture of `pillion up` that is in the README.
    Screenshot(screenshot::Screenshot),
    /// A real Kubernetes on this machine, for tests.
    #[command(subcommand)]
    Cluster(ClusterCommand),
    Image(ImageCommand),
}

fn main() -> ExitCode {
    // A cluster outlives the command that brought it up: its supervisor is this program again.
    if let Some(code) = pillion_cluster::supervise_if_asked() {
        return code;
    }
    let outcome = match Command::parse() {
        Command::Test(test) => test.run(),
        Command::Bench(bench) => bench.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Kill(kill) => kill.run(),
        Command::Gen(generate) => generate.run(),
        Command::Screenshot(screenshot) => screenshot.run(),
        Command::Cluster(command) => cli::run(command),
        Command::Image(command) => cli::image(&command),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
