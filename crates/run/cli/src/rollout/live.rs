//! Where the status of a rollout that is followed is written: a tree that is drawn again, or lines.

use std::io::{self, IsTerminal as _, Write as _};

use crossterm::QueueableCommand as _;
use crossterm::cursor::MoveUp;
use crossterm::terminal::{Clear, ClearType};
use jiff::Timestamp;

use super::status::Status;
use super::text;

/// Writes what changes.
pub(crate) enum Live {
    /// On a terminal.
    Tree {
        /// What stands there.
        drawn: Vec<String>,
    },
    /// Anywhere else.
    Lines {
        /// The last line.
        last: String,
    },
}

impl Live {
    /// A tree where stdout is a terminal that can move its cursor.
    pub(crate) fn new(is_plain: bool) -> Live {
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        if !is_plain && !is_dumb && io::stdout().is_terminal() && size().is_some() {
            Live::Tree { drawn: Vec::new() }
        } else {
            Live::Lines { last: String::new() }
        }
    }

    /// Writes the status if it looks different.
    pub(crate) fn show(&mut self, status: &Status, now: Timestamp) -> io::Result<()> {
        match self {
            Live::Lines { last } => {
                let line = text::line(status);
                if line != *last {
                    writeln!(io::stdout().lock(), "{line}")?;
                    *last = line;
                }
                Ok(())
            }
            Live::Tree { drawn } => {
                let (columns, rows) = size().unwrap_or((80, 24));
                let lines = text::tree(status, now, rows.saturating_sub(1));
                let lines: Vec<String> = lines.into_iter().map(|line| cut(line, columns)).collect();
                if lines != *drawn {
                    draw(&lines, drawn.len())?;
                    *drawn = lines;
                }
                Ok(())
            }
        }
    }
}

fn size() -> Option<(usize, usize)> {
    let (columns, rows) = terminal_size::terminal_size_of(io::stdout())?;
    Some((usize::from(columns.0), usize::from(rows.0)))
}

/// In place of as many lines as stand there.
fn draw(lines: &[String], before: usize) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if let Some(up) = u16::try_from(before).ok().filter(|up| *up > 0) {
        stdout.queue(MoveUp(up))?;
        stdout.queue(Clear(ClearType::FromCursorDown))?;
    }
    for line in lines {
        writeln!(stdout, "{line}")?;
    }
    stdout.flush()
}

/// A line that is too long would take two, and the next drawing would be one too low.
fn cut(line: String, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line;
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}
