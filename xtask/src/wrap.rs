//! `cargo xtask bench wrap`: what `pillion-wrap` costs every container that it runs.

use std::process::{Child, Command, Stdio};

use anyhow::Context as _;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};

/// The most that it may take on disk, and of memory that is its own.
const LARGEST_FILE: u64 = 1024;
const MOST_MEMORY: u64 = 300;

/// Ends the program that is measured, whatever happens.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds it as it is put into images, and looks at it while it runs a command.
pub(crate) fn bench() -> anyhow::Result<()> {
    let program = pillion_cluster::static_wrapper()?;
    let size = std::fs::metadata(&program)?.len().div_ceil(1024);
    let state = std::env::temp_dir().join(format!("pillion-wrap-{}", std::process::id()));
    std::fs::create_dir_all(&state)?;
    let mut command = Command::new(&program);
    command.args(["work", "--name=main", &format!("--state={}", state.display()), "--"]);
    command.args(["/bin/sh", "-c", "echo; exec sleep 60"]);
    let mut running = Running(command.stdout(Stdio::piped()).spawn().context("cannot run pillion-wrap")?);
    // When the command has written, the wrapper waits for its end.
    let mut written = [0];
    let output = running.0.stdout.as_mut().context("it has an output")?;
    std::io::Read::read_exact(output, &mut written)?;
    let memory = anonymous(running.0.id())?;
    drop(running);
    std::fs::remove_dir_all(&state)?;
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["pillion-wrap", "KiB", "goal"]);
    table.add_row(["on disk".to_owned(), size.to_string(), format!("below {LARGEST_FILE}")]);
    table.add_row(["anonymous memory".to_owned(), memory.to_string(), format!("below {MOST_MEMORY}")]);
    println!("{table}");
    Ok(())
}

/// The memory of a process that no other shares and no file backs, in KiB.
fn anonymous(id: u32) -> anyhow::Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line =
        rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("Linux says what is anonymous")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
