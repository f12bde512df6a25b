//! Inputs and outputs of kubernetes `printers_test.go` (`TestPrintPod`, `TestPrintPodWithRestartableInitContainer`, `TestPrintPodwide`).

use serde_json::{Value, json};

use crate::table::{row, row_conditions};

const NOW: &str = "2026-03-10T12:00:00Z";
const AGO_10S: &str = "2026-03-10T11:59:50Z";
const AGO_20S: &str = "2026-03-10T11:59:40Z";
const AGO_2M: &str = "2026-03-10T11:58:00Z";
const AGO_5D: &str = "2026-03-05T12:00:00Z";

fn cells(pod: &Value) -> Vec<Value> {
    row("", "Pod", pod, NOW.parse().expect("a time"))
}

/// A pod of as many containers as there are statuses, which are named after their place.
fn pod(phase: &str, containers: Value) -> Value {
    let specs: Vec<Value> = (0..containers.as_array().map_or(0, Vec::len)).map(|_| json!({})).collect();
    json!({"metadata": {"name": "p"}, "spec": {"containers": specs}, "status": {"phase": phase, "containerStatuses": containers}})
}

fn with(mut pod: Value, path: &str, value: Value) -> Value {
    let (parent, field) = path.rsplit_once('/').expect("a path");
    pod.pointer_mut(parent).expect("its parent")[field] = value;
    pod
}

fn running(ready: bool, restarts: i64) -> Value {
    json!({"ready": ready, "restartCount": restarts, "state": {"running": {}}})
}

fn waiting(reason: &str, restarts: i64) -> Value {
    json!({"restartCount": restarts, "state": {"waiting": {"reason": reason}}})
}

fn ended(exit_code: i64, reason: &str) -> Value {
    json!({"state": {"terminated": {"exitCode": exit_code, "reason": reason}}})
}

fn restarted(finished_at: &str, container: Value) -> Value {
    with(container, "/lastState", json!({"terminated": {"finishedAt": finished_at}}))
}

fn named(name: &str, container: Value) -> Value {
    with(container, "/name", name.into())
}

/// One waiting container, and init containers with their statuses.
fn init(specs: Value, statuses: Value) -> Value {
    let pod = with(pod("podPhase", json!([waiting("", 0)])), "/spec/initContainers", specs);
    with(pod, "/status/initContainerStatuses", statuses)
}

#[test]
fn the_containers_say_what_a_pod_is_doing() {
    let ready = json!([{"type": "Ready", "status": "True"}]);
    let half = json!([with(ended(0, "Completed"), "/restartCount", 3.into()), running(true, 3)]);
    let table = [
        (pod("podPhase", json!([running(true, 3), {"restartCount": 3}])), "1/2", "podPhase", "6"),
        (pod("podPhase", json!([running(true, 3), waiting("Why", 3)])), "1/2", "Why", "6"),
        (pod("podPhase", json!([waiting("Why", 3), ended(0, "Ended")])), "0/2", "Why", "3"),
        (
            with(pod("podPhase", json!([running(true, 3)])), "/status/reason", "podReason".into()),
            "1/1",
            "podReason",
            "3",
        ),
        (pod("Running", half.clone()), "1/2", "NotReady", "6"),
        (with(pod("Running", half), "/status/conditions", ready), "1/2", "Running", "6"),
        (pod("Running", json!([restarted(AGO_5D, running(true, 3))])), "1/1", "Running", "3 (5d ago)"),
        (
            pod("Running", json!([restarted(AGO_5D, running(true, 6)), restarted(AGO_2M, running(true, 3))])),
            "2/2",
            "Running",
            "9 (2m ago)",
        ),
        (pod("Succeeded", json!([ended(0, "Completed")])), "0/1", "Completed", "0"),
        (pod("Failed", json!([ended(1, "Error")])), "0/1", "Error", "0"),
        (pod("Failed", json!([ended(1, "podCrash"), running(true, 0)])), "1/2", "podCrash", "0"),
        (pod("Failed", json!([ended(0, "Completed"), ended(1, "podCrash"), running(true, 0)])), "1/3", "podCrash", "0"),
        (pod("Failed", json!([ended(0, "Completed"), ended(1, "podCrash")])), "0/2", "podCrash", "0"),
        (pod("Running", json!([ended(137, "")])), "0/1", "ExitCode:137", "0"),
        (pod("Running", json!([{"state": {"terminated": {"exitCode": 137, "signal": 9}}}])), "0/1", "Signal:9", "0"),
    ];
    for (pod, want_ready, want_status, want_restarts) in table {
        let want = [json!(want_ready), json!(want_status), json!(want_restarts)];
        assert_eq!(cells(&pod)[1..4], want, "{pod:#}");
    }
}

#[test]
fn init_containers_are_counted_until_they_are_done() {
    let restarting = restarted(AGO_10S, running(false, 3));
    let done = restarted(AGO_2M, with(ended(0, ""), "/restartCount", 2.into()));
    let table = [
        (init(json!([{}]), json!([restarting])), "0/1", "Init:0/1", "3 (10s ago)"),
        (init(json!([{}, {}]), json!([restarting, waiting("", 0)])), "0/1", "Init:0/2", "3 (10s ago)"),
        (init(json!([{}, {}]), json!([done, restarting])), "0/1", "Init:1/2", "5 (10s ago)"),
        (init(json!([{}]), json!([waiting("CrashLoopBackOff", 1)])), "0/1", "Init:CrashLoopBackOff", "1"),
        (init(json!([{}]), json!([waiting("PodInitializing", 0)])), "0/1", "Init:0/1", "0"),
        (init(json!([{}]), json!([ended(1, "Error")])), "0/1", "Init:Error", "0"),
        (init(json!([{}]), json!([ended(3, "")])), "0/1", "Init:ExitCode:3", "0"),
    ];
    for (pod, want_ready, want_status, want_restarts) in table {
        let want = [json!(want_ready), json!(want_status), json!(want_restarts)];
        assert_eq!(cells(&pod)[1..4], want, "{pod:#}");
    }
    let main = json!([restarted(AGO_20S, running(false, 4))]);
    let after = with(init(json!([{}]), json!([done])), "/status/containerStatuses", main);
    assert_eq!(cells(&after)[1..4], [json!("0/1"), json!("podPhase"), json!("4 (20s ago)")]);
}

#[test]
fn sidecars_count_as_containers() {
    let specs = json!([{"name": "init"}, {"name": "proxy", "restartPolicy": "Always"}, {"name": "last"}]);
    let done = named("init", ended(0, ""));
    let proxy = |started, ready, restarts: i64| {
        let status = json!({"name": "proxy", "started": started, "ready": ready, "restartCount": restarts, "state": {"running": {}}});
        if restarts > 0 { restarted(AGO_10S, status) } else { status }
    };
    let last = named("last", ended(0, ""));
    let main = json!([restarted(AGO_20S, running(true, 1))]);
    let table = [
        (json!([done, proxy(false, false, 0)]), "0/2", "Init:1/3", "0"),
        (json!([done, proxy(true, false, 0), named("last", waiting("", 0))]), "0/2", "Init:2/3", "0"),
        (json!([done, proxy(true, true, 3), last]), "2/2", "podPhase", "4 (10s ago)"),
        (json!([done, proxy(true, false, 3), last]), "1/2", "podPhase", "4 (10s ago)"),
    ];
    for (statuses, want_ready, want_status, want_restarts) in table {
        let pod = with(init(specs.clone(), statuses), "/status/containerStatuses", main.clone());
        let want = [json!(want_ready), json!(want_status), json!(want_restarts)];
        assert_eq!(cells(&pod)[1..4], want, "{pod:#}");
    }
}

#[test]
fn a_pod_that_is_being_deleted_is_terminating_unless_it_has_ended() {
    let deleted = |pod| with(pod, "/metadata/deletionTimestamp", AGO_10S.into());
    let lost = with(pod("Running", json!([running(true, 0)])), "/status/reason", "NodeLost".into());
    let gated = with(
        pod("Pending", json!([])),
        "/status/conditions",
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
    );
    for (pod, want) in [
        (deleted(pod("Succeeded", json!([ended(0, "Completed")]))), "Completed"),
        (deleted(pod("Running", json!([running(false, 0)]))), "Terminating"),
        (deleted(pod("Pending", json!([]))), "Terminating"),
        (lost.clone(), "NodeLost"),
        (deleted(lost), "Unknown"),
        (gated, "SchedulingGated"),
    ] {
        assert_eq!(cells(&pod)[2], want, "{pod:#}");
    }
}

#[test]
fn wide_cells_say_where_the_pod_is() {
    let bare = pod("Running", json!([]));
    assert_eq!(cells(&bare)[4..], ["<unknown>", "<none>", "<none>", "<none>", "<none>"].map(Value::from));
    let mut placed = with(bare, "/metadata/creationTimestamp", AGO_2M.into());
    placed["spec"]["nodeName"] = "node1".into();
    placed["spec"]["readinessGates"] = json!([{"conditionType": "a"}, {"conditionType": "b"}, {"conditionType": "c"}]);
    placed["status"]["podIPs"] = json!([{"ip": "1.1.1.1"}, {"ip": "2001:db8::"}]);
    placed["status"]["nominatedNodeName"] = "node2".into();
    placed["status"]["conditions"] = json!([{"type": "a", "status": "True"}, {"type": "b", "status": "False"}]);
    assert_eq!(cells(&placed)[4..], ["2m", "1.1.1.1", "node1", "node2", "1/3"].map(Value::from));
}

#[test]
fn a_pod_that_has_ended_says_so_in_the_row_as_well() {
    assert_eq!(row_conditions("", "Pod", &pod("Running", json!([]))), [] as [Value; 0]);
    let ended = row_conditions("", "Pod", &pod("Succeeded", json!([])));
    let want = json!({"type": "Completed", "status": "True", "reason": "Succeeded", "message": "The pod has completed successfully."});
    assert_eq!(ended, [want]);
    assert_eq!(row_conditions("", "Pod", &pod("Failed", json!([])))[0]["message"], "The pod failed.");
}
