//! `cargo xtask bench wrap`: what `pillion-wrap` costs every container that it runs.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};

use crate::command::static_program;

/// The most that it may take on disk, and of memory that is its own.
const LARGEST_FILE: u64 = 1024;
const MOST_MEMORY: u64 = 300;

/// Ends the program that is measured, whatever happens.
struct Running(Child);

impl Running {
    /// Starts the wrapper, and returns when its command has written something: the wrapper then waits for its end.
    fn start(program: &Path, state: &Path, verb: &str, flags: &[&str]) -> anyhow::Result<Running> {
        let mut command = Command::new(program);
        command.arg(verb).arg(format!("--state={}", state.display())).args(flags);
        command.args(["--", "/bin/sh", "-c", "echo; exec sleep 60"]);
        let mut running = Running(command.stdout(Stdio::piped()).spawn().context("cannot run pillion-wrap")?);
        let output = running.0.stdout.as_mut().context("it has an output")?;
        std::io::Read::read_exact(output, &mut [0])?;
        Ok(running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds it as it is put into images, and looks at it while it runs commands. Fails when a goal is missed.
pub(crate) fn bench() -> anyhow::Result<()> {
    let program = static_program("pillion-wrap")?;
    let size = std::fs::metadata(&program)?.len().div_ceil(1024);
    let state = std::env::temp_dir().join(format!("pillion-wrap-{}", std::process::id()));
    std::fs::create_dir_all(&state)?;
    let work = Running::start(&program, &state, "work", &["--name=main"])?;
    let of_work = ["--name=side", "--work=main", "--policy=Never", "--grace=30"];
    let sidecar = Running::start(&program, &state, "sidecar", &of_work)?;
    let rows = [
        ("on disk", size, LARGEST_FILE),
        ("anonymous memory, work", anonymous(work.0.id())?, MOST_MEMORY),
        ("anonymous memory, sidecar", anonymous(sidecar.0.id())?, MOST_MEMORY),
    ];
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["pillion-wrap", "KiB", "goal"]);
    for (what, kib, goal) in rows {
        table.add_row([what.to_owned(), kib.to_string(), format!("below {goal}")]);
    }
    println!("{table}");
    let libraries = libraries(sidecar.0.id())?;
    drop((work, sidecar));
    std::fs::remove_dir_all(&state)?;
    ensure!(libraries.is_empty(), "it is not linked statically: it has loaded {}", libraries.join(", "));
    let missed: Vec<&str> = rows.iter().filter(|(_, kib, goal)| kib >= goal).map(|(what, ..)| *what).collect();
    ensure!(missed.is_empty(), "missed: {}", missed.join(", "));
    Ok(())
}

/// The files with code that a process has loaded, besides its own program.
fn libraries(id: u32) -> anyhow::Result<Vec<String>> {
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps"))?;
    let files = maps.lines().filter(|line| line.contains(" r-xp ")).filter_map(|line| line.split_whitespace().nth(5));
    Ok(files.filter(|file| file.starts_with('/') && !file.ends_with("/pillion-wrap")).map(str::to_owned).collect())
}

/// The memory of a process that no other shares and no file backs, in KiB.
fn anonymous(id: u32) -> anyhow::Result<u64> {
    let rollup = std::fs::read_to_string(format!("/proc/{id}/smaps_rollup"))?;
    let line =
        rollup.lines().find_map(|line| line.strip_prefix("Anonymous:")).context("Linux says what is anonymous")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}
