//! The program that the pods of scenarios run.

use clap::Parser as _;
use pillion_scenarios::pod_program::Program;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    Program::parse().run().await
}
