//! The tier `deny`: licences, versions and sources of the dependencies are those that `deny.toml` allows.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context as _;

use crate::command::{cargo_beside, is_ci, root, run};

/// The version that CI installs.
const VERSION: &str = "0.20.2";

/// Checks without the network: advisories need a database that is downloaded, so they are left to `cargo deny check advisories`.
pub(crate) fn check() -> anyhow::Result<()> {
    let program = find().map_or_else(install, Ok)?;
    let mut command = Command::new(program);
    command.args(["--offline", "--all-features", "check", "bans", "licenses", "sources"]);
    command.current_dir(root());
    run(command)
}

/// Says what is missing. In CI nothing is: it is installed.
pub(crate) fn missing() -> Option<String> {
    let is_missing = find().is_none() && !is_ci();
    is_missing.then(|| format!("cargo-deny is missing: cargo install --locked cargo-deny@{VERSION}"))
}

/// The one that is on the path, or the one that was installed for this.
fn find() -> Option<PathBuf> {
    let works = |program: &PathBuf| {
        let status = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    [Some(PathBuf::from("cargo-deny")), folder().ok().map(|folder| folder.join("bin/cargo-deny"))]
        .into_iter()
        .flatten()
        .find(works)
}

/// Installs it once for each version, beside everything else that is kept between runs.
fn install() -> anyhow::Result<PathBuf> {
    let folder = folder()?;
    let mut command = cargo_beside(["install", "--locked", "--quiet"]);
    command.arg(format!("cargo-deny@{VERSION}")).arg("--root").arg(&folder);
    run(command)?;
    Ok(folder.join("bin/cargo-deny"))
}

fn folder() -> anyhow::Result<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join(format!("pillion/cargo-deny-{VERSION}")))
}
