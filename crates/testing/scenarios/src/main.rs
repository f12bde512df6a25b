//! The program that the pods of scenarios run. On the embedded cluster it supervises them as well.

use std::process::ExitCode;

use clap::Parser as _;
use pillion_scenarios::pod_program::Program;

fn main() -> anyhow::Result<ExitCode> {
    if let Some(code) = pillion_process::supervise_if_asked() {
        return Ok(code);
    }
    run().map(|()| ExitCode::SUCCESS)
}

#[tokio::main(flavor = "current_thread")]
async fn run() -> anyhow::Result<()> {
    Program::parse().run().await
}
