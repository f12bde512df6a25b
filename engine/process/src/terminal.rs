//! The terminal of a process.

use std::io;
use std::os::fd::OwnedFd;

use rustix::termios::{Winsize, tcsetwinsize};

/// The terminal of a command or a container.
#[derive(Debug)]
pub struct Terminal(OwnedFd);

impl Terminal {
    pub(crate) fn new(near: OwnedFd) -> Terminal {
        Terminal(near)
    }

    /// Sets how large the terminal is.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(tcsetwinsize(&self.0, size)?)
    }
}
