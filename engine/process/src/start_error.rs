//! Why a process does not start, in the words of the Open Container Initiative's runtime and of Go's `exec.LookPath`.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Why a process does not start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum StartError {
    /// No folder of `PATH` has it.
    #[error("exec: {0:?}: executable file not found in $PATH")]
    NotFound(String),
    /// There is something, but it cannot be run.
    #[error("exec: {command:?}: {problem}")]
    NotExecutable {
        command: String,
        /// What is wrong with it.
        problem: String,
    },
    /// There is no command.
    #[error("no command is given")]
    NoCommand,
    /// The working directory cannot be entered.
    #[error("chdir to cwd ({path:?}) set in config.json failed: {problem}")]
    WorkingDirectory {
        /// The working directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A volume cannot be mounted.
    #[error("error mounting {source_path:?} to rootfs at {target:?}: {problem}")]
    Mount {
        /// What is mounted.
        source_path: PathBuf,
        /// Where.
        target: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// This machine lets nothing be mounted.
    #[error(
        "cannot mount {target:?}: this machine does not allow mounts in user namespaces; \
         remove the volume mount, or allow them (sysctl user.max_user_namespaces, \
         kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns)"
    )]
    MountsNotAllowed {
        /// Where something was to be mounted.
        target: PathBuf,
    },
    /// It cannot run as this user.
    #[error("cannot run as user {uid} and group {gid}: {problem}")]
    User {
        /// The user's number.
        uid: u32,
        /// The group's number.
        gid: u32,
        /// What is wrong.
        problem: String,
    },
    /// The container has ended.
    #[error("cannot exec in a stopped container")]
    Ended,
    /// Something else failed.
    #[error("{0}")]
    Other(String),
}

impl StartError {
    /// A failed system call.
    pub(crate) fn other(what: &str, error: impl std::fmt::Display) -> StartError {
        StartError::Other(format!("{what}: {error}"))
    }
}

/// The words of the C library for an error of the system, without the number that Rust adds.
pub(crate) fn words(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(code) => {
            let words = nix::errno::Errno::from_raw(code).desc();
            words[..1].to_lowercase() + &words[1..]
        }
        None => error.to_string(),
    }
}
