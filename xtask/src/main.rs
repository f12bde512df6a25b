//! Developer commands: `cargo xtask test`, `bench`, `fuzz`, `kill`, `gen`, `screenshot`, `cluster`, `image`.
//!
//! Needs nothing but cargo; a tier that needs more says what is missing. This program uses no crate of the product, so it is compiled in
//! seconds. What needs the product is a program of the workspace, which this one runs.

mod agent;
mod alone;
mod bench;
mod build;
mod circles;
mod command;
mod deny;
mod fuzz;
mod generate;
mod house;
mod kill;
mod metadata;
mod real;
mod screenshot;
mod tiers;
mod wrap;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::{Args, Parser};

use command::cluster_program;

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
    /// A real Kubernetes on this machine, for tests: `cargo xtask cluster help` lists the commands.
    #[command(disable_help_flag = true)]
    Cluster(Arguments),
    /// Builds images as OCI tarballs, without Docker: `cargo xtask image --help` lists the options.
    #[command(disable_help_flag = true)]
    Image(Arguments),
    /// Runs the tests of the tier `real` on the cluster that the environment names.
    #[command(hide = true)]
    OnCluster(real::OnCluster),
}

/// Arguments that are passed on to `pillion-cluster`.
#[derive(Args)]
struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

impl Arguments {
    fn run(&self, mut command: std::process::Command) -> anyhow::Result<ExitCode> {
        let status = command.args(&self.arguments).status().context("cannot start cargo")?;
        let code = status.code().and_then(|code| u8::try_from(code).ok());
        Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
    }
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Test(test) => test.run(),
        Command::Bench(bench) => bench.run(),
        Command::Fuzz(fuzz) => fuzz.run(),
        Command::Kill(kill) => kill.run(),
        Command::Gen(generate) => generate.run(),
        Command::Screenshot(screenshot) => screenshot.run(),
        Command::Cluster(arguments) => arguments.run(cluster_program([])),
        Command::Image(arguments) => arguments.run(cluster_program(["image"])),
        Command::OnCluster(tests) => tests.run(),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
