//! What holds for every pod, however its containers behave.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::simulation::{Behaviour, Simulation};
use crate::{Stage, Unhealthy};

#[derive(Clone, Debug)]
struct Case {
    spec: Value,
    behaviours: BTreeMap<String, Vec<Behaviour>>,
    deleted_at: i64,
    grace: i64,
}

fn behaviour() -> impl Strategy<Value = Behaviour> {
    let seconds = || 0..40_i64;
    let code = || prop::sample::select(vec![0, 0, 1, 42, 137]);
    (
        prop::option::weighted(0.1, prop::sample::select(vec!["ErrImagePull", "CreateContainerConfigError"])),
        prop::option::of((seconds(), code())),
        prop::option::of((seconds(), code())),
        prop::option::weighted(0.8, seconds()),
        prop::option::weighted(0.2, (seconds(), prop::sample::select(vec![Unhealthy::Liveness, Unhealthy::Startup]))),
        (0..5_i64, prop::bool::weighted(0.8)),
        seconds(),
    )
        .prop_map(|(refused, exits, exits_on_term, starts, sickens, post_start, pre_stop)| Behaviour {
            refused,
            exits,
            exits_on_term,
            starts,
            sickens,
            post_start,
            pre_stop,
        })
}

fn container() -> impl Strategy<Value = (Value, Vec<Behaviour>)> {
    let rule = json!([{"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]);
    let details = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), prop::bool::weighted(0.2));
    (details, prop::collection::vec(behaviour(), 1..4)).prop_map(
        move |((post_start, pre_stop, startup, liveness, rules), behaviours)| {
            let mut container = json!({"image": "i", "lifecycle": {}});
            let mut set = |given: bool, path: &str, key: &str, value: Value| {
                if given {
                    container.pointer_mut(path).unwrap()[key] = value;
                }
            };
            set(post_start, "/lifecycle", "postStart", json!({"exec": {}}));
            set(pre_stop, "/lifecycle", "preStop", json!({"exec": {}}));
            set(startup, "", "startupProbe", json!({}));
            set(liveness, "", "livenessProbe", json!({"terminationGracePeriodSeconds": 7}));
            set(rules, "", "restartPolicy", json!("Never"));
            set(rules, "", "restartPolicyRules", rule.clone());
            (container, behaviours)
        },
    )
}

fn case() -> impl Strategy<Value = Case> {
    let policy = prop::sample::select(vec!["Always", "OnFailure", "Never"]);
    let init = prop::collection::vec((container(), any::<bool>()), 0..4);
    let regular = prop::collection::vec(container(), 1..3);
    let marked = prop::collection::vec(container(), 0..3);
    (policy, init, regular, marked, 0..400_i64, 0..40_i64).prop_map(
        |(policy, init, regular, marked, deleted_at, grace)| {
            let mut behaviours = BTreeMap::new();
            let mut named = |name: String, (mut container, list): (Value, Vec<Behaviour>)| {
                container["name"] = json!(name);
                behaviours.insert(name, list);
                container
            };
            let mut spec = json!({"restartPolicy": policy, "initContainers": [], "containers": []});
            for (index, (one, sidecar)) in init.into_iter().enumerate() {
                let mut one = named(format!("{}{index}", if sidecar { "sidecar" } else { "init" }), one);
                if sidecar {
                    one["restartPolicy"] = json!("Always");
                }
                spec["initContainers"].as_array_mut().unwrap().push(one);
            }
            for (index, one) in regular.into_iter().enumerate() {
                let one = named(format!("main{index}"), one);
                spec["containers"].as_array_mut().unwrap().push(one);
            }
            for (index, one) in marked.into_iter().enumerate() {
                let mut one = named(format!("marked{index}"), one);
                one["sidecar"] = json!(true);
                spec["containers"].as_array_mut().unwrap().push(one);
            }
            Case { spec, behaviours, deleted_at, grace }
        },
    )
}

/// Runs a case to its end. On the way [`Simulation::settle`] checks that no plan asks twice for the same.
fn run(case: &Case) -> (Simulation, Stage) {
    let mut simulation = Simulation::new(case.spec.clone(), []);
    simulation.behaviours = case.behaviours.clone();
    simulation.run_to(case.deleted_at);
    simulation.delete(case.grace);
    let stage = simulation.run_to(case.deleted_at + 200).stage;
    (simulation, stage)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_deleted_pod_ends_and_in_time(case in case()) {
        let (simulation, stage) = run(&case);
        prop_assert_eq!(stage, Stage::Ended);
        let last = simulation.log.last().and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0_i64);
        // A container that was being stopped alone keeps the time that it was given: thirty seconds and the hook.
        prop_assert!(last <= case.deleted_at + case.grace.max(30) + 2, "{:#?}", simulation.log);
    }

    #[test]
    fn regular_containers_wait_for_all_init_containers(case in case()) {
        let (simulation, _) = run(&case);
        let first = |what: &str| simulation.log.iter().position(|line| line.contains(what));
        let main = first(" main0 starts").or(first(" main1 starts")).unwrap_or(usize::MAX);
        if main < usize::MAX {
            for name in case.behaviours.keys().filter(|name| !name.starts_with("ma")) {
                let part = if name.starts_with("init") { "exits 0" } else { "starts" };
                let through = first(&format!(" {name} {part}"));
                prop_assert!(through.is_some_and(|index| index < main), "{name}: {:#?}", simulation.log);
            }
        }
    }

    #[test]
    fn regular_containers_wait_for_all_init_containers_again_after_a_reboot(case in case()) {
        let mut simulation = Simulation::new(case.spec.clone(), []);
        simulation.behaviours = case.behaviours.clone();
        simulation.run_to(case.deleted_at);
        simulation.reboot();
        simulation.run_to(case.deleted_at + 200);
        let after = simulation.log.iter().position(|line| line.ends_with(" reboot")).unwrap_or_default();
        let first = |what: &str| simulation.log[after..].iter().position(|line| line.contains(what));
        if let Some(main) = first(" main0 starts").into_iter().chain(first(" main1 starts")).min() {
            for name in case.behaviours.keys().filter(|name| !name.starts_with("ma")) {
                let part = if name.starts_with("init") { "exits 0" } else { "starts" };
                let through = first(&format!(" {name} {part}"));
                prop_assert!(through.is_some_and(|index| index < main), "{name}: {:#?}", simulation.log);
            }
        }
        simulation.delete(case.grace);
        prop_assert_eq!(simulation.run_to(case.deleted_at + 400).stage, Stage::Ended);
    }

    #[test]
    fn a_container_is_started_only_when_the_attempt_before_has_ended(case in case()) {
        let (simulation, _) = run(&case);
        let mut running = BTreeMap::new();
        for line in &simulation.log {
            let words: Vec<&str> = line.split(' ').collect();
            match words[2] {
                "starts" => {
                    let number: u32 = words[3].parse().unwrap();
                    let (was_running, before) = running.insert(words[1], (true, Some(number))).unwrap_or((false, None));
                    prop_assert!(!was_running, "{:#?}", simulation.log);
                    prop_assert_eq!(number, before.map_or(0, |before| before + 1));
                }
                "exits" => {
                    running.entry(words[1]).and_modify(|(is_running, _)| *is_running = false);
                }
                _ => {}
            }
        }
        prop_assert!(running.values().all(|(is_running, _)| !is_running));
    }

    #[test]
    fn a_terminal_phase_is_the_last_and_comes_when_nothing_runs(case in case()) {
        let (simulation, _) = run(&case);
        let terminal = |line: &String| line.ends_with("Succeeded") || line.ends_with("Failed");
        let position = simulation.phases.iter().position(terminal);
        prop_assert_eq!(position, Some(simulation.phases.len() - 1));
        let reported: i64 = simulation.phases.last().unwrap().split(' ').next().unwrap().parse().unwrap();
        let last = simulation.log.last().and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0_i64);
        prop_assert!(last <= reported, "{:#?} {:#?}", simulation.phases, simulation.log);
    }

    #[test]
    fn marked_sidecars_are_not_stopped_twice_and_not_killed_before_their_time(case in case()) {
        let (simulation, _) = run(&case);
        let mut asked: BTreeMap<&str, i64> = BTreeMap::new();
        for line in simulation.log.iter().filter(|line| line.contains(" marked")) {
            let words: Vec<&str> = line.split(' ').collect();
            let second: i64 = words[0].parse().unwrap();
            match words[2] {
                "starts" => prop_assert!(asked.remove(words[1]).is_none()),
                "exits" => drop(asked.remove(words[1])),
                "TERM," => {
                    let left: i64 = words[3].parse().unwrap();
                    prop_assert!(asked.insert(words[1], second + left).is_none(), "{:#?}", simulation.log);
                }
                "KILL" => prop_assert!(asked.get(words[1]).is_some_and(|until| *until <= second), "{:#?}", simulation.log),
                _ => {}
            }
        }
    }

    #[test]
    fn an_ended_pod_says_the_same_when_it_is_looked_at_again(case in case()) {
        let (mut simulation, _) = run(&case);
        let before = simulation.pod.status.clone();
        simulation.now += jiff::SignedDuration::from_hours(1);
        let again = simulation.look();
        prop_assert_eq!(again.stage, Stage::Ended);
        prop_assert_eq!(Some(again.status), before);
        prop_assert!(again.actions.is_empty() && again.notes.is_empty() && again.wake_at.is_none());
    }
}
