//! The conditions of a pod.

use k8s_openapi::api::core::v1::{ContainerStatus, PodCondition};

use crate::container_status::time;
use crate::phase::Phase;
use crate::role::Role;
use crate::view::Subject;

/// The conditions that belong to the node. `DisruptionTarget` is shared, and all others are left as they are.
const OWN: [&str; 7] = [
    "PodResizePending",
    "PodResizeInProgress",
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// What the conditions are made from.
pub(crate) struct Basis<'a> {
    pub(crate) subject: &'a Subject<'a>,
    /// One for each container of the spec, in its order.
    pub(crate) statuses: &'a [ContainerStatus],
    pub(crate) phase: Phase,
    /// Nothing runs and nothing will.
    pub(crate) ended: bool,
}

/// A condition without its times.
#[derive(Clone, Debug, Default, PartialEq)]
struct Verdict {
    status: bool,
    reason: Option<&'static str>,
    message: String,
}

/// All conditions of the pod, those of others first.
pub(crate) fn conditions(basis: &Basis<'_>) -> Vec<PodCondition> {
    let old = || basis.subject.old().and_then(|status| status.conditions.as_deref()).into_iter().flatten();
    let mut conditions: Vec<PodCondition> =
        old().filter(|condition| !OWN.contains(&condition.type_.as_str())).cloned().collect();
    if !basis.ended {
        conditions.extend(old().filter(|condition| condition.type_.starts_with("PodResize")).cloned());
    }
    let containers_ready = containers_ready(basis);
    let ready = ready(basis, &containers_ready, &conditions);
    let sandbox = basis.subject.snapshot.node.sandbox && !basis.ended;
    let verdicts = [
        ("PodReadyToStartContainers", Verdict { status: sandbox, ..Verdict::default() }),
        ("Initialized", initialized(basis)),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", Verdict { status: true, ..Verdict::default() }),
    ];
    conditions.extend(verdicts.map(|(type_, verdict)| stamp(basis, type_, verdict)));
    conditions
}

/// Adds or replaces the condition that says why the node ended the pod.
pub(crate) fn disrupt(conditions: &mut Vec<PodCondition>, mut condition: PodCondition, subject: &Subject<'_>) {
    condition.observed_generation = subject.snapshot.pod.metadata.generation;
    condition.last_transition_time = Some(time(subject.now()));
    if let Some(old) = conditions.iter_mut().find(|old| old.type_ == condition.type_) {
        if old.status == condition.status {
            condition.last_transition_time.clone_from(&old.last_transition_time);
        }
        *old = condition;
    } else {
        let own = conditions.iter().position(|old| OWN.contains(&old.type_.as_str()));
        conditions.insert(own.unwrap_or(conditions.len()), condition);
    }
}

/// The time of a condition is that of the last change of its status.
fn stamp(basis: &Basis<'_>, type_: &str, verdict: Verdict) -> PodCondition {
    let status = if verdict.status { "True" } else { "False" };
    let old = basis.subject.old().and_then(|status| status.conditions.as_deref()).into_iter().flatten();
    let unchanged = old.into_iter().find(|old| old.type_ == type_ && old.status == status);
    let since = unchanged.and_then(|old| old.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.map(str::to_owned),
        message: Some(verdict.message).filter(|message| !message.is_empty()),
        observed_generation: basis.subject.snapshot.pod.metadata.generation,
        last_probe_time: None,
        last_transition_time: Some(since.unwrap_or_else(|| time(basis.subject.now()))),
    }
}

fn initialized(basis: &Basis<'_>) -> Verdict {
    if basis.phase == Phase::Succeeded {
        return Verdict { status: true, reason: Some("PodCompleted"), ..Verdict::default() };
    }
    let pairs = || basis.subject.views.iter().zip(basis.statuses);
    let has_run = |status: &ContainerStatus| {
        status.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    };
    let ran = pairs().any(|(view, status)| view.role.is_regular() && has_run(status));
    let incomplete: Vec<&str> = pairs()
        .filter(|(view, status)| match view.role {
            Role::Init => !status.ready,
            Role::NativeSidecar => status.started != Some(true),
            Role::Work | Role::MarkedSidecar | Role::Ephemeral => false,
        })
        .map(|(view, _)| view.name)
        .collect();
    if ran || incomplete.is_empty() {
        return Verdict { status: true, ..Verdict::default() };
    }
    let message = format!("containers with incomplete status: [{}]", incomplete.join(" "));
    Verdict { status: false, reason: Some("ContainersNotInitialized"), message }
}

fn containers_ready(basis: &Basis<'_>) -> Verdict {
    let reason = match basis.phase {
        Phase::Succeeded => Some("PodCompleted"),
        Phase::Failed => Some("PodFailed"),
        Phase::Pending | Phase::Running => None,
    };
    if reason.is_some() {
        return Verdict { reason, ..Verdict::default() };
    }
    let unready: Vec<&str> = basis
        .subject
        .views
        .iter()
        .zip(basis.statuses)
        .filter(|(view, status)| (view.role == Role::NativeSidecar || view.role.is_regular()) && !status.ready)
        .map(|(view, _)| view.name)
        .collect();
    if unready.is_empty() {
        return Verdict { status: true, ..Verdict::default() };
    }
    let message = format!("containers with unready status: [{}]", unready.join(" "));
    Verdict { status: false, reason: Some("ContainersNotReady"), message }
}

/// The containers are ready, and so is whatever else the pod waits for.
fn ready(basis: &Basis<'_>, containers_ready: &Verdict, conditions: &[PodCondition]) -> Verdict {
    if !containers_ready.status {
        return containers_ready.clone();
    }
    let gates = basis.subject.spec().and_then(|spec| spec.readiness_gates.as_deref()).into_iter().flatten();
    let messages: Vec<String> = gates
        .filter_map(|gate| {
            let name = &gate.condition_type;
            match conditions.iter().find(|condition| condition.type_ == *name) {
                None => Some(format!("corresponding condition of pod readiness gate {name:?} does not exist.")),
                Some(condition) if condition.status == "True" => None,
                Some(condition) => {
                    Some(format!("the status of pod readiness gate {name:?} is not \"True\", but {}", condition.status))
                }
            }
        })
        .collect();
    if messages.is_empty() {
        return Verdict { status: true, ..Verdict::default() };
    }
    Verdict { status: false, reason: Some("ReadinessGatesNotReady"), message: messages.join(", ") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use serde_json::{Value, json};

    use crate::simulation::{container, facts, pod, sidecar};
    use crate::{Marked, NodeFacts, Snapshot, plan};

    /// `Initialized`, `Ready` and `ContainersReady` in one line each.
    fn said(signs: &str, status: Value) -> [String; 3] {
        let mut pod = pod(json!({
            "restartPolicy": "Never",
            "readinessGates": [{"conditionType": "example.com/lb"}],
            "initContainers": [container("init"), sidecar("side")],
            "containers": [container("main")],
        }));
        pod.status = serde_json::from_value(status).unwrap();
        let names = ["init", "side", "main"].into_iter().zip(signs.chars());
        let containers: BTreeMap<_, _> =
            names.filter_map(|(name, sign)| Some((name.to_owned(), facts(sign)?))).collect();
        let node = NodeFacts { sandbox: true, ..NodeFacts::default() };
        let now = Timestamp::UNIX_EPOCH;
        let plan =
            plan(&Snapshot { pod: &pod, marked: &Marked::NONE, containers: &containers, node: &node, stop: None, now });
        let conditions = plan.status.conditions.unwrap();
        ["Initialized", "Ready", "ContainersReady"].map(|type_| {
            let condition = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
            let words = [Some(condition.status.clone()), condition.reason.clone(), condition.message.clone()];
            words.into_iter().flatten().collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn conditions_say_what_is_missing() {
        let gate = |status: &str| json!({"conditions": [{"type": "example.com/lb", "status": status}]});
        let unready = "False ContainersNotReady containers with unready status:";
        let incomplete = "False ContainersNotInitialized containers with incomplete status:";
        let table = [
            ("---", json!({}), format!("{incomplete} [init side]"), format!("{unready} [side main]"), None),
            ("0u-", json!({}), format!("{incomplete} [side]"), format!("{unready} [side main]"), None),
            ("0r-", json!({}), "True".to_owned(), format!("{unready} [main]"), None),
            ("0ur", json!({}), "True".to_owned(), format!("{unready} [side]"), None),
            ("1r-", json!({}), format!("{incomplete} [init]"), "False PodFailed".to_owned(), None),
            ("000", json!({}), "True PodCompleted".to_owned(), "False PodCompleted".to_owned(), None),
            (
                "0rr",
                json!({}),
                "True".to_owned(),
                "False ReadinessGatesNotReady corresponding condition of pod readiness gate \"example.com/lb\" does not \
                 exist."
                    .to_owned(),
                Some("True"),
            ),
            (
                "0rr",
                gate("Unknown"),
                "True".to_owned(),
                "False ReadinessGatesNotReady the status of pod readiness gate \"example.com/lb\" is not \"True\", but \
                 Unknown"
                    .to_owned(),
                Some("True"),
            ),
            ("0rr", gate("True"), "True".to_owned(), "True".to_owned(), None),
        ];
        for (signs, status, initialized, ready, containers_ready) in table {
            let containers_ready = containers_ready.map_or_else(|| ready.clone(), str::to_owned);
            assert_eq!(said(signs, status), [initialized, ready, containers_ready], "{signs}");
        }
    }

    #[test]
    fn conditions_of_others_and_of_the_past_are_kept() {
        let old = json!({"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
            {"type": "ContainersReady", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z"},
        ]});
        let mut pod = pod(json!({"containers": [container("main")]}));
        pod.status = serde_json::from_value(old).unwrap();
        let containers = BTreeMap::from([("main".to_owned(), facts('r').unwrap())]);
        let node = NodeFacts { sandbox: true, ..NodeFacts::default() };
        let now = Timestamp::UNIX_EPOCH;
        let plan =
            plan(&Snapshot { pod: &pod, marked: &Marked::NONE, containers: &containers, node: &node, stop: None, now });
        let conditions = plan.status.conditions.unwrap();
        let reported: Vec<String> = conditions
            .iter()
            .map(|condition| {
                let year = condition.last_transition_time.as_ref().map(|time| time.0.to_string()[..4].to_owned());
                format!("{} {} {}", condition.type_, condition.status, year.unwrap_or_default())
            })
            .collect();
        assert_eq!(
            reported,
            [
                "DisruptionTarget True ",
                "PodReadyToStartContainers True 1970",
                "Initialized True 1970",
                "Ready True 2020",
                "ContainersReady True 1970",
                "PodScheduled True 1970",
            ]
        );
    }
}
