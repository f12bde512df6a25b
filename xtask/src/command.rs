//! Starting cargo from the root of the workspace.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // As cargo says it now: a target folder that several clones share may hold a program that another of them compiled.
    let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&package).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// `cargo` at the root, with the toolchain that runs this program.
pub(crate) fn cargo<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command and shows its output.
pub(crate) fn run(mut command: Command) -> anyhow::Result<()> {
    let shown = show(&command);
    eprintln!("\n$ {shown}");
    let status = command.status().with_context(|| format!("cannot start {shown}"))?;
    if !status.success() {
        bail!("{shown}: {status}");
    }
    Ok(())
}

/// Runs a command and gives its standard output.
pub(crate) fn output(mut command: Command) -> anyhow::Result<String> {
    let shown = show(&command);
    let output = command.output().with_context(|| format!("cannot start {shown}"))?;
    if !output.status.success() {
        bail!("{shown}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    std::iter::once(program).chain(arguments).collect::<Vec<_>>().join(" ")
}
