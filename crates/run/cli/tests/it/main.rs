//! The program from outside: what it prints, where, and how it ends.

// Helpers of tests are tests as well.
#![allow(clippy::unwrap_used, clippy::panic)]

mod agent;
mod cluster;
mod examples;
mod expr;
mod inject;
mod kill;
mod memory;
mod preview;
mod program;
mod rightsize;
mod rollout;
mod up;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A folder for one test, in which the program runs.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    /// A folder with these files in it.
    fn with(files: &[(&str, &str)]) -> Folder {
        let folder = Folder::new();
        for (name, text) in files {
            let path = folder.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    /// Runs the program here and shows all that can be seen of it from outside.
    fn run(&self, arguments: &[&str]) -> String {
        self.run_with_input(arguments, "")
    }

    fn run_with_input(&self, arguments: &[&str], input: &str) -> String {
        let mut child = Command::new(env!("CARGO_BIN_EXE_pillion"))
            .args(arguments)
            .current_dir(self.0.path())
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let mut shown = format!("exit {}\n", output.status.code().unwrap());
        for (name, bytes) in [("stdout", output.stdout), ("stderr", output.stderr)] {
            if !bytes.is_empty() {
                write!(shown, "--- {name}\n{}", String::from_utf8(bytes).unwrap()).unwrap();
            }
        }
        shown
    }
}

/// Runs the program where there are no files.
fn pillion(arguments: &[&str]) -> String {
    Folder::new().run(arguments)
}
