//! The programs that users run.

use std::ffi::{OsStr, OsString};

use anyhow::{Context as _, ensure};
use tokio::process::Command;

/// Runs `pillion`, and gives what it wrote to stderr.
pub(in crate::scenario) async fn pillion(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(run(&program()?, arguments).await?.1)
}

pub(in crate::scenario) async fn pillion_prints(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(run(&program()?, arguments).await?.0)
}

fn program() -> anyhow::Result<OsString> {
    std::env::var_os("PILLION").context("PILLION names the program; `cargo xtask test real` sets it")
}

pub(in crate::scenario) async fn kubectl(arguments: &[&str]) -> anyhow::Result<String> {
    Ok(run(OsStr::new("kubectl"), arguments).await?.0)
}

pub(in crate::scenario) async fn helm(arguments: &[&str]) -> anyhow::Result<String> {
    let program = tokio::task::spawn_blocking(pillion_cluster::helm).await??;
    Ok(run(program.as_os_str(), arguments).await?.0)
}

async fn run(program: &OsStr, arguments: &[&str]) -> anyhow::Result<(String, String)> {
    let output = Command::new(program).args(arguments).output().await;
    let output = output.with_context(|| format!("cannot run {}", program.display()))?;
    let (printed, said) =
        (String::from_utf8_lossy(&output.stdout).into_owned(), String::from_utf8_lossy(&output.stderr).into_owned());
    ensure!(
        output.status.success(),
        "{} {}: {}\n{printed}{said}",
        program.display(),
        arguments.join(" "),
        output.status
    );
    Ok((printed, said))
}
