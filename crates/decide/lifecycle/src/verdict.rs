//! Whether the manager has to end a pod with marked sidecars, where its kubelet does not.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use pillion_api::record::sidecars::{Method, SidecarRecord};

use crate::ending;
use crate::facts::{NodeFacts, Snapshot, State};
use crate::observed::observed;
use crate::role::{Marked, Role};
use crate::view::{Latest, Subject};
use crate::work;

/// What the manager has to do about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, as long as the pod is as it is.
    Wait,
    /// Write this phase, by which the kubelet stops all that runs.
    End {
        /// `Succeeded` or `Failed`.
        phase: &'static str,
        /// Why, for people.
        message: String,
    },
}

/// Decides about a pod whose marked sidecars are as the record says. It is the function of the node, over the facts that the status reports.
pub fn verdict(pod: &Pod, record: &SidecarRecord) -> Verdict {
    let is_terminal = matches!(phase(pod), Some("Succeeded" | "Failed"));
    if is_terminal || pod.metadata.deletion_timestamp.is_some() {
        return Verdict::Wait;
    }
    let marked: Marked = match record.method {
        Method::Native => Marked::NONE,
        Method::Wrap | Method::Phase => record.sidecars.iter().map(String::as_str).collect(),
    };
    let (containers, node) = (observed(pod), NodeFacts::default());
    let now = Timestamp::UNIX_EPOCH;
    let snapshot = Snapshot { pod, marked: &marked, containers: &containers, node: &node, stop: None, now };
    let subject = Subject::new(&snapshot);
    if let Some(name) = record.fail_pod.iter().find(|name| failed_native(&subject, name)) {
        let message = format!("sidecar {name:?} ended with an error before the work was done");
        return Verdict::End { phase: "Failed", message };
    }
    let Some(done_at) = work::done_at(&subject) else { return Verdict::Wait };
    if record.method == Method::Wrap && !waits_in_vain(pod, &marked) {
        return Verdict::Wait;
    }
    let failed = subject.of(&[Role::Work]).find(|view| !matches!(view.latest(), Latest::Exited(_, 0)));
    let early = subject
        .of(&[Role::MarkedSidecar])
        .find(|view| ending::failed_early(view, done_at) && !record.ignore_errors.iter().any(|name| name == view.name));
    let (phase, message) = match (failed, early) {
        (Some(view), _) => {
            ("Failed", format!("container {:?} ended with an error; its sidecars are stopped", view.name))
        }
        (None, Some(view)) => {
            ("Failed", format!("sidecar {:?} ended with an error before the work was done", view.name))
        }
        (None, None) => ("Succeeded", "the work is done; the sidecars are stopped".to_owned()),
    };
    Verdict::End { phase, message }
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// Whether a native sidecar ended with an error while there was work to do. It runs again by then, so its last end counts, too.
fn failed_native(subject: &Subject<'_>, name: &str) -> bool {
    let works = subject.of(&[Role::Work]).any(|view| !matches!(view.latest(), Latest::Exited(..)));
    let ends = subject.of(&[Role::Work]).filter_map(|view| match view.latest() {
        Latest::Exited(attempt, _) => match attempt.state {
            State::Exited { at, .. } => at,
            _ => None,
        },
        _ => None,
    });
    let last = ends.max();
    let sidecar = subject.of(&[Role::NativeSidecar]).find(|view| view.name == name);
    let attempts = sidecar.into_iter().flat_map(|view| view.current().into_iter().chain(view.previous()));
    attempts.into_iter().any(|attempt| match attempt.state {
        State::Exited { code, at, .. } => code != 0 && (works || at.zip(last).is_some_and(|(at, last)| at < last)),
        _ => false,
    })
}

/// Whether no sidecar runs and one waits for a start that may never come: `pillion-wrap` has no say in that.
fn waits_in_vain(pod: &Pod, marked: &Marked) -> bool {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    let sidecars: Vec<&ContainerStatus> = statuses.filter(|status| marked.contains(&status.name)).collect();
    let runs = |status: &&ContainerStatus| status.state.as_ref().is_some_and(|state| state.running.is_some());
    let waits = |status: &&ContainerStatus| {
        let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref());
        let is_starting = |reason: &str| matches!(reason, "ContainerCreating" | "PodInitializing");
        waiting.is_some_and(|waiting| !waiting.reason.as_deref().is_none_or(is_starting))
    };
    !sidecars.iter().any(runs) && sidecars.iter().any(waits)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn status(name: &str, state: Value) -> Value {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": state})
    }

    fn running() -> Value {
        json!({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
    }

    fn ended(code: i32, second: i64) -> Value {
        json!({"terminated": {"exitCode": code, "finishedAt": format!("2026-01-01T00:00:{second:02}Z")}})
    }

    fn waiting(reason: &str) -> Value {
        json!({"waiting": {"reason": reason}})
    }

    /// The verdict about a pod of `main` and `side`; a container without a state has no status.
    fn of(policy: &str, method: Method, main: Option<Value>, side: Option<Value>) -> String {
        let statuses: Vec<Value> = [("main", main), ("side", side)]
            .into_iter()
            .filter_map(|(name, state)| Some(status(name, state?)))
            .collect();
        let pod = serde_json::from_value(json!({
            "spec": {"restartPolicy": policy, "containers": [{"name": "main"}, {"name": "side"}]},
            "status": {"phase": "Running", "containerStatuses": statuses},
        }))
        .unwrap();
        match verdict(
            &pod,
            &SidecarRecord { method, sidecars: vec!["side".into()], fail_pod: Vec::new(), ignore_errors: Vec::new() },
        ) {
            Verdict::Wait => "wait".to_owned(),
            Verdict::End { phase, .. } => phase.to_owned(),
        }
    }

    #[test]
    fn the_phase_is_written_when_the_work_is_done_and_not_before() {
        let rows = [
            ("Never", Some(ended(0, 10)), Some(running()), "Succeeded"),
            ("Never", Some(ended(1, 10)), Some(running()), "Failed"),
            ("OnFailure", Some(ended(0, 10)), Some(running()), "Succeeded"),
            ("OnFailure", Some(ended(1, 10)), Some(running()), "wait"),
            ("Always", Some(ended(0, 10)), Some(running()), "wait"),
            ("Never", Some(running()), Some(running()), "wait"),
            // A status that is not complete yet says nothing.
            ("Never", None, Some(running()), "wait"),
            // A sidecar that never ran does not hold the pod back.
            ("Never", Some(ended(0, 10)), Some(waiting("ImagePullBackOff")), "Succeeded"),
            ("Never", Some(ended(0, 10)), None, "Succeeded"),
            ("Never", Some(ended(0, 10)), Some(ended(0, 5)), "Succeeded"),
            ("Never", Some(ended(0, 10)), Some(ended(1, 5)), "Failed"),
            ("Never", Some(ended(0, 10)), Some(ended(143, 12)), "Succeeded"),
        ];
        for (policy, main, side, expected) in rows {
            let case = format!("{policy}: {main:?}, {side:?}");
            assert_eq!(of(policy, Method::Phase, main, side), expected, "{case}");
        }
    }

    #[test]
    fn where_commands_are_wrapped_only_a_sidecar_that_cannot_start_is_ended() {
        let main = || Some(ended(0, 10));
        assert_eq!(of("Never", Method::Wrap, main(), Some(running())), "wait");
        assert_eq!(of("Never", Method::Wrap, main(), Some(waiting("ContainerCreating"))), "wait");
        assert_eq!(of("Never", Method::Wrap, main(), Some(waiting("ImagePullBackOff"))), "Succeeded");
        assert_eq!(of("OnFailure", Method::Wrap, Some(running()), Some(waiting("ImagePullBackOff"))), "wait");
    }

    #[test]
    fn an_early_error_of_a_native_sidecar_fails_the_pod_where_that_is_asked_for() {
        let of = |side: Value, main: Value, fail_pod: bool| {
            let pod = serde_json::from_value(json!({
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}],
                         "initContainers": [{"name": "side", "restartPolicy": "Always"}]},
                "status": {"phase": "Running", "containerStatuses": [status("main", main)], "initContainerStatuses": [side]},
            }))
            .unwrap();
            let fail_pod = if fail_pod { vec!["side".to_owned()] } else { Vec::new() };
            verdict(
                &pod,
                &SidecarRecord {
                    method: Method::Native,
                    sidecars: vec!["side".into()],
                    fail_pod,
                    ignore_errors: Vec::new(),
                },
            )
        };
        let mut restarted = status("side", running());
        restarted["lastState"] = ended(1, 5);
        assert!(matches!(of(restarted.clone(), running(), true), Verdict::End { phase: "Failed", .. }));
        assert_eq!(of(restarted, running(), false), Verdict::Wait);
        assert_eq!(of(status("side", running()), running(), true), Verdict::Wait);
        // It was stopped after the work.
        assert_eq!(of(status("side", ended(143, 11)), ended(0, 10), true), Verdict::Wait);
    }
}
