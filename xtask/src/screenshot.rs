//! `cargo xtask screenshot`: the live view of `pillion up`, as a terminal really shows it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;
use std::num::NonZeroU16;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use vt100::{Cell, Color, Parser, Screen};

use crate::command::{cargo, root, run};

const ROWS: u16 = 22;
const COLUMNS: u16 = 122;
/// The size of a letter in the picture.
const WIDTH: u16 = 8;
const HEIGHT: u16 = 17;
/// Longer than the quickstart takes.
const PATIENCE: Duration = Duration::from_mins(2);

/// Draws `pillion up examples/quickstart` while its Job is half done.
#[derive(Args)]
pub(crate) struct Screenshot {
    /// Where to.
    #[arg(default_value = "docs/images/up.svg")]
    path: PathBuf,
}

impl Screenshot {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        run(cargo(["build", "--release", "--quiet"]))?;
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
        let terminal = openpty(Some(&size), None)?;
        let mut child = start(terminal.slave)?;
        let picture = watch(terminal.master);
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
        child.wait()?;
        let path = root().join(self.path);
        std::fs::write(&path, picture?)?;
        println!("{}", path.display());
        Ok(ExitCode::SUCCESS)
    }
}

fn start(terminal: OwnedFd) -> anyhow::Result<Child> {
    let mut command: Command = cargo(["run", "--release", "--quiet", "--", "up", "examples/quickstart"]);
    command.stdin(Stdio::from(terminal.try_clone()?)).stderr(Stdio::from(terminal.try_clone()?));
    command.stdout(Stdio::from(terminal)).spawn().context("cannot start pillion up")
}

/// Reads what is written to the terminal until the moment that is worth a picture.
fn watch(terminal: OwnedFd) -> anyhow::Result<String> {
    let written = read(terminal);
    let size = NonZeroU16::new(ROWS).zip(NonZeroU16::new(COLUMNS)).context("a terminal has a size")?;
    let mut parser = Parser::new(size.0, size.1, 0);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let patience = deadline.saturating_duration_since(Instant::now());
        let Ok(bytes) = written.recv_timeout(patience) else {
            bail!("the view did not show what was waited for:\n{}", parser.screen().contents());
        };
        parser.process(&bytes);
        let text = parser.screen().contents();
        // One pod of the Job is done, its proxy with it, and the other one works.
        if text.contains("Running 1/2")
            && text.contains("✔ main")
            && text.contains("● main")
            && text.contains("✔ proxy")
        {
            return Ok(svg(parser.screen()));
        }
    }
}

/// What is written to the terminal, read on a thread: a read that waits cannot be given up.
fn read(terminal: OwnedFd) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut terminal = File::from(terminal);
        let mut buffer = [0; 8192];
        while let Ok(length @ 1..) = terminal.read(&mut buffer) {
            if sender.send(buffer.iter().copied().take(length).collect()).is_err() {
                return;
            }
        }
    });
    receiver
}

fn svg(screen: &Screen) -> String {
    let (width, height) = (COLUMNS * WIDTH + 2 * WIDTH, ROWS * HEIGHT + HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" font-family=\"ui-monospace, Menlo, \
         'DejaVu Sans Mono', monospace\" font-size=\"13\">\n<rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#1b1f24\"/>\n"
    );
    for row in 0..ROWS {
        let y = (row + 1) * HEIGHT;
        let mut column = 0;
        while column < COLUMNS {
            let Some(first) = screen.cell(row, column).filter(|cell| cell.has_contents()) else {
                column += 1;
                continue;
            };
            let begin = column;
            let mut text = String::new();
            while let Some(cell) = screen.cell(row, column).filter(|cell| style(cell) == style(first)) {
                text.push_str(if cell.has_contents() { cell.contents() } else { " " });
                column += 1;
            }
            let (x, text) = (WIDTH + begin * WIDTH, text.trim_end());
            if text.is_empty() {
                continue;
            }
            let length = u16::try_from(text.chars().count()).unwrap_or_default() * WIDTH;
            // A string never fails to be written to.
            let _ = writeln!(
                svg,
                "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\" xml:space=\"preserve\" {}>{}</text>",
                style(first),
                escaped(text)
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

/// How a cell looks, as attributes.
fn style(cell: &Cell) -> String {
    let colour = match cell.fgcolor() {
        Color::Idx(1) => "#ff7b72",
        Color::Idx(2) => "#56d364",
        Color::Idx(3) => "#e3b341",
        Color::Idx(6) => "#76e3ea",
        Color::Idx(8) => "#8b949e",
        _ => "#e6edf3",
    };
    let weight = if cell.bold() { " font-weight=\"bold\"" } else { "" };
    format!("fill=\"{colour}\"{weight}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
