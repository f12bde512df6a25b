//! `cargo xtask kill`: acknowledged writes against SIGKILL, many times.

use std::process::ExitCode;

use clap::Args;

use crate::command::{cargo, run};

/// Kills a writing store at random moments, and looks whether everything that it acknowledged is there.
#[derive(Args)]
pub(crate) struct Kill {
    /// How often.
    #[arg(long, default_value_t = 50)]
    repeat: u32,
    /// Repeats the choices of a run that printed this as `PILLION_KILL_START`.
    #[arg(long)]
    start: Option<u64>,
}

impl Kill {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut command = cargo(["test", "--package", "pillion-store", "--test", "kill", "--", "--nocapture"]);
        command.env("PILLION_KILL_ROUNDS", self.repeat.to_string());
        command.envs(self.start.map(|start| ("PILLION_KILL_START", start.to_string())));
        run(command)?;
        Ok(ExitCode::SUCCESS)
    }
}
