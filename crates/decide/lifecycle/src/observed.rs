//! Facts as the status of a pod reports them, for whoever is not its node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};

use crate::facts::{Attempt, ContainerFacts, Hook, State};

/// The facts that a pod's status reports. A container of which it reports nothing, or that waits for its first start, has none.
pub(crate) fn observed(pod: &Pod) -> BTreeMap<String, ContainerFacts> {
    let Some(status) = &pod.status else { return BTreeMap::new() };
    let lists = [&status.init_container_statuses, &status.container_statuses];
    let statuses = lists.into_iter().flatten().flatten();
    statuses.filter_map(|status| Some((status.name.clone(), of(status)?))).collect()
}

fn of(status: &ContainerStatus) -> Option<ContainerFacts> {
    let number = u32::try_from(status.restart_count).unwrap_or_default();
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let attempt = |state| Attempt {
        number,
        tries: 1,
        id: status.container_id.clone().unwrap_or_default(),
        image: status.image.clone(),
        image_id: status.image_id.clone(),
        resources: None,
        state,
        stopping: None,
        held: None,
        in_earlier_sandbox: false,
    };
    let current = match status.state.as_ref()? {
        ContainerState { running: Some(running), .. } => attempt(State::Running {
            since: running.started_at.as_ref().map(|time| time.0).unwrap_or_default(),
            post_start: Hook::NotBegun,
            started: status.started == Some(true),
            ready: status.ready,
            unhealthy: None,
        }),
        ContainerState { terminated: Some(exit), .. } => attempt(State::exited(exit)),
        // It waits for its next start, or for its first.
        _ => attempt(State::exited(last?)),
    };
    let waits = status.state.as_ref().is_some_and(|state| state.running.is_none() && state.terminated.is_none());
    let number = if waits { number } else { number.saturating_sub(1) };
    let previous = last.map(|exit| Attempt { number, ..attempt(State::exited(exit)) });
    Some(ContainerFacts { current: Some(current), previous, back_off: None })
}
