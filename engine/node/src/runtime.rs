//! What runs containers for a node: processes of this machine, or nothing but a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::BoxStream;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use pillion_lifecycle::Marked;
use pillion_process::{Attachment, Input, Session};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// Runs containers. The node decides when; a runtime only carries it out and reports what happened.
///
/// Nothing survives a runtime: when the program ends, all its containers have ended.
pub trait Runtime: Send + Sync + 'static {
    /// Whether there is nothing real behind the pods: network probes and hooks succeed without a connection, and are not repeated.
    const SIMULATED: bool = false;

    /// What the Node object says of it, such as `pillion://0.1.0`.
    fn version(&self) -> String;

    /// Whether a container of this image that names no user runs as root, as an image without a `USER` does elsewhere.
    fn runs_as_root(&self, _image: &str) -> bool {
        false
    }

    /// Why an image cannot be pulled; `None` if it is there.
    fn pull_error(&self, _image: &str) -> Option<String> {
        None
    }

    /// Where the end of every container goes. Called once, before anything else.
    fn report_exits(&self, exits: mpsc::UnboundedSender<Exit>);

    /// Makes what the containers of a pod share: its address, namespaces and volumes. The answer is the pod's address.
    fn prepare(&self, sandbox: Sandbox) -> impl Future<Output = Result<IpAddr, Refusal>> + Send;

    /// Replaces the files of a volume, all at once.
    fn update_volume(&self, pod_uid: &str, volume: Volume) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// Starts one attempt of a container. It runs when this returns; its end is reported, however soon it comes.
    fn start(&self, container: ContainerSpec) -> impl Future<Output = Result<Started, Refusal>> + Send;

    /// Sends a signal to a container. One that has ended needs none: that is no error.
    fn signal(&self, container: &ContainerId, signal: Signal) -> impl Future<Output = ()> + Send;

    /// Runs a command inside a running container, for probes and hooks.
    fn exec(
        &self,
        container: &ContainerId,
        command: &[String],
        timeout: Option<Duration>,
    ) -> impl Future<Output = Result<ExecOutput, ExecError>> + Send;

    /// Runs a command inside a running container whose streams the caller holds, for `kubectl exec`.
    fn open(
        &self,
        _container: &ContainerId,
        _command: &[String],
        _terminal: bool,
    ) -> impl Future<Output = Result<Session, Refusal>> + Send {
        std::future::ready(Err(nothing_real()))
    }

    /// The streams of a running container itself, for `kubectl attach`.
    fn attach(&self, _container: &ContainerId) -> impl Future<Output = Result<Attachment, Refusal>> + Send {
        std::future::ready(Err(nothing_real()))
    }

    /// A connection to a port of a pod, for `kubectl port-forward`.
    fn connect(&self, _pod_uid: &str, _port: u16) -> impl Future<Output = Result<TcpStream, Refusal>> + Send {
        std::future::ready(Err(nothing_real()))
    }

    /// Gives a running container other limits.
    fn resize(&self, container: &ContainerId, limits: Limits) -> impl Future<Output = Result<(), Refusal>> + Send;

    /// What a running container uses; `None` when it does not run.
    fn usage(&self, container: &ContainerId) -> impl Future<Output = Option<Usage>> + Send;

    /// What the whole machine uses, as a kubelet reports it for its node; `None` when there is nothing but the pods.
    fn machine_usage(&self) -> Option<Usage> {
        None
    }

    /// Where a running container listens for TCP connections; nowhere when there is nothing real behind it.
    fn listeners(&self, _container: &ContainerId) -> impl Future<Output = Vec<SocketAddr>> + Send {
        std::future::ready(Vec::new())
    }

    /// What a container has written, as lines in the form that `options` want.
    fn logs(
        &self,
        container: &ContainerId,
        options: LogOptions,
    ) -> impl Future<Output = Result<BoxStream<'static, Bytes>, Refusal>> + Send;

    /// Ends what the containers of a pod shared, once all of them have ended. Their logs can still be read.
    fn release(&self, pod_uid: &str) -> impl Future<Output = ()> + Send;

    /// Takes away all that a pod has: containers that still run, its volumes and logs.
    fn tear_down(&self, pod_uid: &str) -> impl Future<Output = ()> + Send;

    /// Takes away what an earlier run has left of all pods but these.
    fn keep_only(&self, _pod_uids: BTreeSet<String>) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

fn nothing_real() -> Refusal {
    Refusal { reason: "Simulated".to_owned(), message: "nothing real runs in this pod".to_owned() }
}

/// What the containers of a pod share.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// The pod: its names, annotations, `hostname`, `shareProcessNamespace`, `hostNetwork`, security context.
    pub pod: Arc<Pod>,
    /// The volumes, with the files that the node has computed.
    pub volumes: Vec<Volume>,
    /// The containers that are marked as sidecars.
    pub marked: Marked,
}

/// A volume of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    /// The name that mounts use.
    pub name: String,
    /// What is in it.
    pub content: VolumeContent,
}

/// What a volume holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeContent {
    /// A folder that is empty at first and lives as long as the pod, also when the node starts again.
    Empty {
        /// Kept in memory (`medium: Memory`): empty again in a new sandbox.
        memory: bool,
        /// So many bytes at most.
        size_limit: Option<u64>,
    },
    /// Files by their path in the volume; the node replaces them all at once when they change.
    Files(BTreeMap<String, VolumeFile>),
    /// A place of the machine.
    HostPath {
        /// Where it is.
        path: PathBuf,
        /// `hostPath.type`: `""`, `DirectoryOrCreate`, `Directory`, `FileOrCreate`, `File`, `Socket`, `CharDevice`, `BlockDevice`.
        kind: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeFile {
    /// What is in it.
    pub content: Bytes,
    /// Its permission bits.
    pub mode: u32,
}

/// Names one attempt of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContainerId {
    pub pod_uid: String,
    /// The name of the container.
    pub container: String,
    /// How often it was restarted before.
    pub attempt: u32,
}

/// A container with everything resolved.
#[derive(Clone, Debug)]
pub struct ContainerSpec {
    /// Which attempt this is.
    pub id: ContainerId,
    /// The name of the image. Images are not pulled.
    pub image: String,
    /// `command`, expanded; empty when the image has to say.
    pub command: Vec<String>,
    /// `args`, expanded.
    pub args: Vec<String>,
    /// The whole environment, in order; names are unique.
    pub environment: Vec<(String, String)>,
    /// `workingDir`.
    pub working_directory: Option<String>,
    /// The volumes that it sees.
    pub mounts: Vec<Mount>,
    /// What it may use at most.
    pub limits: Limits,
    /// The user to run as, from the security contexts.
    pub user: Option<i64>,
    /// The group to run as, from the security contexts.
    pub group: Option<i64>,
    /// Whether neither it nor its children can get more privileges (`allowPrivilegeEscalation: false`).
    pub no_new_privileges: bool,
    /// What it reads, and whether it has a terminal.
    pub input: Input,
    /// The file whose text is the message of its end.
    pub termination_message_path: String,
    /// Whether the end of its log is the message when that file is empty and it failed (`FallbackToLogsOnError`).
    pub message_from_logs: bool,
}

/// Where a container sees a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The name of the volume.
    pub volume: String,
    /// The path in the container.
    pub path: String,
    /// The part of the volume that is seen there, `subPathExpr` expanded.
    pub sub_path: Option<String>,
    /// Whether it cannot be written.
    pub read_only: bool,
}

/// What a container may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Thousandths of a core.
    pub cpu_millis: Option<u64>,
    /// Bytes.
    pub memory: Option<u64>,
}

/// A container that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// `containerID` of its status, with the scheme: `pillion://…`.
    pub id: String,
    /// `imageID` of its status.
    pub image_id: String,
}

/// Signals that the node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGTERM.
    Term,
    /// SIGKILL, to everything that the container started.
    Kill,
}

/// The end of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exit {
    pub id: ContainerId,
    /// Its exit code: 128 and the number of the signal when one ended it.
    pub code: i32,
    /// Whether it was killed because it used more memory than it may.
    pub oom_killed: bool,
    /// What it left as its last words.
    pub message: Option<String>,
    /// When it ended.
    pub at: Timestamp,
}

/// What a command inside a container said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExecOutput {
    /// Its exit code.
    pub code: i32,
    /// What it wrote to both streams.
    pub output: Bytes,
}

/// Why a command could not be run to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecError {
    /// It took longer than it may, and was killed.
    #[error("command timed out: {:?} timed out after {}s", .command.join(" "), .after.as_secs())]
    TimedOut {
        command: Vec<String>,
        /// How long it had.
        after: Duration,
    },
    /// It could not be started, or there is no such container.
    #[error("{0}")]
    Failed(String),
}

/// What a running container uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// CPU time since it started; never less than before.
    pub cpu: Duration,
    /// Memory that cannot be taken back, in bytes.
    pub working_set: u64,
    /// When it started.
    pub since: Timestamp,
    /// When this was measured.
    pub at: Timestamp,
}

/// Which part of a log is wanted, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Whether to wait for more, until the container ends.
    pub follow: bool,
    /// Only so many lines of the end.
    pub tail_lines: Option<u64>,
    /// Only what is not older.
    pub since: Option<Timestamp>,
    /// Whether each line begins with its time.
    pub timestamps: bool,
    /// Only so many bytes.
    pub limit_bytes: Option<u64>,
}

/// Why a runtime does not do what it is asked: the `reason` and `message` that users see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// A reason as Kubernetes has them: `CreateContainerError`, `RunContainerError`, `FailedCreatePodSandBox`.
    pub reason: String,
    /// What is wrong and how to fix it.
    pub message: String,
}
