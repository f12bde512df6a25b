//! Asking before something is done that cannot be taken back.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use crate::Failure;

/// Asks on the terminal. Where there is none, `hint` says how to confirm it.
pub(crate) fn confirm(question: &str, hint: &str) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::misuse(hint));
    }
    let _ = write!(anstream::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") { Ok(()) } else { Err(Failure::no("nothing was changed")) }
}
