//! Pods whose sandbox is gone, as after a reboot of their machine.

use serde_json::{Value, json};

use crate::simulation::{Simulation, container, exits, serves, sidecar};

fn pod(policy: &str, containers: &[&str]) -> Value {
    json!({
        "restartPolicy": policy,
        "initContainers": [container("fetch"), sidecar("proxy"), container("unpack")],
        "containers": containers.iter().map(|name| container(name)).collect::<Vec<_>>(),
    })
}

fn simulate(policy: &str, containers: &[&str]) -> Simulation {
    let behaviours = [
        ("fetch", vec![exits(2, 0)]),
        ("proxy", vec![serves()]),
        ("unpack", vec![exits(3, 0)]),
        ("main", vec![serves()]),
        ("once", vec![exits(1, 0)]),
    ];
    Simulation::new(pod(policy, containers), behaviours)
}

#[test]
fn a_new_sandbox_runs_all_init_containers_again_before_the_rest() {
    let mut simulation = simulate("Always", &["main"]);
    simulation.run_to(10);
    simulation.reboot();
    simulation.run_to(20);
    insta::assert_snapshot!(simulation.log[6..].join("\n"), @r"
    10 reboot
    10 fetch starts 1
    12 fetch exits 0
    12 proxy starts 1
    12 unpack starts 1
    15 unpack exits 0
    15 main starts 1
    ");
    // Between two init containers the statuses from the sandbox before count, as in the kubelet.
    let phases = ["0 Pending", "5 Running", "10 Pending", "12 Running", "12 Pending", "15 Running"];
    assert_eq!(simulation.phases, phases);
    let counts = simulation.reported.iter().rev().take(3).cloned().collect::<Vec<_>>();
    assert!(counts.iter().all(|line| line.ends_with('1')), "{counts:?}");
}

#[test]
fn initialization_that_was_interrupted_begins_with_the_first_container() {
    let mut simulation = simulate("OnFailure", &["main"]);
    simulation.run_to(3);
    simulation.reboot();
    simulation.run_to(20);
    insta::assert_snapshot!(simulation.log[4..].join("\n"), @r"
    3 reboot
    3 fetch starts 1
    5 fetch exits 0
    5 proxy starts 1
    5 unpack starts 1
    8 unpack exits 0
    8 main starts 0
    ");
}

#[test]
fn what_has_succeeded_does_not_run_again_under_on_failure() {
    let mut simulation = simulate("OnFailure", &["once", "main"]);
    simulation.run_to(10);
    simulation.reboot();
    let plan = simulation.run_to(20);
    assert_eq!(simulation.log.iter().filter(|line| line.contains(" once starts ")).count(), 1);
    assert_eq!(simulation.log.last().unwrap(), "15 main starts 1");
    assert_eq!(plan.status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_pod_that_is_never_restarted_fails_with_the_container_that_was_running() {
    // While the first init container runs, while the second one does, and while the regular one does.
    for second in [1, 4, 10] {
        let mut simulation = simulate("Never", &["main"]);
        simulation.run_to(second);
        simulation.reboot();
        let plan = simulation.run_to(20);
        assert_eq!(simulation.log.last().unwrap(), &format!("{second} reboot"));
        assert_eq!(plan.status.phase.as_deref(), Some("Failed"), "{second}");
    }
}

#[test]
fn a_pod_that_is_never_restarted_starts_over_when_no_regular_container_has_run() {
    let mut simulation = simulate("Never", &["main"]);
    simulation.run_to(4);
    // The last init container has just succeeded, and the regular one was not started yet.
    simulation.node.sandbox = false;
    simulation.run_to(6);
    simulation.reboot();
    simulation.node.sandbox = true;
    let plan = simulation.run_to(20);
    assert_eq!(simulation.log.last().unwrap(), "11 main starts 0");
    assert_eq!(plan.status.phase.as_deref(), Some("Running"));
}

#[test]
fn a_regular_container_that_was_never_started_does_not_keep_a_lost_pod_pending() {
    let mut simulation = simulate("Never", &["once", "main"]);
    simulation.run_to(10);
    simulation.facts.remove("main");
    simulation.reboot();
    let plan = simulation.run_to(20);
    assert_eq!(simulation.log.last().unwrap(), "10 reboot");
    assert_eq!(plan.status.phase.as_deref(), Some("Failed"));
}
