//! Containers as local processes: namespaces, mounts, signals, logs and what they use. For users without privileges.
//!
//! ```no_run
//! use pillion_process::{Host, PodSpec, ProcessSpec, supervise_if_asked};
//!
//! # fn main() -> std::process::ExitCode {
//! // The program starts itself again as a supervisor.
//! if let Some(code) = supervise_if_asked() {
//!     return code;
//! }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn run() -> Result<i32, Box<dyn std::error::Error>> {
//! let host = Host::new("pods".into())?;
//! let pod = host.pod(PodSpec { id: "web".to_owned(), ..PodSpec::default() })?;
//! let command = vec!["/bin/echo".to_owned(), "hello".to_owned()];
//! let process = pod.start(ProcessSpec { name: "main".to_owned(), command, ..ProcessSpec::default() }).await?;
//! let exit = process.wait().await;
//! # Ok(exit.code)
//! # }
//! # run().unwrap();
//! # std::process::ExitCode::SUCCESS
//! # }
//! ```
//!
//! Every name that reaches a path is checked:
//!
//! ```
//! use pillion_process::check_name;
//!
//! assert!(check_name("web-5d9c7").is_ok());
//! assert!(check_name("../web").is_err());
//! ```
//!
//! ```text
//!  the program (Host, Pod, Process) ◀─────────────── output ────────────────────┐
//!   │ a socket, one to a pod        ╲ a socket, one to a container               │
//!   ▼                                ▼                                           │
//!  starter ─▶ guard ─▶ pod, process 1 ─▶ container, its supervisor ─▶ command ─▶ becomes the container's process 1
//!              │         │                 │                       └▶ command ─▶ a probe or a hook, in the same namespaces
//!              │         │                 └ its own mounts; children in a process namespace of their own
//!              │         └ process namespace and /proc of the pod
//!              └ user, mount and host name namespaces of the pod
//! ```
//!
//! # Invariants
//! - **Never an orphan.** When the program ends in whatever way, SIGKILL included, the socket of each pod closes, its
//!   process 1 ends, and the kernel ends everything in its namespace. Where the machine allows no namespaces, supervisors
//!   are the parents of orphans, and end all that is below them.
//! - A container ends with its first process; whatever else is in it is killed before its end is reported, and all it has
//!   written is in its log by then.
//! - The supervisors have one thread. The starter, of which there is one, is this program started again; guards, pods and containers are
//!   forked from it and share its memory, so that a pod costs little more than its own processes.
//! - Volumes outlive the program until their pod is removed. Nothing of an earlier run is alive when a [`Host`] is there.
//! - A command gets the environment that is given, and no descriptor but its input, which is empty unless somebody holds
//!   its streams or the container is to read, and its two outputs.

mod abilities;
mod attach;
mod channel;
mod folder;
mod host;
mod listeners;
mod log;
mod lookup;
mod message;
mod mounts;
mod namespaces;
mod pod;
mod process;
mod role;
mod start_error;
mod starter;
mod terminal;
mod tree;
mod usage;
pub mod volume;

pub use abilities::Abilities;
pub use attach::{AttachedInput, AttachedOutput, Attachment, Input, Source};
pub use folder::check_name;
pub use host::Host;
pub use log::LogOptions;
pub use message::User;
pub use mounts::Mount;
pub use nix::sys::signal::Signal;
pub use pod::{Pod, PodSpec, ProcessSpec};
pub use process::{ExecError, ExecOutput, Exit, Process, Session, SessionExit, SessionStreams, read_now};
pub use role::supervise_if_asked;
pub use start_error::StartError;
pub use terminal::Terminal;
pub use usage::{MachineUsage, Usage};
