//! What is wrong with a text, where, and how it is shown.

use std::fmt;

use crate::node::Position;

/// Something that is wrong, without the text around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistake {
    /// Where.
    pub position: Position,
    /// What.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A key is given twice in a mapping.
    #[error("key {key:?} is already set in this mapping, on line {line}")]
    DuplicateKey {
        key: String,
        /// Where it is given first.
        line: u32,
    },
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

impl From<String> for Problem {
    fn from(message: String) -> Problem {
        Problem::Other(message)
    }
}

impl From<&str> for Problem {
    fn from(message: &str) -> Problem {
        Problem::Other(message.to_owned())
    }
}

impl Mistake {
    /// A mistake with a message.
    pub fn new(position: Position, problem: impl Into<Problem>) -> Mistake {
        Mistake { position, problem: problem.into() }
    }
}

/// Something that is wrong, with the line that it is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where.
    pub position: Position,
    /// What is wrong, and how to fix it where that is known.
    pub message: String,
    /// The whole line.
    pub excerpt: String,
}

/// Adds to mistakes the lines of the text that they are on.
pub fn show(text: &str, mistakes: Vec<Mistake>) -> Vec<Error> {
    // The text is split once, however many mistakes there are.
    let lines: Vec<&str> = if mistakes.is_empty() { Vec::new() } else { text.lines().collect() };
    let error = |Mistake { position, problem }: Mistake| {
        let line = lines.get(position.line.saturating_sub(1) as usize).copied().unwrap_or_default();
        let excerpt = line.trim_start_matches('\u{feff}').to_owned();
        let hint = if excerpt.contains("{{") { "; if this is a template, render it first" } else { "" };
        Error { position, message: format!("{problem}{hint}"), excerpt }
    };
    mistakes.into_iter().map(error).collect()
}

/// `line:column: message`, and below it the line with a caret.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Error { position, message, excerpt } = self;
        let (text, caret) = window(excerpt, position.column as usize);
        write!(f, "{position}: {message}\n  {text}\n  {caret}^")
    }
}

impl std::error::Error for Error {}

/// The part of a line around `column` that fits a terminal, and the blanks that bring a caret below the column.
fn window(line: &str, column: usize) -> (String, String) {
    const BEFORE: usize = 60;
    const WIDTH: usize = 100;
    let at = column.saturating_sub(1);
    let start = at.saturating_sub(BEFORE);
    let mut text = String::new();
    let mut blanks = String::new();
    if start > 0 {
        text.push('…');
        blanks.push(' ');
    }
    let mut characters = line.chars().skip(start);
    for (i, c) in characters.by_ref().take(WIDTH).enumerate() {
        // A tab stays a tab in both lines, so that they line up however wide it is shown.
        let shown = if c == '\t' {
            '\t'
        } else if c.is_control() {
            '\u{fffd}'
        } else {
            c
        };
        text.push(shown);
        if start + i < at {
            blanks.push(if c == '\t' { '\t' } else { ' ' });
        }
    }
    if characters.next().is_some() {
        text.push('…');
    }
    (text, blanks)
}
