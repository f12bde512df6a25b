//! Why the program ends without having done its work.

use std::io;

/// Why the manager cannot run.
#[derive(Debug)]
pub enum Error {
    /// The flags are wrong: the message names the flag.
    Misuse(String),
    /// The manager has failed.
    Failed(String),
    /// The operating system refused something that every program needs.
    Io(io::Error),
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}

/// Returns the reason of an error of the operating system, without its number.
pub fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_owned(),
        None => text,
    }
}

/// Returns an error with its causes, as one line. Many errors include the text of their cause: it is not repeated.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = cause.source();
    }
    text
}
