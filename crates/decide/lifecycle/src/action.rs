//! What a node is to do: the output of [`plan`](crate::plan()).

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PodStatus, ResourceRequirements};

use crate::facts::{Attempt, BackOff, ContainerFacts, Held, Hook, State, Stopping};

/// What happens next to a pod, and what it says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do now, in this order. [`record`] says how the facts change by it.
    pub actions: Vec<Action>,
    /// The whole status.
    pub status: PodStatus,
    /// The earliest moment at which time alone changes the plan.
    pub wake_at: Option<Timestamp>,
    /// Events to send. They belong to the actions and come once.
    pub notes: Vec<Note>,
    /// How far the pod has come.
    pub stage: Stage,
}

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Containers run, or will.
    Active,
    /// Its containers are being stopped, and none is started any more.
    Terminating,
    /// Nothing runs and nothing will.
    Ended,
}

/// One thing to do. Each is done exactly once, and what came of it shows in the facts.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Pull the image, make the container and run it. Its state becomes `Refused`, `Running` or `Exited`.
    Start {
        container: String,
        /// The number of the attempt.
        attempt: u32,
        image: String,
        /// To be kept in [`ContainerFacts::back_off`].
        back_off: Option<BackOff>,
    },
    /// Run `lifecycle.postStart`.
    PostStart { container: String },
    /// The next start is put off; nothing to do but to [`record`] it.
    Hold {
        container: String,
        /// For how many seconds after the end of the attempt.
        seconds: i64,
    },
    /// Give the running container these resources.
    Resize {
        container: String,
        /// The resources of its spec.
        resources: ResourceRequirements,
    },
    /// Give up a start that is under way. Its state becomes `Refused`, `Running` or `Exited`.
    Cancel {
        container: String,
        /// To be kept in [`Attempt::stopping`].
        stopping: Stopping,
    },
    /// The container begins to stop; nothing to do but to [`record`] it.
    Stop {
        container: String,
        /// To be kept in [`Attempt::stopping`].
        stopping: Stopping,
    },
    /// Run `lifecycle.preStop`, and give it up at `until`.
    PreStop {
        container: String,
        /// When its time is over.
        until: Timestamp,
    },
    /// Send the container's stop signal.
    Terminate {
        container: String,
        /// When [`Action::Kill`] follows.
        kill_at: Timestamp,
    },
    /// Kill the container.
    Kill { container: String },
}

impl Action {
    /// The container that the action is for.
    pub fn container(&self) -> &str {
        match self {
            Self::Start { container, .. }
            | Self::PostStart { container }
            | Self::Hold { container, .. }
            | Self::Resize { container, .. }
            | Self::Cancel { container, .. }
            | Self::Stop { container, .. }
            | Self::PreStop { container, .. }
            | Self::Terminate { container, .. }
            | Self::Kill { container } => container,
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// A `Warning`; otherwise `Normal`.
    pub warning: bool,
    /// Such as `Killing`.
    pub reason: &'static str,
    /// What a user reads.
    pub message: String,
    /// The field of the pod that it is about, such as `spec.containers{web}`.
    pub field_path: Option<String>,
}

/// Writes down that `actions` are under way, so that the next plan does not ask for them again.
pub fn record(containers: &mut BTreeMap<String, ContainerFacts>, actions: &[Action], now: Timestamp) {
    for action in actions {
        let facts = containers.entry(action.container().to_owned()).or_default();
        if let Action::Start { attempt, image, back_off, .. } = action {
            start(facts, *attempt, image, back_off.as_ref());
        } else if let Some(current) = &mut facts.current {
            record_one(current, action, now);
        }
    }
}

fn start(facts: &mut ContainerFacts, number: u32, image: &str, back_off: Option<&BackOff>) {
    let before = facts.current.take();
    let tries = match &before {
        // Another image is another pull, with a back-off of its own.
        Some(attempt) if attempt.number == number && attempt.image == image => attempt.tries.saturating_add(1),
        _ => 1,
    };
    if let Some(attempt) = before.filter(|attempt| matches!(attempt.state, State::Exited { .. })) {
        facts.previous = Some(attempt);
    }
    facts.back_off = back_off.cloned();
    facts.current = Some(Attempt {
        number,
        tries,
        id: String::new(),
        image: image.to_owned(),
        image_id: String::new(),
        resources: None,
        state: State::Starting,
        stopping: None,
        held: None,
        in_earlier_sandbox: false,
    });
}

fn record_one(current: &mut Attempt, action: &Action, now: Timestamp) {
    match (action, &mut current.state, &mut current.stopping) {
        (Action::PostStart { .. }, State::Running { post_start, .. }, _) => *post_start = Hook::Running,
        (Action::Hold { seconds, .. }, ..) => current.held = Some(Held { since: now, seconds: *seconds }),
        (Action::Resize { resources, .. }, ..) => current.resources = Some(resources.clone()),
        (Action::Stop { stopping, .. } | Action::Cancel { stopping, .. }, ..) => {
            current.stopping = Some(stopping.clone());
        }
        (Action::PreStop { .. }, _, Some(stopping)) => stopping.pre_stop = Hook::Running,
        (Action::Terminate { kill_at, .. }, _, Some(stopping)) => {
            stopping.term_at = Some(now);
            stopping.kill_at = Some(*kill_at);
        }
        (Action::Kill { .. }, _, Some(stopping)) => stopping.killed = true,
        _ => {}
    }
}
