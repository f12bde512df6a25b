//! Whether the manager has to end a pod with marked sidecars, where its kubelet does not.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use pillion_api::names;
use pillion_api::record::in_place::InPlaceUpdates;
use pillion_api::record::sidecars::{Method, SidecarRecord};

use crate::ending;
use crate::facts::{Attempt, NodeFacts, Snapshot, State};
use crate::observed::observed;
use crate::restart;
use crate::role::{Marked, Role};
use crate::view::{Latest, Subject, View};
use crate::work;

/// The work of the pod has ended for good, well or with an error.
const WORK_DONE: &str = "WorkDone";
/// A sidecar ended with an error before the work of the pod was done.
const SIDECAR_FAILED: &str = "SidecarFailed";

/// What the manager has to do about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, as long as the pod is as it is.
    Wait,
    /// Write this phase, by which the kubelet stops all that runs.
    End {
        /// `Succeeded` or `Failed`.
        phase: &'static str,
        /// Why, as a reason of a condition: `WorkDone` or `SidecarFailed`.
        reason: &'static str,
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
    let updates = updates(pod);
    let written = written(pod);
    // The kubelet has taken the phase back. Sidecars may have been stopped or restarted since, but the decision stands.
    if let Some(condition) = written.filter(|condition| condition.reason.as_deref() == Some(SIDECAR_FAILED)) {
        let message = condition.message.clone().unwrap_or_default();
        return Verdict::End { phase: "Failed", reason: SIDECAR_FAILED, message };
    }
    if let Some(name) = record.fail_pod.iter().find(|name| failed_native(&subject, name, &updates)) {
        return sidecar_failed(name);
    }
    // A newer kubelet than the one that this crate follows may run all containers again.
    let restarts_all =
        |view: &View<'_>| matches!(view.latest(), Latest::Exited(_, code) if restart::restarts_all(view, code));
    if subject.of(&[Role::Work]).any(restarts_all) {
        return Verdict::Wait;
    }
    let Some(done_at) = work::done_at(&subject) else { return Verdict::Wait };
    if record.method == Method::Wrap && !waits_in_vain(pod, &marked) {
        return Verdict::Wait;
    }
    let failed = subject.of(&[Role::Work]).find(|view| !matches!(view.latest(), Latest::Exited(_, 0)));
    let early = subject
        .of(&[Role::MarkedSidecar])
        .filter(|view| !record.ignore_errors.iter().any(|name| name == view.name))
        .filter(|view| !view.current().is_some_and(|attempt| is_replaced(view.name, attempt, &updates)))
        // Since the phase was written first, it is the kubelet that stops sidecars.
        .filter(|_| written.is_none())
        .find(|view| {
            ending::failed_early(view, after_its_second(done_at))
                || (record.method == Method::Wrap && repeats_error(view, done_at))
        });
    match (failed, early) {
        (Some(view), _) => {
            let message = format!("container {:?} ended with an error; its sidecars are stopped", view.name);
            Verdict::End { phase: "Failed", reason: WORK_DONE, message }
        }
        (None, Some(view)) => sidecar_failed(view.name),
        (None, None) => {
            let message = "the work is done; the sidecars are stopped".to_owned();
            Verdict::End { phase: "Succeeded", reason: WORK_DONE, message }
        }
    }
}

fn sidecar_failed(name: &str) -> Verdict {
    let message = format!("sidecar {name:?} ended with an error before the work was done");
    Verdict::End { phase: "Failed", reason: SIDECAR_FAILED, message }
}

/// Statuses have whole seconds, so which of two ends in the same second came first is not known. A sidecar that had ended by itself before anything
/// stopped it counts as one that ended before the work.
fn after_its_second(done_at: Timestamp) -> Timestamp {
    done_at.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX)
}

/// The condition that was written together with the phase, if it was written before.
fn written(pod: &Pod) -> Option<&PodCondition> {
    let mut conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.find(|condition| {
        condition.type_ == names::SIDECAR_TERMINATED
            && matches!(condition.reason.as_deref(), Some(WORK_DONE | SIDECAR_FAILED))
    })
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// The updates in place that a rollout has made.
fn updates(pod: &Pod) -> InPlaceUpdates {
    let text = pod.metadata.annotations.as_ref().and_then(|annotations| annotations.get(names::IN_PLACE_UPDATE_STATE));
    text.and_then(|text| InPlaceUpdates::parse(text).ok()).unwrap_or_default()
}

/// Whether an attempt was stopped because its image was replaced, or had ended before that: however it ended, that is no error of the sidecar.
fn is_replaced(name: &str, attempt: &Attempt, updates: &InPlaceUpdates) -> bool {
    updates.restarts_before(name).is_some_and(|restarts| attempt.number <= restarts)
}

/// Whether a native sidecar ended with an error while there was work to do. It runs again by then, so its last end counts, too.
fn failed_native(subject: &Subject<'_>, name: &str, updates: &InPlaceUpdates) -> bool {
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
    let current = sidecar.and_then(View::current);
    let attempts = current.into_iter().chain(sidecar.and_then(View::previous));
    attempts.filter(|attempt| !is_replaced(name, attempt, updates)).any(|attempt| match attempt.state {
        State::Exited { code, at, .. } => {
            // It is not started again once the work is done.
            let was_restarted = current.is_some_and(|current| current.number > attempt.number);
            code != 0 && (works || was_restarted || at.zip(last).is_some_and(|(at, last)| at < last))
        }
        _ => false,
    })
}

/// Whether `pillion-wrap` was started after the work and ended with an error: with that it reports that the sidecar had failed before, because 0
/// would end a container under `OnFailure`.
fn repeats_error(view: &View<'_>, done_at: Timestamp) -> bool {
    let Latest::Exited(attempt, code) = view.latest() else { return false };
    let State::Exited { since, .. } = attempt.state else { return false };
    code != 0 && since.is_some_and(|since| since >= done_at)
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
            // Statuses have whole seconds. Only the manager stops a sidecar, and it has not done so: the sidecar failed by itself.
            ("Never", Some(ended(0, 10)), Some(ended(1, 10)), "Failed"),
            ("Never", Some(ended(0, 10)), Some(ended(143, 10)), "Failed"),
            ("Never", Some(ended(0, 10)), Some(ended(0, 10)), "Succeeded"),
        ];
        for (policy, main, side, expected) in rows {
            let case = format!("{policy}: {main:?}, {side:?}");
            assert_eq!(of(policy, Method::Phase, main, side), expected, "{case}");
        }
    }

    #[test]
    fn a_phase_that_did_not_hold_is_written_again_whatever_the_kubelet_has_stopped_since() {
        let of = |reason: &str, side: Value| {
            let condition =
                json!({"type": names::SIDECAR_TERMINATED, "status": "True", "reason": reason, "message": "m"});
            let pod = serde_json::from_value(json!({
                "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}, {"name": "side"}]},
                "status": {"phase": "Running", "conditions": [condition],
                           "containerStatuses": [status("main", ended(0, 10)), status("side", side)]},
            }))
            .unwrap();
            let (sidecars, method) = (vec!["side".to_owned()], Method::Phase);
            match verdict(&pod, &SidecarRecord { method, sidecars, fail_pod: Vec::new(), ignore_errors: Vec::new() }) {
                Verdict::Wait => panic!("the phase does not hold"),
                Verdict::End { phase, reason, .. } => (phase, reason),
            }
        };
        assert_eq!(of("WorkDone", ended(143, 10)), ("Succeeded", "WorkDone"), "the kubelet stopped it");
        assert_eq!(of("SidecarFailed", ended(1, 10)), ("Failed", "SidecarFailed"));
        assert_eq!(of("SidecarFailed", running()), ("Failed", "SidecarFailed"), "it was started again");
        assert_eq!(of("Other", ended(1, 10)), ("Failed", "SidecarFailed"), "a condition of another program");
    }

    #[test]
    fn the_reason_tells_a_failed_sidecar_from_work_that_is_done() {
        let of = |method: Method, main: Value, side: Value| {
            let (list, sidecar) = match method {
                Method::Native => ("initContainers", json!({"name": "side", "restartPolicy": "Always"})),
                _ => ("containers", json!({"name": "side"})),
            };
            let mut pod = json!({
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}]},
                "status": {"phase": "Running", "containerStatuses": [status("main", main), side.clone()], "initContainerStatuses": [side]},
            });
            match list {
                "containers" => pod["spec"][list].as_array_mut().unwrap().push(sidecar),
                _ => pod["spec"][list] = json!([sidecar]),
            }
            let record = SidecarRecord {
                method,
                sidecars: vec!["side".to_owned()],
                fail_pod: vec!["side".to_owned()],
                ignore_errors: Vec::new(),
            };
            match verdict(&serde_json::from_value(pod).unwrap(), &record) {
                Verdict::Wait => "wait",
                Verdict::End { reason, .. } => reason,
            }
        };
        let failed = || status("side", ended(1, 5));
        assert_eq!(of(Method::Native, running(), failed()), "SidecarFailed", "the work is not done");
        assert_eq!(of(Method::Phase, ended(0, 10), failed()), "SidecarFailed");
        assert_eq!(of(Method::Phase, ended(1, 10), failed()), "WorkDone", "the work itself failed");
        assert_eq!(of(Method::Phase, ended(0, 10), status("side", running())), "WorkDone");
    }

    fn restarted(state: Value, last: Value) -> Value {
        let mut status = status("side", state);
        status["lastState"] = last;
        status["restartCount"] = json!(1);
        status
    }

    /// The verdict about a pod by phase; `statuses` are those of its containers, and the sidecars end with 1 without harm if they are `ignored`.
    fn by_phase(policy: &str, phase: &str, statuses: &[Value], sidecars: &[&str], ignored: &[&str]) -> String {
        let containers: Vec<Value> = statuses.iter().map(|status| json!({"name": status["name"]})).collect();
        let pod = serde_json::from_value(json!({
            "spec": {"restartPolicy": policy, "containers": containers},
            "status": {"phase": phase, "containerStatuses": statuses},
        }))
        .unwrap();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let record = SidecarRecord {
            method: Method::Phase,
            sidecars: names(sidecars),
            fail_pod: Vec::new(),
            ignore_errors: names(ignored),
        };
        match verdict(&pod, &record) {
            Verdict::Wait => "wait".to_owned(),
            Verdict::End { phase, .. } => phase.to_owned(),
        }
    }

    #[test]
    fn a_sidecar_whose_errors_are_ignored_fails_no_pod_and_others_do() {
        let main = || status("main", ended(0, 10));
        let early = |name: &str| status(name, ended(1, 5));
        let of = |statuses: &[Value], sidecars: &[&str], ignored: &[&str]| {
            by_phase("Never", "Running", statuses, sidecars, ignored)
        };
        assert_eq!(of(&[main(), early("side")], &["side"], &[]), "Failed");
        assert_eq!(of(&[main(), early("side")], &["side"], &["side"]), "Succeeded");
        let two = [main(), early("side"), early("other")];
        assert_eq!(of(&two, &["side", "other"], &["side"]), "Failed");
        assert_eq!(of(&two, &["side", "other"], &["side", "other"]), "Succeeded");
        // The work's own errors count always.
        assert_eq!(of(&[status("main", ended(1, 10)), early("side")], &["side"], &["side"]), "Failed");
    }

    #[test]
    fn where_kruise_is_stuck_the_pod_ends() {
        let main = || status("main", ended(0, 10));
        // Under OnFailure a sidecar that was stopped with an error is restarted.
        let again = restarted(waiting("CrashLoopBackOff"), ended(143, 12));
        assert_eq!(by_phase("OnFailure", "Running", &[main(), again], &["side"], &[]), "Succeeded");
        let runs = restarted(running(), ended(143, 12));
        assert_eq!(by_phase("OnFailure", "Running", &[main(), runs], &["side"], &[]), "Succeeded");
        // One sidecar with and one without the variable for its errors.
        let both = [main(), status("side", running()), status("other", running())];
        assert_eq!(by_phase("Never", "Running", &both, &["side", "other"], &["other"]), "Succeeded");
        // A sidecar that never started leaves the pod Pending.
        let never = [main(), status("side", waiting("ImagePullBackOff"))];
        assert_eq!(by_phase("Never", "Pending", &never, &["side"], &[]), "Succeeded");
    }

    #[test]
    fn work_that_will_run_again_is_waited_for() {
        // CrashLoopBackOff after an error.
        let mut main = restarted(waiting("CrashLoopBackOff"), ended(1, 8));
        main["name"] = json!("main");
        let side = || status("side", running());
        assert_eq!(by_phase("OnFailure", "Running", &[main, side()], &["side"], &[]), "wait");
        let other_works = [status("main", ended(0, 10)), status("second", running()), side()];
        assert_eq!(by_phase("OnFailure", "Running", &other_works, &["side"], &[]), "wait");
    }

    #[test]
    fn the_rules_of_a_container_say_whether_the_work_is_done() {
        let of = |action: &str, code: i32| {
            let rule = json!({"action": action, "exitCodes": {"operator": "In", "values": [42]}});
            let main = json!({"name": "main", "restartPolicy": "Never", "restartPolicyRules": [rule]});
            let pod = serde_json::from_value(json!({
                "spec": {"restartPolicy": "Never", "containers": [main, {"name": "side"}]},
                "status": {"phase": "Running", "containerStatuses": [status("main", ended(code, 10)), status("side", running())]},
            }))
            .unwrap();
            let (sidecars, fail_pod, ignore_errors) = (vec!["side".to_owned()], Vec::new(), Vec::new());
            match verdict(&pod, &SidecarRecord { method: Method::Phase, sidecars, fail_pod, ignore_errors }) {
                Verdict::Wait => "wait",
                Verdict::End { phase, .. } => phase,
            }
        };
        for action in ["Restart", "RestartAllContainers"] {
            assert_eq!((of(action, 42), of(action, 1), of(action, 0)), ("wait", "Failed", "Succeeded"), "{action}");
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

    /// Whether the manager looks before or after the next attempt of the sidecar makes no difference.
    #[test]
    fn a_wrapped_sidecar_that_waits_for_its_next_start_fails_the_pod_if_it_had_failed_before_the_end_of_the_work() {
        let of = |started: i64, at: i64| {
            let mut last = ended(1, at);
            last["terminated"]["startedAt"] = json!(format!("2026-01-01T00:00:{started:02}Z"));
            let pod = serde_json::from_value(json!({
                "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main"}, {"name": "side"}]},
                "status": {"phase": "Running", "containerStatuses": [
                    status("main", ended(0, 10)), restarted(waiting("CrashLoopBackOff"), last),
                ]},
            }))
            .unwrap();
            let sidecars = vec!["side".to_owned()];
            let (fail_pod, ignore_errors) = (Vec::new(), Vec::new());
            match verdict(&pod, &SidecarRecord { method: Method::Wrap, sidecars, fail_pod, ignore_errors }) {
                Verdict::Wait => "wait",
                Verdict::End { phase, .. } => phase,
            }
        };
        assert_eq!(of(4, 5), "Failed", "it failed before");
        assert_eq!(of(14, 14), "Failed", "it failed before, and repeats its error");
        assert_eq!(of(4, 12), "Succeeded", "it was killed after the work");
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
        assert_eq!(
            of(status("side", ended(143, 10)), ended(0, 10), true),
            Verdict::Wait,
            "kubelets are as quick as that"
        );
        // It was started again, so there was work left when it failed.
        let mut stopped = status("side", ended(143, 10));
        (stopped["lastState"], stopped["restartCount"]) = (ended(1, 10), json!(1));
        assert!(matches!(of(stopped, ended(0, 10), true), Verdict::End { phase: "Failed", .. }));
    }

    #[test]
    fn a_native_sidecar_that_a_rollout_has_restarted_has_not_failed() {
        // Its image was changed during its attempt 1, or never.
        let of = |is_updated: bool, restarts: i32, state: Value, last: Value| {
            let mut side = restarted(state, last);
            side["restartCount"] = json!(restarts);
            let record =
                r#"{"mesh":{"revision":"h","lastContainerStatuses":{"side":{"imageID":"a","restartCount":1}}}}"#;
            let annotations = if is_updated { json!({names::IN_PLACE_UPDATE_STATE: record}) } else { json!({}) };
            let pod = serde_json::from_value(json!({
                "metadata": {"annotations": annotations},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main"}],
                         "initContainers": [{"name": "side", "restartPolicy": "Always"}]},
                "status": {"phase": "Running", "containerStatuses": [status("main", running())], "initContainerStatuses": [side]},
            }))
            .unwrap();
            let (sidecars, fail_pod) = (vec!["side".to_owned()], vec!["side".to_owned()]);
            verdict(&pod, &SidecarRecord { method: Method::Native, sidecars, fail_pod, ignore_errors: Vec::new() })
        };
        let failed = |verdict: Verdict| matches!(verdict, Verdict::End { phase: "Failed", .. });
        assert!(failed(of(false, 2, running(), ended(143, 5))), "nothing was updated");
        assert!(!failed(of(true, 2, running(), ended(143, 5))), "it runs again");
        assert!(!failed(of(true, 1, waiting("CrashLoopBackOff"), ended(143, 5))), "it is about to");
        assert!(!failed(of(true, 1, ended(143, 5), ended(0, 1))), "it has just been stopped");
        assert!(failed(of(true, 3, running(), ended(1, 9))), "the new one failed");
        assert!(failed(of(true, 2, ended(1, 9), ended(143, 5))), "and is not restarted yet");
    }
}
