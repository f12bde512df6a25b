//! How pods end.

use serde_json::json;

use crate::simulation::{Behaviour, Simulation, container, exits, serves, sidecar, stubborn};
use crate::{Stage, StopOrder};

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts_and_takes_the_sidecars_along() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [sidecar("proxy"), container("migrate")],
        "containers": [container("main")],
    });
    let behaviours = [("proxy", vec![serves()]), ("migrate", vec![exits(3, 1)]), ("main", vec![serves()])];
    let mut simulation = Simulation::new(spec, behaviours);
    let plan = simulation.run_to(60);
    assert_eq!(plan.stage, Stage::Ended);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 proxy starts 0
    0 migrate starts 0
    3 migrate exits 1
    3 proxy TERM, 30 s left
    3 proxy exits 0
    ");
    assert_eq!(simulation.phases, ["0 Pending", "3 Failed"]);
}

#[test]
fn sidecars_end_after_the_work_with_the_whole_grace_period() {
    let spec = json!({
        "restartPolicy": "OnFailure",
        "initContainers": [sidecar("log"), sidecar("proxy")],
        "containers": [container("work")],
    });
    let slow = Behaviour { exits_on_term: Some((4, 143)), ..serves() };
    let behaviours = [("log", vec![stubborn()]), ("proxy", vec![slow]), ("work", vec![exits(10, 0)])];
    let mut simulation = Simulation::new(spec, behaviours);
    let plan = simulation.run_to(100);
    assert_eq!(plan.stage, Stage::Ended);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 log starts 0
    0 proxy starts 0
    0 work starts 0
    10 work exits 0
    10 proxy TERM, 30 s left
    14 proxy exits 143
    14 log TERM, 26 s left
    40 log KILL
    40 log exits 137
    ");
    // How sidecars end does not matter.
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "40 Succeeded"]);
    insta::assert_snapshot!(simulation.reported.join("\n"), @r"
    0 log PodInitializing 0
    0 proxy PodInitializing 0
    0 work PodInitializing 0
    0 log Running 0
    0 proxy Running 0
    0 work Running 0
    10 work Completed 0 0
    40 log Error 137 0
    40 proxy Error 143 0
    ");
}

#[test]
fn on_deletion_sidecars_wait_for_regular_containers_and_share_their_time() {
    let spec = json!({
        "terminationGracePeriodSeconds": 10,
        "initContainers": [sidecar("log"), sidecar("proxy")],
        "containers": [container("a"), container("b")],
    });
    let mut simulation = Simulation::new(
        spec,
        [("log", vec![serves()]), ("proxy", vec![stubborn()]), ("a", vec![serves()]), ("b", vec![stubborn()])],
    );
    simulation.run_to(5);
    simulation.delete(10);
    let plan = simulation.run_to(100);
    assert_eq!(plan.stage, Stage::Ended);
    insta::assert_snapshot!(simulation.log[4..].join("\n"), @r"
    5 a TERM, 10 s left
    5 b TERM, 10 s left
    5 a exits 0
    15 log TERM, 2 s left
    15 proxy TERM, 2 s left
    15 b KILL
    15 log exits 0
    15 b exits 137
    17 proxy KILL
    17 proxy exits 137
    ");
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "17 Failed"]);
    let killing: Vec<&str> = simulation.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(
        killing,
        ["Stopping container log", "Stopping container proxy", "Stopping container a", "Stopping container b"]
    );
}

#[test]
fn pre_stop_hooks_run_at_once_and_their_time_is_taken_from_the_grace_period() {
    let hook = json!({"preStop": {"sleep": {"seconds": 1}}});
    let mut proxy = sidecar("proxy");
    proxy["lifecycle"] = hook.clone();
    let mut main = container("main");
    main["lifecycle"] = hook;
    let spec = json!({"initContainers": [proxy], "containers": [main]});
    let mut simulation = Simulation::new(
        spec,
        [
            ("proxy", vec![Behaviour { pre_stop: 3, ..stubborn() }]),
            ("main", vec![Behaviour { pre_stop: 50, exits_on_term: Some((1, 0)), ..serves() }]),
        ],
    );
    simulation.run_to(5);
    simulation.delete(20);
    simulation.run_to(100);
    insta::assert_snapshot!(simulation.log[2..].join("\n"), @r"
    5 proxy preStop
    5 main preStop
    25 proxy TERM, 2 s left
    25 main TERM, 2 s left
    26 main exits 0
    27 proxy KILL
    27 proxy exits 137
    ");
}

#[test]
fn a_forced_deletion_still_gives_two_seconds() {
    let mut simulation = Simulation::new(
        json!({"initContainers": [sidecar("proxy")], "containers": [container("main")]}),
        [("proxy", vec![stubborn()]), ("main", vec![stubborn()])],
    );
    simulation.run_to(5);
    simulation.delete(0);
    simulation.run_to(100);
    insta::assert_snapshot!(simulation.log[2..].join("\n"), @r"
    5 main TERM, 2 s left
    6 proxy TERM, 2 s left
    7 main KILL
    7 main exits 137
    8 proxy KILL
    8 proxy exits 137
    ");
}

#[test]
fn a_pod_past_its_deadline_is_failed_when_its_containers_have_ended() {
    let spec = json!({"activeDeadlineSeconds": 30, "containers": [container("main")]});
    let mut simulation = Simulation::new(spec, [("main", vec![stubborn()])]);
    let plan = simulation.run_to(100);
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "60 Failed"]);
    assert_eq!(plan.status.reason.as_deref(), Some("DeadlineExceeded"));
    assert_eq!(plan.status.message.as_deref(), Some("Pod was active on the node longer than the specified deadline"));
    let reasons: Vec<&str> = simulation.notes.iter().map(|note| note.reason).collect();
    assert_eq!(reasons, ["DeadlineExceeded", "Killing"]);
}

#[test]
fn an_evicted_pod_has_the_nodes_reason_unless_all_ended_well() {
    for (code, phase, reason) in [(143, "Failed", Some("Evicted")), (0, "Succeeded", None)] {
        let main = Behaviour { exits_on_term: Some((1, code)), ..serves() };
        let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![main])]);
        simulation.run_to(5);
        let condition = serde_json::from_value(json!({"type": "DisruptionTarget", "status": "True"})).unwrap();
        simulation.stop = Some(StopOrder {
            reason: "Evicted".to_owned(),
            message: "The node was low on resource: memory. ".to_owned(),
            grace_period_seconds: Some(3),
            condition: Some(condition),
        });
        let plan = simulation.run_to(50);
        assert_eq!(plan.status.phase.as_deref(), Some(phase));
        assert_eq!(plan.status.reason.as_deref(), reason);
        let conditions = plan.status.conditions.unwrap();
        assert_eq!(conditions[0].type_, "DisruptionTarget");
        assert_eq!(simulation.log[1], "5 main TERM, 3 s left");
    }
}

#[test]
fn a_pod_that_is_deleted_before_it_ran_fails_and_its_containers_are_unknown() {
    let refused = Behaviour { refused: Some("CreateContainerConfigError"), ..serves() };
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![refused])]);
    simulation.run_to(5);
    simulation.delete(30);
    let plan = simulation.run_to(6);
    assert_eq!((plan.stage, plan.status.phase.as_deref()), (Stage::Ended, Some("Failed")));
    assert_eq!(simulation.reported.last().unwrap(), "5 main ContainerStatusUnknown 137 0");
}

#[test]
fn a_terminal_phase_in_the_api_ends_everything_and_stays() {
    for phase in ["Succeeded", "Failed"] {
        let main = Behaviour { exits_on_term: Some((2, 143)), ..serves() };
        let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![main])]);
        simulation.run_to(5);
        simulation.pod.status.as_mut().unwrap().phase = Some(phase.to_owned());
        let plan = simulation.run_to(50);
        assert_eq!((plan.stage, plan.status.phase.as_deref()), (Stage::Ended, Some(phase)));
        assert_eq!(simulation.log[1..], ["5 main TERM, 30 s left", "7 main exits 143"]);
    }
}

#[test]
fn a_second_deletion_with_a_shorter_grace_period_does_not_hurry_what_is_being_stopped() {
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![stubborn()])]);
    simulation.run_to(5);
    simulation.delete(30);
    simulation.run_to(10);
    simulation.delete(1);
    simulation.run_to(100);
    assert_eq!(simulation.log[1..], ["5 main TERM, 30 s left", "35 main KILL", "35 main exits 137"]);
}

#[test]
fn a_sidecar_that_waits_for_its_next_start_does_not_keep_a_finished_pod() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [sidecar("proxy")],
        "containers": [container("work")],
    });
    let behaviours = [("proxy", vec![exits(1, 1)]), ("work", vec![exits(5, 0)])];
    let mut simulation = Simulation::new(spec, behaviours);
    let plan = simulation.run_to(100);
    assert_eq!((plan.stage, plan.status.phase.as_deref()), (Stage::Ended, Some("Succeeded")));
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "5 Succeeded"]);
    // As with every container that is not seen to end with its pod.
    assert!(
        simulation.reported.contains(&"5 proxy ContainerStatusUnknown 137 1".to_owned()),
        "{:#?}",
        simulation.reported
    );
}
