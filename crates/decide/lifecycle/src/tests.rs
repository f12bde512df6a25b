//! Whole lives of pods, over virtual hours.

mod marked;
mod reboot;
mod termination;

use serde_json::json;

use crate::simulation::{Behaviour, Simulation, container, exits, serves, sidecar, stubborn};
use crate::{State, Unhealthy};

fn starts(simulation: &Simulation) -> Vec<i64> {
    let starts = simulation.log.iter().filter(|line| line.contains(" starts "));
    starts.map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_crashing_container_waits_ten_seconds_and_then_twice_as_long_each_time_up_to_five_minutes() {
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![exits(0, 1)])]);
    simulation.run_to(1000);
    let waits: Vec<i64> = starts(&simulation).windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    let back_off: Vec<&str> = simulation.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(back_off.len(), 8);
    assert!(simulation.notes.iter().all(|note| note.warning && note.reason == "BackOff"));
    assert_eq!(back_off[0], "Back-off restarting failed container main in pod web_default(u)");
    insta::assert_snapshot!(simulation.reported[..7].join("\n"), @r"
    0 main ContainerCreating 0
    0 main Error 1 0
    0 main Error 1 1
    1 main CrashLoopBackOff 1
    10 main Error 1 2
    11 main CrashLoopBackOff 2
    30 main Error 1 3
    ");
    let status = &simulation.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0];
    let waiting = status.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.message.as_deref(), Some("back-off 5m0s restarting failed container=main pod=web_default(u)"));
}

#[test]
fn a_container_that_has_run_for_more_than_ten_minutes_is_restarted_at_once_again() {
    let behaviours = vec![exits(0, 1), exits(0, 1), exits(0, 1), exits(601, 1), exits(0, 1), exits(0, 1)];
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", behaviours)]);
    simulation.run_to(650);
    assert_eq!(starts(&simulation), [0, 0, 10, 30, 631, 641]);
}

#[test]
fn a_sidecar_that_has_ended_well_does_not_say_that_it_waits() {
    let spec = json!({"initContainers": [sidecar("proxy")], "containers": [container("main")]});
    let mut simulation = Simulation::new(spec, [("proxy", vec![exits(2, 0)]), ("main", vec![serves()])]);
    simulation.run_to(10);
    let status = &simulation.pod.status.as_ref().unwrap().init_container_statuses.as_ref().unwrap()[0];
    let reason = status.state.as_ref().unwrap().terminated.as_ref().unwrap().reason.as_deref();
    assert_eq!((reason, status.restart_count, &status.last_state), (Some("Completed"), 1, &None));
    assert_eq!(simulation.notes.iter().map(|note| note.reason).collect::<Vec<_>>(), ["BackOff"]);
}

#[test]
fn with_the_last_end_of_a_container_the_one_before_is_forgotten() {
    let spec = json!({"restartPolicy": "OnFailure", "containers": [container("main")]});
    let mut simulation = Simulation::new(spec, [("main", vec![exits(2, 1), exits(2, 0)])]);
    simulation.run_to(3);
    let status = |simulation: &Simulation| {
        simulation.pod.status.as_ref().unwrap().container_statuses.as_ref().unwrap()[0].clone()
    };
    assert!(status(&simulation).last_state.is_some());
    simulation.run_to(10);
    assert_eq!((status(&simulation).restart_count, status(&simulation).last_state), (1, None));
}

#[test]
fn init_containers_go_one_by_one_and_sidecars_stay() {
    let spec = json!({
        "initContainers": [container("first"), sidecar("proxy"), container("second")],
        "containers": [container("a"), container("b")],
    });
    let proxy = Behaviour { starts: Some(5), ..serves() };
    let mut simulation = Simulation::new(
        spec,
        [
            ("first", vec![exits(3, 1), exits(3, 0)]),
            ("proxy", vec![proxy]),
            ("second", vec![exits(2, 0)]),
            ("a", vec![serves()]),
            ("b", vec![serves()]),
        ],
    );
    simulation.run_to(60);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 first starts 0
    3 first exits 1
    3 first starts 1
    6 first exits 0
    6 proxy starts 0
    11 second starts 0
    13 second exits 0
    13 a starts 0
    13 b starts 0
    ");
    assert_eq!(simulation.phases, ["0 Pending", "13 Running"]);
    let status = simulation.pod.status.clone().unwrap();
    insta::assert_json_snapshot!(status.conditions, @r#"
    [
      {
        "lastTransitionTime": "1970-01-01T00:00:00Z",
        "observedGeneration": 1,
        "status": "True",
        "type": "PodReadyToStartContainers"
      },
      {
        "lastTransitionTime": "1970-01-01T00:00:13Z",
        "observedGeneration": 1,
        "status": "True",
        "type": "Initialized"
      },
      {
        "lastTransitionTime": "1970-01-01T00:00:13Z",
        "observedGeneration": 1,
        "status": "True",
        "type": "Ready"
      },
      {
        "lastTransitionTime": "1970-01-01T00:00:13Z",
        "observedGeneration": 1,
        "status": "True",
        "type": "ContainersReady"
      },
      {
        "lastTransitionTime": "1970-01-01T00:00:00Z",
        "observedGeneration": 1,
        "status": "True",
        "type": "PodScheduled"
      }
    ]
    "#);
}

#[test]
fn a_container_that_fails_its_liveness_probe_has_the_probes_grace_and_is_restarted_at_once() {
    let probe = json!({"terminationGracePeriodSeconds": 5});
    let spec = json!({"containers": [{"name": "main", "image": "i", "livenessProbe": probe}]});
    let sick = Behaviour { sickens: Some((60, Unhealthy::Liveness)), ..stubborn() };
    let mut simulation = Simulation::new(spec, [("main", vec![sick])]);
    simulation.run_to(600);
    // The exit before the last one counts for the back-off, so that it takes some time to be felt.
    assert_eq!(starts(&simulation), [0, 65, 130, 195, 260, 325, 470]);
    assert_eq!(simulation.notes[0].message, "Container main failed liveness probe, will be restarted");
    assert_eq!(simulation.notes[0].field_path.as_deref(), Some("spec.containers{main}"));
}

#[test]
fn a_container_with_another_image_is_restarted_alone_whatever_the_policy() {
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [sidecar("proxy")],
        "containers": [container("main"), container("other")],
    });
    let behaviours = [("proxy", vec![serves()]), ("main", vec![serves()]), ("other", vec![serves()])];
    let mut simulation = Simulation::new(spec, behaviours);
    simulation.run_to(5);
    let spec = simulation.pod.spec.as_mut().unwrap();
    spec.containers[0].image = Some("j".to_owned());
    spec.init_containers.as_mut().unwrap()[0].image = Some("j".to_owned());
    simulation.run_to(50);
    insta::assert_snapshot!(simulation.log[3..].join("\n"), @r"
    5 proxy TERM, 30 s left
    5 main TERM, 30 s left
    5 proxy exits 0
    5 main exits 0
    5 proxy starts 1
    5 main starts 1
    ");
    assert_eq!(simulation.phases, ["0 Pending", "0 Running"]);
    let notes: Vec<&str> = simulation.notes.iter().map(|note| note.message.as_str()).collect();
    assert_eq!(
        notes,
        ["Init container proxy definition changed", "Container main definition changed, will be restarted"]
    );
}

#[test]
fn a_failed_post_start_hook_costs_the_container_its_life() {
    let spec = json!({"containers": [
        {"name": "a", "image": "i", "lifecycle": {"postStart": {"exec": {}}}},
        {"name": "b", "image": "i"},
    ]});
    let mut simulation = Simulation::new(
        spec,
        [
            (
                "a",
                vec![Behaviour { post_start: (3, false), ..serves() }, Behaviour { post_start: (3, true), ..serves() }],
            ),
            ("b", vec![serves()]),
        ],
    );
    simulation.run_to(20);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 a starts 0
    3 a TERM, 30 s left
    3 a exits 0
    3 a starts 1
    6 b starts 0
    ");
    insta::assert_snapshot!(simulation.reported.join("\n"), @r"
    0 a ContainerCreating 0
    0 b ContainerCreating 0
    3 a PostStartHookError 0
    6 a Running 1
    6 b Running 0
    ");
    assert_eq!(simulation.notes[0].message, "FailedPostStartHook");
}

#[test]
fn an_image_that_cannot_be_pulled_is_tried_ever_more_slowly() {
    let refused = Behaviour { refused: Some("ErrImagePull"), ..serves() };
    let behaviours = vec![refused.clone(), refused.clone(), refused, serves()];
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", behaviours)]);
    simulation.run_to(100);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 main refused
    10 main refused
    30 main refused
    70 main starts 0
    ");
    insta::assert_snapshot!(simulation.reported.join("\n"), @r"
    0 main ContainerCreating 0
    0 main ErrImagePull 0
    1 main ImagePullBackOff 0
    10 main ErrImagePull 0
    11 main ImagePullBackOff 0
    30 main ErrImagePull 0
    31 main ImagePullBackOff 0
    70 main Running 0
    ");
    assert_eq!(simulation.notes[0].message, "Back-off pulling image \"i\"");
}

#[test]
fn an_image_that_replaces_one_that_cannot_be_pulled_is_pulled_at_once_with_a_back_off_of_its_own() {
    let refused = Behaviour { refused: Some("ErrImagePull"), ..serves() };
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![refused])]);
    simulation.run_to(35);
    simulation.pod.spec.as_mut().unwrap().containers[0].image = Some("j".to_owned());
    simulation.run_to(60);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 main refused
    10 main refused
    30 main refused
    35 main refused
    45 main refused
    ");
    // The status keeps the old reason until the new one is known.
    assert!(!simulation.reported.iter().any(|said| said.starts_with("35 main ContainerCreating")));
}

#[test]
fn nothing_starts_before_the_sandbox_stands() {
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![serves()])]);
    simulation.node.sandbox = false;
    let plan = simulation.run_to(5);
    assert!(simulation.log.is_empty());
    assert_eq!(plan.status.conditions.unwrap()[0].status, "False");
    simulation.node.sandbox = true;
    let plan = simulation.run_to(6);
    assert_eq!(simulation.log, ["5 main starts 0"]);
    let condition = &plan.status.conditions.unwrap()[0];
    assert_eq!(condition.status, "True");
    assert_eq!(condition.last_transition_time.as_ref().unwrap().0.as_second(), 5);
}

#[test]
fn ephemeral_containers_start_beside_init_containers_and_once() {
    let spec = json!({
        "initContainers": [container("init")],
        "containers": [container("main")],
        "ephemeralContainers": [container("shell")],
    });
    let behaviours = [("init", vec![exits(5, 0)]), ("main", vec![exits(9, 0)]), ("shell", vec![exits(1, 1)])];
    let mut simulation = Simulation::new(spec, behaviours);
    simulation.pod.spec.as_mut().unwrap().restart_policy = Some("Never".to_owned());
    simulation.run_to(60);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 shell starts 0
    0 init starts 0
    1 shell exits 1
    5 init exits 0
    5 main starts 0
    14 main exits 0
    ");
    assert_eq!(simulation.phases, ["0 Pending", "5 Running", "14 Succeeded"]);
}

#[test]
fn a_containers_own_rules_decide_over_its_restarts() {
    let spec = json!({
        "restartPolicy": "Never",
        "containers": [{
            "name": "main", "image": "i", "restartPolicy": "Never",
            "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}],
        }],
    });
    let mut simulation = Simulation::new(spec, [("main", vec![exits(3, 42), exits(3, 42), exits(3, 7)])]);
    simulation.run_to(100);
    assert_eq!(starts(&simulation), [0, 3, 16]);
    assert_eq!(simulation.phases, ["0 Pending", "0 Running", "19 Failed"]);
}

#[test]
fn another_size_is_given_in_place_or_by_a_restart_as_the_policy_says() {
    let sized = |cpu: &str, memory: &str| json!({"requests": {"cpu": cpu, "memory": memory}});
    let spec = json!({"containers": [{
        "name": "main", "image": "i", "resources": sized("1", "1Gi"),
        "resizePolicy": [{"resourceName": "memory", "restartPolicy": "RestartContainer"}],
    }]});
    let mut simulation = Simulation::new(spec, [("main", vec![serves()])]);
    simulation.run_to(1);
    let given = |simulation: &mut Simulation, value: serde_json::Value| {
        let main = simulation.facts.get_mut("main").unwrap().current.as_mut().unwrap();
        main.resources = Some(serde_json::from_value(value).unwrap());
    };
    // The same amounts in other words.
    given(&mut simulation, sized("1000m", "1024Mi"));
    simulation.run_to(2);
    given(&mut simulation, sized("500m", "1Gi"));
    simulation.run_to(3);
    given(&mut simulation, sized("500m", "2Gi"));
    simulation.run_to(4);
    insta::assert_snapshot!(simulation.log.join("\n"), @r"
    0 main starts 0
    2 main resized
    3 main TERM, 30 s left
    3 main exits 0
    3 main starts 1
    ");
    assert_eq!(simulation.notes[0].message, "Container main resize requires restart");
}

#[test]
fn containers_that_a_node_has_lost_are_restarted_by_policy() {
    for (policy, phase, count) in [("Always", "Running", 1), ("OnFailure", "Running", 1), ("Never", "Failed", 0)] {
        let spec = json!({"restartPolicy": policy, "containers": [container("main")]});
        let mut simulation = Simulation::new(spec, [("main", vec![serves()])]);
        simulation.run_to(5);
        let main = simulation.facts.get_mut("main").unwrap().current.as_mut().unwrap();
        main.state = State::Exited {
            since: None,
            at: None,
            code: 137,
            signal: None,
            reason: "ContainerStatusUnknown".to_owned(),
            message: String::new(),
        };
        let plan = simulation.run_to(6);
        assert_eq!(plan.status.phase.as_deref(), Some(phase), "{policy}");
        assert_eq!(plan.status.container_statuses.unwrap()[0].restart_count, count, "{policy}");
    }
}

#[test]
fn a_status_says_all_of_a_container() {
    let spec = json!({"containers": [{
        "name": "main",
        "image": "i",
        "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "token", "mountPath": "/t", "readOnly": true}],
    }]});
    let mut simulation = Simulation::new(spec, [("main", vec![exits(7, 1), exits(3, 0), serves()])]);
    let mut status = simulation.run_to(12).status;
    status.conditions = None;
    insta::assert_json_snapshot!(status, @r#"
    {
      "containerStatuses": [
        {
          "allocatedResources": {
            "cpu": "1"
          },
          "containerID": "test://main-1",
          "image": "i",
          "imageID": "",
          "lastState": {
            "terminated": {
              "containerID": "test://main-1",
              "exitCode": 0,
              "finishedAt": "1970-01-01T00:00:10Z",
              "reason": "Completed",
              "startedAt": "1970-01-01T00:00:07Z"
            }
          },
          "name": "main",
          "ready": false,
          "resources": {
            "limits": {
              "memory": "1Gi"
            },
            "requests": {
              "cpu": "1"
            }
          },
          "restartCount": 1,
          "started": false,
          "state": {
            "waiting": {
              "message": "back-off 10s restarting failed container=main pod=web_default(u)",
              "reason": "CrashLoopBackOff"
            }
          },
          "volumeMounts": [
            {
              "mountPath": "/data",
              "name": "data"
            },
            {
              "mountPath": "/t",
              "name": "token",
              "readOnly": true,
              "recursiveReadOnly": "Disabled"
            }
          ]
        }
      ],
      "hostIP": "192.0.2.1",
      "hostIPs": [
        {
          "ip": "192.0.2.1"
        }
      ],
      "observedGeneration": 1,
      "phase": "Running",
      "podIP": "10.0.0.2",
      "podIPs": [
        {
          "ip": "10.0.0.2"
        }
      ],
      "qosClass": "Burstable",
      "startTime": "1970-01-01T00:00:00Z"
    }
    "#);
}

#[test]
fn a_container_that_cannot_be_run_says_so_until_it_backs_off() {
    let mut simulation = Simulation::new(json!({"containers": [container("main")]}), [("main", vec![serves()])]);
    simulation.run_to(0);
    let main = simulation.facts.get_mut("main").unwrap().current.as_mut().unwrap();
    main.state = State::Exited {
        since: None,
        at: Some(simulation.now),
        code: 128,
        signal: None,
        reason: "StartError".to_owned(),
        message: "no such file".to_owned(),
    };
    let plan = simulation.look();
    let status = &plan.status.container_statuses.unwrap()[0];
    let waiting = status.state.as_ref().unwrap().waiting.as_ref().unwrap();
    assert_eq!(waiting.reason.as_deref(), Some("RunContainerError"));
    assert_eq!(waiting.message.as_deref(), Some("no such file"));
    assert_eq!(status.last_state.as_ref().unwrap().terminated.as_ref().unwrap().exit_code, 128);
}
