//! What the program and its supervisors say to one another: JSON, one message to a line.

use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::abilities::Abilities;
use crate::mounts::Mount;
use crate::start_error::StartError;
use crate::usage::Usage;

/// What every supervisor of a pod knows.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PodConfig {
    pub(crate) abilities: Abilities,
    pub(crate) share_pids: bool,
    pub(crate) hostname: Option<String>,
    /// Who started the program.
    pub(crate) caller: User,
    /// An empty folder, for mounts in the making.
    pub(crate) staging: PathBuf,
}

impl PodConfig {
    /// Whether each container gets a process namespace of its own.
    pub(crate) fn own_pids(&self) -> bool {
        self.abilities.pid_namespaces && !self.share_pids
    }
}

/// A user and a group, as the container sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// The user's number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
}

/// A container, for its supervisor.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Container {
    pub(crate) command: CommandSpec,
    pub(crate) mounts: Vec<Mount>,
    pub(crate) memory_limit: Option<u64>,
}

/// What becomes a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct CommandSpec {
    pub(crate) command: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) working_directory: Option<PathBuf>,
    pub(crate) user: Option<User>,
    pub(crate) no_new_privileges: bool,
    pub(crate) stdin: Stdin,
    pub(crate) part: Part,
}

/// What a process reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stdin {
    /// Nothing.
    Null,
    /// A descriptor that comes with the message.
    Given,
    /// The same, a terminal, which becomes the process's own.
    Terminal,
}

/// What a process is in its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Part {
    /// Its first one, in a process namespace of its own.
    First,
    FirstAmongOthers,
    /// A later one: for a probe, a hook, or a user.
    Exec,
}

/// Asked of the supervisor of a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The first one.
    Start(Container),
    /// To the first process.
    Signal(i32),
    /// SIGKILL to everything.
    Kill,
    MemoryLimit(Option<u64>),
    /// Comes with a descriptor for all output.
    Exec {
        id: u64,
        command: Vec<String>,
    },
    /// The same for somebody who reads and writes its streams. Comes with a terminal, or with descriptors for input, output and errors.
    Open {
        id: u64,
        command: Vec<String>,
        terminal: bool,
    },
    KillExec {
        id: u64,
    },
    Usage {
        id: u64,
    },
    Listeners {
        id: u64,
    },
}

/// Reported by the supervisor of a container.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    Started,
    NotStarted(StartError),
    Answer { id: u64, answer: Answer },
    Ended(Ended),
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    ExecEnded(Result<i32, StartError>),
    Usage(Usage),
    Listeners(Vec<SocketAddr>),
}

/// How a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) signal: Option<i32>,
    pub(crate) oom_killed: bool,
}

impl Ended {
    /// What is known of a container whose supervisor is gone.
    pub(crate) fn killed() -> Ended {
        let signal = nix::sys::signal::Signal::SIGKILL as i32;
        Ended { code: 128 + signal, signal: Some(signal), oom_killed: false }
    }
}
