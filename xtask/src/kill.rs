//! `cargo xtask kill`: everything that was acknowledged against SIGKILL, many times.

use std::process::ExitCode;

use clap::Args;

use crate::command::{all, run, tests};

/// Kills a writing store and a whole `pillion up` at random moments, and checks that everything that was acknowledged is there and that the
/// next start is healthy.
#[derive(Args)]
pub(crate) struct Kill {
    /// How often each of them.
    #[arg(long, default_value_t = 50)]
    repeat: u32,
    /// Repeats the choices of a run that printed this as `PILLION_KILL_SEED`.
    #[arg(long)]
    seed: Option<u64>,
}

impl Kill {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        all([&["--test", "kill"][..], &["--test", "it", "kill::"]].map(|arguments| {
            let mut command = tests([]);
            command.args(arguments).args(["--", "--nocapture"]);
            command.env("PILLION_KILL_ROUNDS", self.repeat.to_string());
            command.envs(self.seed.map(|seed| ("PILLION_KILL_SEED", seed.to_string())));
            run(command)
        }))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// As often as fits into a test run.
pub(crate) fn check() -> anyhow::Result<()> {
    Kill { repeat: 40, seed: None }.run().map(drop)
}
