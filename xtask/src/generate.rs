//! Files that are written by the code: CRDs, manifests, the Helm chart, schemas that programs carry, the reference of the command line, and the
//! table of Kubernetes' types.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, ensure};
use clap::Args;

use crate::command::{all, cargo, output, root, run};

/// Writes the generated files.
#[derive(Args)]
pub(crate) struct Gen {
    /// Only say whether they are up to date.
    #[arg(long)]
    check: bool,
}

impl Gen {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.check {
            check()?;
            return Ok(ExitCode::SUCCESS);
        }
        for (path, text) in files()?.into_iter().chain(schemas()?) {
            let folder = path.parent().context("a generated file is in a folder")?;
            std::fs::create_dir_all(folder)?;
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("wrote {}", path.strip_prefix(root()).unwrap_or(&path).display());
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Fails if a file is not what the code would write, or if the tables of fields differ from the types.
pub(crate) fn check() -> anyhow::Result<()> {
    let tables =
        ["test", "--package", "pillion-api", "--features", "schemas", "--lib", "--quiet", "--", "schema_tests"];
    all([files().and_then(compare), run(cargo(tables))])
}

/// As [`check`], for what only Go can make.
pub(crate) fn check_schemas() -> anyhow::Result<()> {
    compare(schemas()?)
}

fn compare(files: impl IntoIterator<Item = (PathBuf, String)>) -> anyhow::Result<()> {
    let stale: Vec<String> = files
        .into_iter()
        .filter(|(path, text)| std::fs::read_to_string(path).ok().as_ref() != Some(text))
        .map(|(path, _)| path.strip_prefix(root()).unwrap_or(&path).display().to_string())
        .collect();
    ensure!(stale.is_empty(), "out of date: {}; run `cargo xtask gen`", stale.join(", "));
    Ok(())
}

/// The files that programs of the workspace print.
fn files() -> anyhow::Result<Vec<(PathBuf, String)>> {
    let mut files = Vec::new();
    for program in ["pillion-generate", "pillion-schemas"] {
        let printed = output(cargo(["run", "--quiet", "--package", program]))?;
        let printed: BTreeMap<String, String> =
            serde_json::from_str(&printed).with_context(|| format!("{program} has not printed its files"))?;
        files.extend(printed.into_iter().map(|(path, text)| (root().join(path), text)));
    }
    Ok(files)
}

/// How Go holds and writes Kubernetes' types. `None` where there is no Go.
fn schemas() -> anyhow::Result<Option<(PathBuf, String)>> {
    if !has_go() {
        return Ok(None);
    }
    let mut command = Command::new("go");
    command.args(["run", "./schemas"]).current_dir(root().join("crates/testing/cluster/go/kubernetes"));
    Ok(Some((root().join("engine/patch/src/schema/builtin.json"), output(command)?)))
}

/// Where ready-made binaries are used there need be no Go.
pub(crate) fn has_go() -> bool {
    Command::new("go").arg("version").output().is_ok_and(|output| output.status.success())
}
