//! Where the status of a rollout that is followed is written: a tree that is drawn again, or lines.

use std::io::{self, IsTerminal as _, Write};

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
                    draw(&mut io::stdout().lock(), &lines, drawn.len())?;
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
fn draw(terminal: &mut impl Write, lines: &[String], before: usize) -> io::Result<()> {
    if let Some(up) = u16::try_from(before).ok().filter(|up| *up > 0) {
        terminal.queue(MoveUp(up))?;
        terminal.queue(Clear(ClearType::FromCursorDown))?;
    }
    for line in lines {
        writeln!(terminal, "{line}")?;
    }
    terminal.flush()
}

/// A line that is too long would take two, and the next drawing would be one too low.
fn cut(line: String, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line;
    }
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a terminal shows after it was written to: lines, the cursor moved up, and everything below it cleared.
    fn screen(written: &[u8]) -> Vec<String> {
        let mut text = std::str::from_utf8(written).unwrap();
        let mut lines = vec![String::new()];
        let mut row = 0;
        while let Some(character) = text.chars().next() {
            if let Some(rest) = text.strip_prefix("\u{1b}[") {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap();
                match (&rest[end..=end], &rest[..end]) {
                    ("A", rows) => row -= rows.parse::<usize>().unwrap(),
                    ("J", "") => {
                        lines.truncate(row);
                        lines.push(String::new());
                    }
                    other => panic!("{other:?} is not drawn with"),
                }
                text = &rest[end + 1..];
                continue;
            }
            if character == '\n' {
                row += 1;
                lines.resize(lines.len().max(row + 1), String::new());
            } else {
                lines[row].push(character);
            }
            text = &text[character.len_utf8()..];
        }
        assert_eq!(lines.pop().as_deref(), Some(""), "the next drawing begins in a new line");
        lines
    }

    #[test]
    fn a_tree_that_is_drawn_again_replaces_the_one_before() {
        let mut terminal = b"$ pillion rollout status mesh -w\n".to_vec();
        let trees: [&[&str]; 4] =
            [&["mesh", "web-0", "web-1"], &["mesh", "web-1"], &["mesh", "web-1", "a", "b"], &["mesh"]];
        let mut before = 0;
        for tree in trees {
            let lines: Vec<String> = tree.iter().map(|line| (*line).to_owned()).collect();
            draw(&mut terminal, &lines, before).unwrap();
            before = lines.len();
            let shown = screen(&terminal);
            assert_eq!((shown[0].as_str(), &shown[1..]), ("$ pillion rollout status mesh -w", &lines[..]));
        }
    }

    #[test]
    fn a_line_takes_no_more_columns_than_there_are() {
        assert_eq!(cut("0123456789".to_owned(), 10), "0123456789");
        assert_eq!(cut("01234567890".to_owned(), 10), "012345678…");
        assert_eq!(cut("▸▸▸▸".to_owned(), 3), "▸▸…");
    }
}
