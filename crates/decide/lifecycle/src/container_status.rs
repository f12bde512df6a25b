//! What a pod says of one of its containers.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    VolumeMountStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::back_off::{go_duration, is_pull_failure};
use crate::ending::{COMPLETED, was_stopped_after_work};
use crate::facts::{Attempt, Held, State, Why};
use crate::restart;
use crate::role::Role;
use crate::view::{Subject, View, after};

/// A kubelet first says how a container ended, and only when it next looks at the pod that the restart is put off: so
/// many seconds later here.
const NEXT_LOOK: i64 = 1;

/// What a container waits for whose image is pulled again later.
const PULL_BACK_OFF: &str = "ImagePullBackOff";

/// What is left of a container that nobody has seen end.
pub(crate) const UNKNOWN: &str = "ContainerStatusUnknown";

pub(crate) fn container_status(subject: &Subject<'_>, view: &View<'_>) -> ContainerStatus {
    let mut status = match view.current() {
        Some(attempt) if !is_new(view, attempt) => of_attempt(subject, view, attempt),
        Some(attempt) => before_start(subject, view, attempt),
        None => never_run(subject, view),
    };
    probes(view, &mut status);
    status
}

/// When time alone changes what is said of the container.
pub(crate) fn changes_at(view: &View<'_>, now: Timestamp) -> Option<Timestamp> {
    let held = view.current()?.held?;
    Some(shown_from(held)).filter(|moment| now < *moment)
}

fn shown_from(held: Held) -> Timestamp {
    after(held.since, NEXT_LOOK)
}

/// Whether the status already says that the next start is put off.
fn is_shown(attempt: &Attempt, now: Timestamp) -> bool {
    attempt.held.is_some_and(|held| shown_from(held) <= now)
}

/// An attempt that is not shown yet: until its start is over, the pod says what it said before.
fn is_new(view: &View<'_>, attempt: &Attempt) -> bool {
    matches!(attempt.state, State::Starting | State::Refused { .. }) || view.in_post_start()
}

fn blank(subject: &Subject<'_>, view: &View<'_>) -> ContainerStatus {
    let reason = if subject.init().next().is_some() { "PodInitializing" } else { "ContainerCreating" };
    ContainerStatus {
        name: view.name.to_owned(),
        image: view.image.to_owned(),
        state: Some(waiting(reason, None)),
        volume_mounts: volume_mounts(view),
        ..ContainerStatus::default()
    }
}

/// The container is not there. If it was, the old status remembers it.
fn never_run(subject: &Subject<'_>, view: &View<'_>) -> ContainerStatus {
    match view.old {
        Some(old) if terminated(old.state.as_ref()).is_some() => old.clone(),
        Some(old) => ContainerStatus {
            restart_count: old.restart_count,
            last_state: old.last_state.clone(),
            ..blank(subject, view)
        },
        None => blank(subject, view),
    }
}

fn before_start(subject: &Subject<'_>, view: &View<'_>, attempt: &Attempt) -> ContainerStatus {
    let mut status = match view.previous() {
        Some(previous) => of_attempt(subject, view, previous),
        None => never_run(subject, view),
    };
    // Once the pod is deleted nothing is started any more, so nothing is waited for.
    match &attempt.state {
        State::Refused { reason, message, .. } if !subject.deleted() => {
            let state = if is_pull_failure(reason) && is_shown(attempt, subject.now()) {
                let message = format!("Back-off pulling image {:?}: {reason}: {message}", view.image);
                waiting(PULL_BACK_OFF, Some(&message))
            } else {
                waiting(reason, Some(message))
            };
            put_off(&mut status, state);
        }
        // The next try of a refused start.
        State::Starting if !subject.deleted() => {
            let is_refusal = |state: &ContainerState| {
                let reason = state.waiting.as_ref().map(|waiting| waiting.reason.as_deref().unwrap_or_default());
                reason.is_some_and(|reason| attempt.tries > 1 || is_pull_failure(reason) || reason == PULL_BACK_OFF)
            };
            if let Some(state) = view.old.and_then(|old| old.state.clone()).filter(is_refusal) {
                put_off(&mut status, state);
            }
        }
        _ => {}
    }
    status
}

fn of_attempt(subject: &Subject<'_>, view: &View<'_>, attempt: &Attempt) -> ContainerStatus {
    if let Some(frozen) = frozen(subject, view, attempt) {
        return frozen.clone();
    }
    let is_current = view.current().is_some_and(|current| current.number == attempt.number);
    let previous = if is_current { view.previous() } else { None };
    // Of attempts further back only the status knows.
    let remembered = || view.old.filter(|old| !is_current && number(old) == attempt.number)?.last_state.clone();
    let resources = view.resources();
    let mut status = ContainerStatus {
        restart_count: i32::try_from(attempt.number).unwrap_or(i32::MAX),
        image: attempt.image.clone(),
        image_id: attempt.image_id.clone(),
        container_id: Some(attempt.id.clone()).filter(|id| !id.is_empty()),
        last_state: previous.and_then(|previous| exit(subject, view, previous)).or_else(remembered),
        allocated_resources: resources.requests.clone(),
        resources: Some(match (&attempt.state, &attempt.resources) {
            (State::Running { .. }, Some(given)) => given.clone(),
            _ => resources,
        }),
        ..blank(subject, view)
    };
    match &attempt.state {
        State::Running { since, .. } => {
            let running = ContainerStateRunning { started_at: Some(time(*since)) };
            status.state = Some(ContainerState { running: Some(running), ..ContainerState::default() });
        }
        State::Exited { code, .. } => {
            status.state = exit(subject, view, attempt);
            if subject.deleted() || !restart::follows(view, subject, attempt, *code) {
                // A kubelet keeps one ended container of each: with the last end the one before is forgotten.
                status.last_state = None;
            } else if *code == 0 && view.role == Role::NativeSidecar {
                // A kubelet takes an init container that has ended well for one that is done, sidecars as well.
                if is_shown(attempt, subject.now()) {
                    status.last_state = None;
                }
            } else if let Some(state) = restart_is_put_off(subject, view, attempt) {
                put_off(&mut status, state);
            }
        }
        State::Starting | State::Refused { .. } => {}
    }
    status
}

/// While a pod is being stopped nothing is said of those of its containers that have ended already.
fn frozen<'a>(subject: &Subject<'_>, view: &View<'a>, attempt: &Attempt) -> Option<&'a ContainerStatus> {
    let with_pod = |attempt: &Attempt| attempt.stopping.as_ref().is_some_and(|stopping| stopping.why == Why::Pod);
    let ended = matches!(attempt.state, State::Exited { .. });
    if !ended || !with_pod(attempt) || !subject.views.iter().any(|other| other.alive().is_some_and(with_pod)) {
        return None;
    }
    let runs = |old: &ContainerStatus| old.state.as_ref().is_some_and(|state| state.running.is_some());
    view.old.filter(|old| runs(old) && number(old) == attempt.number)
}

fn restart_is_put_off(subject: &Subject<'_>, view: &View<'_>, attempt: &Attempt) -> Option<ContainerState> {
    if let Some(held) = attempt.held.filter(|_| is_shown(attempt, subject.now())) {
        let (back_off, pod) = (go_duration(held.seconds), subject.full_name());
        let message = format!("back-off {back_off} restarting failed container={} pod={pod}", view.name);
        return Some(waiting("CrashLoopBackOff", Some(&message)));
    }
    if let Some(Why::PostStart { message }) = attempt.stopping.as_ref().map(|stopping| &stopping.why) {
        return Some(waiting("PostStartHookError", Some(message)));
    }
    match &attempt.state {
        State::Exited { reason, message, .. } if reason == "StartError" => {
            Some(waiting("RunContainerError", Some(message)))
        }
        _ => None,
    }
}

fn put_off(status: &mut ContainerStatus, state: ContainerState) {
    let before = status.state.replace(state);
    if before.as_ref().is_some_and(|state| state.terminated.is_some()) {
        status.last_state = before;
    }
}

/// `started` and `ready`.
fn probes(view: &View<'_>, status: &mut ContainerStatus) {
    let (mut started, mut ready) = (false, false);
    let is_running = status.state.as_ref().is_some_and(|state| state.running.is_some());
    if is_running && let (Some(spec), Some(attempt)) = (view.spec, view.current()) {
        if let State::Running { started: probed, ready: is_ready, .. } = attempt.state {
            started = probed || spec.startup_probe.is_none();
            ready = started && (is_ready || spec.readiness_probe.is_none());
        } else {
            // Nothing is said of its end yet.
            (started, ready) = (status.started == Some(true), status.ready);
        }
    }
    match view.role {
        Role::Ephemeral => return,
        Role::Init => ready = terminated(status.state.as_ref()).is_some_and(|exit| exit.exit_code == 0),
        Role::NativeSidecar | Role::Work | Role::MarkedSidecar => {}
    }
    status.started = Some(started);
    status.ready = ready;
}

fn exit(subject: &Subject<'_>, view: &View<'_>, attempt: &Attempt) -> Option<ContainerState> {
    let State::Exited { since, at, code, signal, reason, message } = &attempt.state else { return None };
    let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let reason = if was_stopped_after_work(view, attempt, subject.work_done_at) { COMPLETED } else { reason };
    let terminated = ContainerStateTerminated {
        container_id: text(&attempt.id),
        exit_code: *code,
        signal: *signal,
        reason: text(reason),
        message: text(shortened(message, subject.views.len())),
        started_at: since.map(time),
        finished_at: at.map(time),
    };
    Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() })
}

/// All termination messages of a pod together have 12 KiB.
fn shortened(message: &str, containers: usize) -> &str {
    let mut length = (12 * 1024 / containers.max(1)).min(message.len());
    while !message.is_char_boundary(length) {
        length -= 1;
    }
    &message[..length]
}

fn volume_mounts(view: &View<'_>) -> Option<Vec<VolumeMountStatus>> {
    let mounts = view.mounts?.iter().map(|mount| {
        let read_only = mount.read_only.filter(|read_only| *read_only);
        let recursive = match mount.recursive_read_only.as_deref() {
            Some("Enabled" | "IfPossible") => "Enabled",
            _ => "Disabled",
        };
        VolumeMountStatus {
            name: mount.name.clone(),
            mount_path: mount.mount_path.clone(),
            read_only,
            recursive_read_only: read_only.map(|_| recursive.to_owned()),
        }
    });
    Some(mounts.collect())
}

fn waiting(reason: &str, message: Option<&str>) -> ContainerState {
    let waiting = ContainerStateWaiting {
        reason: Some(reason.to_owned()),
        message: message.filter(|message| !message.is_empty()).map(str::to_owned),
    };
    ContainerState { waiting: Some(waiting), ..ContainerState::default() }
}

pub(crate) fn terminated(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state?.terminated.as_ref()
}

fn number(status: &ContainerStatus) -> u32 {
    u32::try_from(status.restart_count).unwrap_or_default()
}

/// As the API has it, in whole seconds.
pub(crate) fn time(moment: Timestamp) -> Time {
    Time(Timestamp::from_second(moment.as_second()).unwrap_or(moment))
}
