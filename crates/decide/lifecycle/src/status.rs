//! The status of a pod as a whole.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerState, ContainerStateTerminated, ContainerStatus, HostIP, PodCondition, PodIP, PodStatus,
};

use crate::conditions::{self, Basis};
use crate::container_status::{UNKNOWN, container_status, terminated, time};
use crate::phase::{self, Phase};
use crate::resources;
use crate::role::Role;
use crate::view::{Subject, View, after};

/// The status of a pod that was active longer than its spec allows.
pub(crate) const DEADLINE: (&str, &str) =
    ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");

/// What the containers make of the pod, before anything is written.
pub(crate) struct Draft {
    statuses: Vec<ContainerStatus>,
    pub(crate) phase: Phase,
    cause: Option<(String, String)>,
}

/// The phase that the pod has reached, even if it may not be reported before its containers have ended.
pub(crate) fn draft(subject: &Subject<'_>, ended: bool) -> Draft {
    let statuses: Vec<_> = subject.views.iter().map(|view| container_status(subject, view)).collect();
    let old = old_phase(subject);
    let mut phase = phase::phase(subject, &statuses, ended);
    let mut cause = None;
    if old.is_terminal() {
        phase = old;
    } else if is_past_deadline(subject) {
        phase = Phase::Failed;
        cause = Some((DEADLINE.0.to_owned(), DEADLINE.1.to_owned()));
    } else if let Some(stop) = subject.snapshot.stop.filter(|_| ended) {
        // The node's order stands unless all containers ended well.
        if phase != Phase::Succeeded {
            phase = Phase::Failed;
            cause = Some((stop.reason.clone(), stop.message.clone()));
        }
    }
    Draft { statuses, phase, cause }
}

pub(crate) fn pod_status(subject: &Subject<'_>, draft: Draft, ended: bool) -> PodStatus {
    let Draft { mut statuses, phase, cause } = draft;
    let mut conditions = conditions::conditions(&Basis { subject, statuses: &statuses, phase, ended });
    let old = subject.old();
    let old_phase = old_phase(subject);
    let reported = match (phase.is_terminal(), ended) {
        // Whoever reads a terminal phase may take it that nothing runs any more.
        (true, false) => old_phase,
        (false, true) => Phase::Failed,
        _ => phase,
    };
    if ended {
        settle(subject, &mut statuses);
    }
    if ended && !old_phase.is_terminal() {
        let condition: Option<PodCondition> = subject.snapshot.stop.and_then(|stop| stop.condition.clone());
        if let Some(condition) = condition {
            conditions::disrupt(&mut conditions, condition, subject);
        }
    }
    let kept = || Some((old?.reason.clone(), old?.message.clone()));
    let (reason, message) = match cause.filter(|_| reported == phase) {
        Some((reason, message)) => (Some(reason), Some(message)),
        None if reported == old_phase => kept().unwrap_or_default(),
        None => (None, None),
    };
    let [init, regular, ephemeral] = by_kind(subject, statuses);
    if let Some(old) = old.filter(|_| ended && old_phase.is_terminal())
        && init == old.init_container_statuses
        && regular == old.container_statuses
        && ephemeral == old.ephemeral_container_statuses
    {
        // There is nothing more to say of it.
        return old.clone();
    }
    let (host_ips, pod_ips) = addresses(subject);
    PodStatus {
        phase: Some(reported.to_string()),
        reason,
        message,
        conditions: Some(conditions),
        init_container_statuses: init,
        container_statuses: regular,
        ephemeral_container_statuses: ephemeral,
        qos_class: old
            .and_then(|old| old.qos_class.clone())
            .or_else(|| Some(resources::qos_class(subject.snapshot.pod).to_string())),
        start_time: Some(time(start_time(subject).unwrap_or_else(|| subject.now()))),
        host_ip: host_ips.first().cloned(),
        host_ips: some(host_ips.into_iter().map(|ip| HostIP { ip }).collect()),
        pod_ip: pod_ips.first().cloned(),
        pod_ips: some(pod_ips.into_iter().map(|ip| PodIP { ip }).collect()),
        observed_generation: subject.snapshot.pod.metadata.generation,
        resource_claim_statuses: old.and_then(|old| old.resource_claim_statuses.clone()),
        extended_resource_claim_status: old.and_then(|old| old.extended_resource_claim_status.clone()),
        ..PodStatus::default()
    }
}

pub(crate) fn old_phase(subject: &Subject<'_>) -> Phase {
    Phase::read(subject.old().and_then(|status| status.phase.as_deref()))
}

/// When the pod will have been active for too long.
pub(crate) fn deadline(subject: &Subject<'_>) -> Option<Timestamp> {
    let seconds = subject.spec()?.active_deadline_seconds?;
    Some(after(start_time(subject)?, seconds))
}

pub(crate) fn is_past_deadline(subject: &Subject<'_>) -> bool {
    deadline(subject).is_some_and(|deadline| deadline <= subject.now())
}

/// The node knows the fraction of the second, which the status does not.
fn start_time(subject: &Subject<'_>) -> Option<Timestamp> {
    let reported = subject.old().and_then(|status| status.start_time.as_ref()).map(|time| time.0);
    let accepted = subject.snapshot.node.accepted_at;
    match (reported, accepted) {
        (Some(reported), Some(accepted)) if reported.as_second() != accepted.as_second() => Some(reported),
        _ => accepted.or(reported),
    }
}

/// The pod has ended, so every container that can have run has too.
fn settle(subject: &Subject<'_>, statuses: &mut [ContainerStatus]) {
    let lost = ContainerStateTerminated {
        exit_code: 137,
        reason: Some(UNKNOWN.to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    let lost = ContainerState { terminated: Some(lost), ..ContainerState::default() };
    let initialized = was_initialized(subject, |index| subject.views[index].old)
        || was_initialized(subject, |index| statuses.get(index));
    let began = |(view, status): (&View<'_>, &ContainerStatus)| {
        view.role.is_init() && (!waits(status) || terminated(status.last_state.as_ref()).is_some())
    };
    // The first init container counts as begun in any case.
    let reached = subject.views.iter().zip(statuses.iter()).rposition(began).unwrap_or(0);
    for (index, (view, status)) in subject.views.iter().zip(statuses).enumerate() {
        let is_lost = match view.role {
            Role::Init | Role::NativeSidecar => index <= reached,
            Role::Work | Role::MarkedSidecar => initialized,
            Role::Ephemeral => false,
        };
        if is_lost && terminated(status.state.as_ref()).is_none() {
            status.state = Some(lost.clone());
        }
    }
}

/// Whether a regular container can have run, from one set of statuses.
fn was_initialized<'a>(subject: &Subject<'_>, status: impl Fn(usize) -> Option<&'a ContainerStatus>) -> bool {
    let Some(last) = subject.views.iter().rposition(|view| view.role.is_init()) else {
        return true;
    };
    let is_regular = |index: &usize| subject.views[*index].role.is_regular();
    let moved = |status: &ContainerStatus| !waits(status) || terminated(status.last_state.as_ref()).is_some();
    if (0..subject.views.len()).filter(is_regular).filter_map(&status).any(moved) {
        return true;
    }
    let Some(status) = status(last) else { return false };
    if subject.views[last].role == Role::NativeSidecar {
        return status.started == Some(true) && status.state.as_ref().is_some_and(|state| state.running.is_some());
    }
    let succeeded = |state: &Option<ContainerState>| terminated(state.as_ref()).is_some_and(|exit| exit.exit_code == 0);
    succeeded(&status.state) || succeeded(&status.last_state)
}

fn waits(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.waiting.is_some())
}

/// Init containers in the order of the spec, the others by name.
fn by_kind(subject: &Subject<'_>, statuses: Vec<ContainerStatus>) -> [Option<Vec<ContainerStatus>>; 3] {
    let [mut init, mut regular, mut ephemeral] = [const { Vec::new() }; 3];
    for (view, status) in subject.views.iter().zip(statuses) {
        match view.role {
            Role::Init | Role::NativeSidecar => init.push(status),
            Role::Work | Role::MarkedSidecar => regular.push(status),
            Role::Ephemeral => ephemeral.push(status),
        }
    }
    for list in [&mut regular, &mut ephemeral] {
        list.sort_by(|left, right| left.name.cmp(&right.name));
    }
    [some(init), some(regular), some(ephemeral)]
}

/// The addresses of node and pod. They are kept when the pod has ended.
fn addresses(subject: &Subject<'_>) -> (Vec<String>, Vec<String>) {
    let node = subject.snapshot.node;
    let (mut host, mut pod) = (node.host_ips.clone(), node.pod_ips.clone());
    let old = subject.old();
    if host.is_empty() {
        host = old.and_then(|old| old.host_ips.as_deref()).into_iter().flatten().map(|ip| ip.ip.clone()).collect();
    }
    if pod.is_empty() {
        pod = old.and_then(|old| old.pod_ips.as_deref()).into_iter().flatten().map(|ip| ip.ip.clone()).collect();
    }
    if pod.is_empty() && subject.spec().is_some_and(|spec| spec.host_network == Some(true)) {
        pod.clone_from(&host);
    }
    (host, pod)
}

fn some<T>(list: Vec<T>) -> Option<Vec<T>> {
    Some(list).filter(|list| !list.is_empty())
}
