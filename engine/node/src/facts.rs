//! How what happens to containers becomes facts that a plan can be made from.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, Pod, ResourceRequirements,
};
use pillion_lifecycle::{Attempt, ContainerFacts, Hook, State, Unhealthy};

use crate::probe;
use crate::runtime::{Exit, Refusal, Started};

/// Something that happened to one attempt of a container.
#[derive(Debug)]
pub(crate) enum Fact {
    /// It runs, with these resources.
    Started(Started, Option<ResourceRequirements>),
    /// It could not be made or run.
    Refused(Refusal),
    PostStart(Hook),
    PreStop(Hook),
    Probed(probe::Verdict),
    Ended(Exit),
}

/// Takes a fact in. What is about another attempt than the current one comes too late, and is dropped.
pub(crate) fn record(facts: &mut ContainerFacts, number: u32, fact: Fact, now: Timestamp) {
    let Some(attempt) = facts.current.as_mut().filter(|attempt| attempt.number == number) else { return };
    match (fact, &mut attempt.state) {
        (Fact::Started(started, resources), state) => {
            attempt.id = started.id;
            attempt.image_id = started.image_id;
            attempt.resources = resources;
            // It may have ended before it was known to have begun.
            if matches!(state, State::Starting) {
                *state = running(now);
            }
        }
        (Fact::Refused(refusal), state @ State::Starting) => *state = refused(refusal, now),
        (Fact::PostStart(outcome), State::Running { post_start, .. }) => *post_start = outcome,
        (Fact::PreStop(outcome), _) => {
            if let Some(stopping) = &mut attempt.stopping {
                stopping.pre_stop = outcome;
            }
        }
        (Fact::Probed(verdict), State::Running { started, ready, unhealthy, .. }) => match verdict {
            probe::Verdict::Started => *started = true,
            probe::Verdict::Ready(is_ready) => *ready = is_ready,
            probe::Verdict::NotStarted => *unhealthy = Some(Unhealthy::Startup),
            probe::Verdict::NotAlive => *unhealthy = Some(Unhealthy::Liveness),
        },
        (Fact::Ended(exit), state) => *state = ended(state, exit),
        // What came too late: the container has gone on.
        (Fact::Refused(_) | Fact::PostStart(_) | Fact::Probed(_), _) => {}
    }
}

fn running(since: Timestamp) -> State {
    State::Running { since, post_start: Hook::NotBegun, started: false, ready: false, unhealthy: None }
}

/// One that was made but could not be run has ended, with the code that container runtimes give it.
fn refused(refusal: Refusal, at: Timestamp) -> State {
    if matches!(refusal.reason.as_str(), "RunContainerError" | "StartError") {
        let (since, at) = (None, Some(at));
        State::Exited { since, at, code: 128, signal: None, reason: "StartError".into(), message: refusal.message }
    } else {
        State::Refused { reason: refusal.reason, message: refusal.message, at }
    }
}

fn ended(before: &State, exit: Exit) -> State {
    let since = match before {
        State::Running { since, .. } => *since,
        _ => exit.at,
    };
    let reason = match exit.code {
        _ if exit.oom_killed => "OOMKilled",
        0 => "Completed",
        _ => "Error",
    };
    State::Exited {
        since: Some(since),
        at: Some(exit.at),
        code: exit.code,
        signal: None,
        reason: reason.to_owned(),
        message: exit.message.unwrap_or_default(),
    }
}

/// The facts of a pod that this node, or the one before it, has left behind: nothing runs any more, its sandbox is gone, and what the
/// status says is remembered.
pub(crate) fn recovered(pod: &Pod, now: Timestamp) -> BTreeMap<String, ContainerFacts> {
    let Some(status) = &pod.status else { return BTreeMap::new() };
    let lists = [&status.init_container_statuses, &status.container_statuses, &status.ephemeral_container_statuses];
    let statuses = lists.into_iter().flatten().flatten();
    statuses.filter_map(|status| Some((status.name.clone(), of_status(pod, status, now)?))).collect()
}

fn of_status(pod: &Pod, status: &ContainerStatus, now: Timestamp) -> Option<ContainerFacts> {
    let number = u32::try_from(status.restart_count).unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let image = image(pod, &status.name)?;
    let attempt = |number: u32, id: &str, state: State| Attempt {
        number,
        tries: 1,
        id: id.to_owned(),
        image: image.to_owned(),
        image_id: status.image_id.clone(),
        resources: status.resources.clone(),
        state,
        stopping: None,
        held: None,
        in_earlier_sandbox: true,
    };
    let of_terminated = |number, terminated: &ContainerStateTerminated| {
        attempt(number, terminated.container_id.as_deref().unwrap_or_default(), State::exited(terminated))
    };
    let previous = || last.map(|terminated| of_terminated(number.saturating_sub(1), terminated));
    let id = status.container_id.as_deref().unwrap_or_default();
    let (current, previous) = match status.state.as_ref()? {
        ContainerState { running: Some(running), .. } => {
            let since = running.started_at.as_ref().map(|time| time.0);
            (attempt(number, id, lost(since, now)), previous())
        }
        ContainerState { terminated: Some(terminated), .. } => (of_terminated(number, terminated), previous()),
        // It waits for its next start.
        _ => (of_terminated(number, last?), None),
    };
    Some(ContainerFacts { current: Some(current), previous, back_off: None })
}

/// A container that ran when the node was last there.
fn lost(since: Option<Timestamp>, now: Timestamp) -> State {
    State::Exited {
        since,
        at: Some(now),
        code: 137,
        signal: None,
        reason: "ContainerStatusUnknown".into(),
        message: "The container could not be located when the pod was deleted.  The container used to be Running"
            .into(),
    }
}

fn image<'a>(pod: &'a Pod, name: &str) -> Option<&'a str> {
    let spec = pod.spec.as_ref()?;
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|one| (&one.name, &one.image));
    let (_, image) = all.map(|one| (&one.name, &one.image)).chain(ephemeral).find(|(known, _)| *known == name)?;
    Some(image.as_deref().unwrap_or_default())
}
