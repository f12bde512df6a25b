//! Sidecars with `sidecar: true` (KEP-0008).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::simulation::{Behaviour, Simulation, container, exits, facts, pod, serves, sidecar, stubborn};
use crate::{Action, ContainerFacts, Marked, NodeFacts, Snapshot, Stage, State, plan};

fn marked(name: &str) -> Value {
    json!({"name": name, "image": "i", "sidecar": true})
}

/// A pod of `main` and the marked sidecars.
fn spec(policy: &str, sidecars: &[&str]) -> Value {
    let mut containers = vec![container("main")];
    containers.extend(sidecars.iter().map(|name| marked(name)));
    json!({"restartPolicy": policy, "containers": containers})
}

/// Ends with a code when it is asked to end.
fn ends_with(code: i32) -> Behaviour {
    Behaviour { exits_on_term: Some((0, code)), ..serves() }
}

fn second(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

/// A container that has exited at this second.
fn exited(code: i32, at: i64) -> ContainerFacts {
    let mut facts = facts('0').unwrap();
    facts.current.as_mut().unwrap().state = State::Exited {
        since: Some(second(0)),
        at: Some(second(at)),
        code,
        signal: None,
        reason: if code == 0 { "Completed" } else { "Error" }.to_owned(),
        message: String::new(),
    };
    facts
}

/// The rule of a container, if it has one: action, operator, exit code.
type Rule = Option<(&'static str, &'static str, i32)>;

/// Its name, the pod's policy, the container's, its rule; whether 0, 1 and 42 are its end.
type Restarts = (&'static str, &'static str, Option<&'static str>, Rule, [bool; 3]);

const RESTART_42: Rule = Some(("Restart", "In", 42));

/// When the work is done, by the pod's restart policy, the container's own, and its rules.
const RESTARTS: [Restarts; 12] = [
    ("Never", "Never", None, None, [true, true, true]),
    ("OnFailure", "OnFailure", None, None, [true, false, false]),
    ("Always", "Always", None, None, [false, false, false]),
    ("Never, and OnFailure of its own", "Never", Some("OnFailure"), None, [true, false, false]),
    ("Never, and Always of its own", "Never", Some("Always"), None, [false, false, false]),
    ("OnFailure, and Never of its own", "OnFailure", Some("Never"), None, [true, true, true]),
    ("Always, and Never of its own", "Always", Some("Never"), None, [true, true, true]),
    ("Never with a rule", "Never", Some("Never"), RESTART_42, [true, true, false]),
    ("Always, and Never of its own with a rule", "Always", Some("Never"), RESTART_42, [true, true, false]),
    ("OnFailure of its own with a rule", "Never", Some("OnFailure"), RESTART_42, [true, false, false]),
    ("OnFailure with a rule", "OnFailure", Some("OnFailure"), Some(("Restart", "In", 0)), [false, false, false]),
    ("Never with a rule of exceptions", "Never", Some("Never"), Some(("Restart", "NotIn", 0)), [true, false, false]),
];

/// What a sidecar is doing when the work is done, and whether the pod fails by it.
fn sidecar_states() -> Vec<(&'static str, Option<ContainerFacts>, bool)> {
    let refused = |reason: &str| {
        let mut facts = facts('r').unwrap();
        let at = second(50);
        facts.current.as_mut().unwrap().state =
            State::Refused { reason: reason.to_owned(), message: String::new(), at };
        facts
    };
    let mut lost = exited(137, 100);
    if let State::Exited { reason, .. } = &mut lost.current.as_mut().unwrap().state {
        "ContainerStatusUnknown".clone_into(reason);
    }
    let mut lost_early = exited(137, 50);
    if let State::Exited { reason, .. } = &mut lost_early.current.as_mut().unwrap().state {
        "ContainerStatusUnknown".clone_into(reason);
    }
    let mut crash_loop = exited(1, 50);
    crash_loop.current.as_mut().unwrap().held = Some(crate::Held { since: second(50), seconds: 80 });
    let mut pull_failed_after_error = refused("ErrImagePull");
    pull_failed_after_error.previous = exited(1, 40).current;
    vec![
        ("running", facts('r'), false),
        ("not started up", facts('u'), false),
        ("waiting for its first start", None, false),
        ("its image cannot be pulled", Some(refused("ErrImagePull")), false),
        ("CrashLoopBackOff", Some(crash_loop), true),
        ("refused after an error", Some(pull_failed_after_error), true),
        ("ended with 0 early", Some(exited(0, 50)), false),
        ("ended with 1 early", Some(exited(1, 50)), true),
        ("ended with 143 early", Some(exited(143, 50)), true),
        ("ended with 1 after the work", Some(exited(1, 101)), false),
        ("lost by the node before the end of the work", Some(lost_early), true),
        ("lost by the node after the work", Some(lost), false),
    ]
}

#[test]
fn the_work_is_done_when_its_last_container_has_ended_for_good_and_then_the_sidecars_end() {
    for (name, policy, own, rule, done) in RESTARTS {
        for (code, is_done) in [0, 1, 42].into_iter().zip(done) {
            for (state, sidecar, fails) in sidecar_states() {
                let case = format!("{name}: main ended with {code}, the sidecar is {state}");
                let mut spec = spec(policy, &["side"]);
                if let Some(own) = own {
                    spec["containers"][0]["restartPolicy"] = json!(own);
                }
                if let Some((action, operator, value)) = rule {
                    let rule = json!({"action": action, "exitCodes": {"operator": operator, "values": [value]}});
                    spec["containers"][0]["restartPolicyRules"] = json!([rule]);
                }
                let pod = pod(spec);
                let mut containers: std::collections::BTreeMap<String, ContainerFacts> =
                    [("main".to_owned(), exited(code, 100))].into();
                containers.extend(sidecar.map(|facts| ("side".to_owned(), facts)));
                let node = NodeFacts { sandbox: true, ..NodeFacts::default() };
                let marked: Marked = ["side"].into_iter().collect();
                let look = |containers: &_, now| {
                    plan(&Snapshot { pod: &pod, marked: &marked, containers, node: &node, stop: None, now })
                };
                let first = look(&containers, second(102));
                let runs = state.starts_with("running") || state.starts_with("not started");
                let term =
                    |action: &Action| matches!(action, Action::Terminate { container, .. } if container == "side");
                if !is_done {
                    assert_eq!(first.stage, Stage::Active, "{case}");
                    assert!(!first.actions.iter().any(term), "{case}");
                    continue;
                }
                let starts = |action: &Action| matches!(action, Action::Start { .. });
                assert!(!first.actions.iter().any(starts), "{case}");
                assert_eq!(first.stage, if runs { Stage::Terminating } else { Stage::Ended }, "{case}");
                assert_eq!(first.actions.iter().any(term), runs, "{case}");
                let expected = if code == 0 && !fails { "Succeeded" } else { "Failed" };
                if !runs {
                    assert_eq!(first.status.phase.as_deref(), Some(expected), "{case}");
                    continue;
                }
                assert_ne!(first.status.phase.as_deref(), Some(expected), "{case}: something still runs");
                // However the sidecar ends now.
                for sidecar_code in [0, 1, 137, 143] {
                    let mut after = containers.clone();
                    crate::record(&mut after, &first.actions, second(102));
                    let stopping = after["side"].current.as_ref().unwrap().stopping.clone();
                    let mut ended = exited(sidecar_code, 103);
                    ended.current.as_mut().unwrap().stopping = stopping;
                    after.insert("side".to_owned(), ended);
                    let last = look(&after, second(103));
                    assert_eq!(last.status.phase.as_deref(), Some(expected), "{case}, which ends with {sidecar_code}");
                    let statuses = last.status.container_statuses.unwrap();
                    let side = statuses.iter().find(|status| status.name == "side").unwrap();
                    let exit = side.state.as_ref().unwrap().terminated.as_ref().unwrap();
                    assert_eq!((exit.reason.as_deref(), exit.exit_code), (Some("Completed"), sidecar_code), "{case}");
                }
            }
        }
    }
}

#[test]
fn sidecars_start_beside_the_work_are_signalled_together_and_one_that_ignores_it_is_killed_after_the_grace_period() {
    let mut simulation = Simulation::new(
        spec("Never", &["proxy", "log"]),
        [("main", vec![exits(10, 0)]), ("proxy", vec![ends_with(143)]), ("log", vec![stubborn()])],
    );
    simulation.run_to(100);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 main starts 0
    0 proxy starts 0
    0 log starts 0
    10 main exits 0
    10 proxy TERM, 30 s left
    10 log TERM, 30 s left
    10 proxy exits 143
    40 log KILL
    40 log exits 137
    ");
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "40 Succeeded"]);
    let last = |name: &str| simulation.reported.iter().rfind(|line| line.contains(name)).unwrap().clone();
    assert_eq!(last(" proxy "), "40 proxy Completed 143 0");
    assert_eq!(last(" log "), "40 log Completed 137 0");
}

#[test]
fn the_five_rows_of_the_phase_hold_under_never_and_on_failure() {
    let early = |code: i32| vec![exits(5, code), serves()];
    let rows = |policy: &str| {
        // Main, the sidecar; the phase.
        let restarted = if policy == "Never" { "Failed" } else { "Succeeded" };
        [
            ("1", exits(10, 0), vec![ends_with(0)], "Succeeded"),
            ("2", exits(10, 0), vec![ends_with(143)], "Succeeded"),
            ("2", exits(10, 0), vec![stubborn()], "Succeeded"),
            ("3", exits(10, 0), early(0), "Succeeded"),
            // Under OnFailure the sidecar runs again and is well.
            ("4", exits(10, 0), early(1), restarted),
            // One that crashes again and again waits for its next start when the work is done.
            ("4", exits(10, 0), vec![exits(4, 1)], "Failed"),
        ]
    };
    for policy in ["Never", "OnFailure"] {
        for (row, main, side, expected) in rows(policy) {
            let mut simulation = Simulation::new(spec(policy, &["side"]), [("main", vec![main]), ("side", side)]);
            assert_eq!(simulation.run_to(100).stage, Stage::Ended);
            let last = simulation.phases.last().unwrap();
            assert!(last.ends_with(expected), "row {row} under {policy}: {last} {:#?}", simulation.log);
        }
    }
    for side in [ends_with(0), ends_with(143), stubborn(), exits(5, 0), exits(5, 1)] {
        let mut simulation =
            Simulation::new(spec("Never", &["side"]), [("main", vec![exits(10, 1)]), ("side", vec![side])]);
        simulation.run_to(100);
        assert!(simulation.phases.last().unwrap().ends_with("Failed"), "row 5: {:#?}", simulation.log);
    }
}

#[test]
fn work_that_will_run_again_keeps_its_sidecars() {
    let mut simulation = Simulation::new(
        spec("OnFailure", &["side"]),
        [("main", vec![exits(10, 1), exits(10, 1), exits(10, 0)]), ("side", vec![ends_with(143)])],
    );
    simulation.run_to(29);
    assert!(!simulation.log.iter().any(|line| line.contains("TERM")), "{:#?}", simulation.log);
    simulation.run_to(100);
    assert_eq!(simulation.phases.last().unwrap(), "40 Succeeded");
    let mut forever =
        Simulation::new(spec("Always", &["side"]), [("main", vec![exits(10, 0)]), ("side", vec![serves()])]);
    forever.run_to(1000);
    assert!(!forever.log.iter().any(|line| line.contains("TERM")), "{:#?}", forever.log);
}

#[test]
fn a_sidecars_own_policy_and_rules_say_whether_it_runs_again_before_the_end_of_the_work() {
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [1]}}]);
    // The pod's policy, the sidecar's, its rules; how often it was started, and the phase.
    let rows = [
        ("OnFailure", Some("Never"), None, 1, "Failed"),
        ("Never", Some("Always"), None, 2, "Succeeded"),
        ("Never", Some("Never"), Some(rule), 2, "Succeeded"),
    ];
    for (policy, own, rules, starts, expected) in rows {
        let mut spec = spec(policy, &["side"]);
        spec["containers"][1]["restartPolicy"] = json!(own);
        spec["containers"][1]["restartPolicyRules"] = json!(rules);
        let behaviours = [("main", vec![exits(40, 0)]), ("side", vec![exits(5, 1), ends_with(143)])];
        let mut simulation = Simulation::new(spec, behaviours);
        simulation.run_to(100);
        let count = simulation.log.iter().filter(|line| line.contains("side starts")).count();
        assert_eq!(count, starts, "{policy}, {own:?}: {:#?}", simulation.log);
        assert!(simulation.phases.last().unwrap().ends_with(expected), "{policy}, {own:?}: {:?}", simulation.phases);
        assert!(
            !simulation.log.iter().skip_while(|line| !line.contains("main exits")).any(|line| line.contains("starts"))
        );
    }
}

#[test]
fn an_order_to_stop_while_sidecars_end_gives_no_second_grace_period() {
    let behaviours = [("main", vec![exits(10, 0)]), ("side", vec![stubborn()])];
    let mut simulation = Simulation::new(spec("Never", &["side"]), behaviours);
    simulation.run_to(25);
    simulation.stop = Some(crate::StopOrder {
        reason: "Evicted".to_owned(),
        message: "The node was low on resource: memory.".to_owned(),
        grace_period_seconds: None,
        condition: None,
    });
    simulation.run_to(100);
    let signals: Vec<&String> =
        simulation.log.iter().filter(|line| line.contains("TERM") || line.contains("KILL")).collect();
    assert_eq!(signals, ["10 side TERM, 30 s left", "40 side KILL"]);
}

#[test]
fn an_ephemeral_container_holds_no_sidecar_back_and_ends_with_the_pod() {
    let mut spec = spec("Never", &["side"]);
    spec["ephemeralContainers"] = json!([{"name": "shell", "image": "i"}]);
    let behaviours = [("main", vec![exits(10, 0)]), ("side", vec![ends_with(143)]), ("shell", vec![ends_with(143)])];
    let mut simulation = Simulation::new(spec, behaviours);
    simulation.run_to(100);
    let signals: Vec<&String> = simulation.log.iter().filter(|line| line.contains("TERM")).collect();
    assert_eq!(signals, ["10 side TERM, 30 s left", "10 shell TERM, 30 s left"]);
    assert_eq!(simulation.phases.last().unwrap(), "10 Succeeded");
}

#[test]
fn every_sidecar_has_two_seconds_after_term_however_short_the_grace_period_and_long_its_hook() {
    for (grace, hook, expected) in [
        (0, 0, ["10 side TERM, 2 s left", "12 side KILL"]),
        (1, 0, ["10 side TERM, 2 s left", "12 side KILL"]),
        (5, 100, ["15 side TERM, 2 s left", "17 side KILL"]),
    ] {
        let mut spec = spec("Never", &["side"]);
        spec["terminationGracePeriodSeconds"] = json!(grace);
        if hook > 0 {
            spec["containers"][1]["lifecycle"] = json!({"preStop": {"exec": {}}});
        }
        let side = Behaviour { pre_stop: hook, ..stubborn() };
        let mut simulation = Simulation::new(spec, [("main", vec![exits(10, 0)]), ("side", vec![side])]);
        simulation.run_to(300);
        let signals: Vec<&String> =
            simulation.log.iter().filter(|line| line.contains("TERM") || line.contains("KILL")).collect();
        assert_eq!(signals, expected, "grace period {grace}, hook {hook}");
        assert!(simulation.phases.last().unwrap().ends_with("Succeeded"), "{:?}", simulation.phases);
    }
}

#[test]
fn all_work_is_waited_for() {
    let mut spec = spec("Never", &["side"]);
    spec["containers"].as_array_mut().unwrap().push(container("second"));
    let behaviours = [("main", vec![exits(10, 0)]), ("second", vec![exits(20, 0)]), ("side", vec![ends_with(143)])];
    let mut simulation = Simulation::new(spec, behaviours);
    simulation.run_to(100);
    assert_eq!(simulation.phases.last().unwrap(), "20 Succeeded");
}

#[test]
fn a_deletion_while_sidecars_end_gives_no_second_grace_period() {
    let behaviours = [("main", vec![exits(10, 0)]), ("side", vec![stubborn()])];
    let mut simulation = Simulation::new(spec("Never", &["side"]), behaviours);
    simulation.run_to(25);
    simulation.delete(30);
    simulation.run_to(100);
    let signals: Vec<&String> =
        simulation.log.iter().filter(|line| line.contains("TERM") || line.contains("KILL")).collect();
    assert_eq!(signals, ["10 side TERM, 30 s left", "40 side KILL"]);
    assert_eq!(simulation.phases.last().unwrap(), "40 Succeeded");
}

#[test]
fn a_deletion_before_the_work_is_done_treats_all_containers_alike() {
    let slow = |seconds| Behaviour { exits_on_term: Some((seconds, 143)), ..serves() };
    let behaviours = [("main", vec![slow(1)]), ("side", vec![slow(2)])];
    let mut simulation = Simulation::new(spec("Never", &["side"]), behaviours);
    simulation.run_to(5);
    simulation.delete(30);
    simulation.run_to(100);
    let signals: Vec<&String> = simulation.log.iter().filter(|line| line.contains("TERM")).collect();
    assert_eq!(signals, ["5 main TERM, 30 s left", "5 side TERM, 30 s left"]);
    assert_eq!(simulation.phases.last().unwrap(), "7 Failed");
    assert_eq!(simulation.reported.last().unwrap(), "7 side Error 143 0");
}

#[test]
fn pre_stop_hooks_run_and_native_sidecars_end_after_the_marked_ones() {
    let mut spec = spec("Never", &["side"]);
    spec["initContainers"] = json!([sidecar("native")]);
    spec["containers"][1]["lifecycle"] = json!({"preStop": {"exec": {}}});
    let side = Behaviour { pre_stop: 4, exits_on_term: Some((3, 0)), ..serves() };
    let behaviours = [("main", vec![exits(10, 0)]), ("side", vec![side]), ("native", vec![serves()])];
    let mut simulation = Simulation::new(spec, behaviours);
    simulation.run_to(100);
    let after: Vec<&String> = simulation.log.iter().skip_while(|line| !line.contains("main exits")).collect();
    assert_eq!(
        after,
        [
            "10 main exits 0",
            "10 side preStop",
            "14 side TERM, 26 s left",
            "17 side exits 0",
            "17 native TERM, 23 s left",
            "17 native exits 0"
        ]
    );
}

#[test]
fn a_reboot_after_the_work_does_not_run_it_again_nor_fail_it() {
    for policy in ["Never", "OnFailure"] {
        let behaviours = [("main", vec![exits(10, 0)]), ("side", vec![stubborn()])];
        let mut simulation = Simulation::new(spec(policy, &["side"]), behaviours);
        simulation.run_to(20);
        simulation.reboot();
        simulation.run_to(100);
        assert!(simulation.phases.last().unwrap().ends_with("20 Succeeded"), "{policy}: {:?}", simulation.phases);
    }
}
