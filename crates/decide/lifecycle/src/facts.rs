//! What a node knows of one pod and its containers: the input of [`plan`](crate::plan()).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod, PodCondition, ResourceRequirements};

use crate::role::Marked;

/// Everything that [`plan`](crate::plan()) looks at.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot<'a> {
    /// The pod as the API server has it. Its status may be the one planned last, if that is not written yet; its
    /// resources are those that the node has allocated.
    pub pod: &'a Pod,
    /// The regular containers that are sidecars, which the typed pod cannot say.
    pub marked: &'a Marked,
    /// What became of each container, by name. A container that was never started has no entry.
    pub containers: &'a BTreeMap<String, ContainerFacts>,
    /// The pod's place on the node.
    pub node: &'a NodeFacts,
    /// Set when the node itself ends the pod: eviction, preemption, shutdown.
    pub stop: Option<&'a StopOrder>,
    /// The moment of the decision.
    pub now: Timestamp,
}

/// The pod's place on its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    /// The node's addresses, the primary one first.
    pub host_ips: Vec<String>,
    /// The pod's addresses, the primary one first; a pod on the host's network may leave this empty.
    pub pod_ips: Vec<String>,
    /// Volumes and network of the pod stand: containers can be started.
    pub sandbox: bool,
    /// When the node first took the pod up: `status.startTime`.
    pub accepted_at: Option<Timestamp>,
}

/// The node ends the pod by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct StopOrder {
    /// `status.reason`, such as `Evicted`.
    pub reason: String,
    /// `status.message`.
    pub message: String,
    /// Replaces the pod's own grace period if it is shorter.
    pub grace_period_seconds: Option<i64>,
    /// The `DisruptionTarget` condition that the pod gets.
    pub condition: Option<PodCondition>,
}

/// What became of one container of the pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContainerFacts {
    /// The latest attempt to run the container.
    pub current: Option<Attempt>,
    /// The attempt before it, which is `lastState` of the status.
    pub previous: Option<Attempt>,
    /// What [`Action::Start`](crate::Action::Start) said last; kept as it is.
    pub back_off: Option<BackOff>,
}

/// One attempt to run a container.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// How many attempts went before: `restartCount`.
    pub number: u32,
    /// How often this attempt was tried; more than once if the start was [refused](State::Refused).
    pub tries: u32,
    /// `containerID`, with its scheme; empty until the container exists.
    pub id: String,
    /// The image of the pod's spec that the attempt was made from.
    pub image: String,
    /// `imageID`; empty until the image is there.
    pub image_id: String,
    /// The resources that the container was last given; `None` is taken for those of the spec.
    pub resources: Option<ResourceRequirements>,
    /// How far the attempt has come.
    pub state: State,
    /// Set from the moment the container is being stopped.
    pub stopping: Option<Stopping>,
    /// Set while the next start is put off.
    pub held: Option<Held>,
    /// It ran in a sandbox that is gone, as after a reboot: volumes in memory and the network are new since.
    pub in_earlier_sandbox: bool,
}

/// The next start is put off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub since: Timestamp,
    /// For how many seconds after the end of the attempt.
    pub seconds: i64,
}

/// How far an attempt has come.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// The node is at it.
    Starting,
    /// The container could not be made. One that was made and could not be run is [exited](State::Exited) with code 128
    /// and the reason `StartError`.
    Refused {
        /// `CreateContainerConfigError`, `CreateContainerError`, `ErrImagePull`, `ErrImageNeverPull`, …
        reason: String,
        /// What was wrong.
        message: String,
        /// When that was known.
        at: Timestamp,
    },
    /// The process runs.
    Running {
        since: Timestamp,
        /// What became of `lifecycle.postStart`; stays [`Hook::NotBegun`] in a container that has none.
        post_start: Hook,
        /// The startup probe succeeded. Without such a probe it does not matter.
        started: bool,
        /// The readiness probe's last word. Without such a probe it does not matter.
        ready: bool,
        /// A probe condemned the container.
        unhealthy: Option<Unhealthy>,
    },
    /// The process is gone.
    Exited {
        /// When it had started.
        since: Option<Timestamp>,
        /// When it ended.
        at: Option<Timestamp>,
        /// The exit code; 128 plus the signal if one ended it.
        code: i32,
        /// The signal that ended it.
        signal: Option<i32>,
        /// `Completed`, `Error`, `OOMKilled`, `StartError`, `ContainerStatusUnknown`.
        reason: String,
        /// The termination message.
        message: String,
    },
}

impl State {
    /// The end of an attempt, as the status of a pod has it.
    pub fn exited(terminated: &ContainerStateTerminated) -> State {
        State::Exited {
            since: terminated.started_at.as_ref().map(|time| time.0),
            at: terminated.finished_at.as_ref().map(|time| time.0),
            code: terminated.exit_code,
            signal: terminated.signal,
            reason: terminated.reason.clone().unwrap_or_default(),
            message: terminated.message.clone().unwrap_or_default(),
        }
    }
}

/// What became of a lifecycle hook. The node sends the event of a failure.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Hook {
    /// Not run yet, or there is none.
    #[default]
    NotBegun,
    /// Under way.
    Running,
    /// It went well.
    Done {
        /// When it ended.
        at: Timestamp,
    },
    Failed {
        /// When it ended.
        at: Timestamp,
        /// How.
        message: String,
    },
}

/// The probe that condemned a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unhealthy {
    /// The liveness probe.
    Liveness,
    /// The startup probe.
    Startup,
}

/// How the stopping of a container goes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopping {
    pub since: Timestamp,
    pub why: Why,
    /// The seconds for hook, turn and process together.
    pub grace_period_seconds: i64,
    /// What became of `lifecycle.preStop`.
    pub pre_stop: Hook,
    /// When the process was asked to end.
    pub term_at: Option<Timestamp>,
    /// When it is to be killed if it still runs.
    pub kill_at: Option<Timestamp>,
    pub killed: bool,
}

/// Why a container is stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// The whole pod ends, or has done its work.
    Pod,
    /// A probe condemned it.
    Probe(Unhealthy),
    /// Its image in the spec is another now.
    DefinitionChanged,
    /// Its resources changed, and its `resizePolicy` asks for a restart.
    Resize,
    /// Its `lifecycle.postStart` failed.
    PostStart {
        /// How.
        message: String,
    },
}

/// How long the next restart of a container waits.
#[derive(Clone, Debug, PartialEq)]
pub struct BackOff {
    /// The seconds from the next exit to the restart.
    pub seconds: i64,
    /// When the container was restarted last.
    pub since: Timestamp,
    /// The container's image and resources: with others the count begins anew.
    pub of: (String, ResourceRequirements),
}
