//! A forecast says what happens: the same waves as the plans give when they are carried out on a simulated fleet.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use pillion_rollout::{Basis, Forecast, Pace, Refusals, Snapshot, Step, StoredRevision, Workload, forecast};
use proptest::prelude::*;
use serde_json::json;

use super::fleet::{Fleet, Kind, conditions};

/// The forecast of a fleet.
fn foretell(fleet: &Fleet) -> Forecast {
    let target = fleet.target();
    let revisions: Vec<StoredRevision<'_>> = fleet.revisions.iter().map(StoredRevision::of).collect();
    let snapshot = Snapshot {
        target: &target,
        revisions: &revisions,
        is_used_elsewhere: &|_| false,
        is_in_scope: &|_| true,
        refusals: &Refusals::default(),
        system_namespace: "kruise-system",
    };
    let views = fleet.views();
    let pace = Pace::of("mesh", &views);
    forecast(&snapshot, views, &pace, fleet.now)
}

/// When which pods are updated, in seconds from now.
type Waves = Vec<(i64, Vec<String>)>;

fn waves(forecast: &Forecast) -> Waves {
    let names = |wave: &pillion_rollout::Wave| wave.pods.iter().map(|pod| pod.name.clone()).collect();
    forecast.waves.iter().map(|wave| (wave.at.as_secs(), names(wave))).collect()
}

/// What really happens: plans, writes, and a kubelet that takes its time.
fn carried_out(fleet: &mut Fleet) -> (Waves, pillion_rollout::Plan) {
    let views = fleet.views();
    let pace = Pace::of("mesh", &views);
    let takes: BTreeMap<String, SignedDuration> =
        views.iter().map(|pod| (pod.name.to_string(), pace.estimate(&Workload::of(pod)).takes)).collect();
    let began = fleet.now;
    let mut due: BTreeMap<Timestamp, Vec<String>> = BTreeMap::new();
    let mut waves = Waves::new();
    for _ in 0..1000 {
        let plan = fleet.round();
        let mut updated = Vec::new();
        for update in &plan.updates {
            match update.step {
                Step::Update { .. } => updated.push(update.name.clone()),
                Step::Reset { .. } => {}
                Step::SetUpgradable(_) => continue,
            }
            due.entry(fleet.now + takes[&update.name]).or_default().push(update.name.clone());
        }
        if !updated.is_empty() {
            waves.push((fleet.now.duration_since(began).as_secs(), updated));
        }
        if let Some((at, ready)) = due.pop_first() {
            fleet.now = at;
            for pod in &ready {
                fleet.kubelet(pod);
            }
        } else if let Some(wait) = plan.requeue_after {
            fleet.now += wait;
        } else {
            return (waves, plan);
        }
    }
    panic!("the rollout does not come to an end: {:#?}", fleet.plan());
}

/// Gives the pods workloads, and each workload a time that its pods took to get ready.
fn give_pace(fleet: &mut Fleet, took: &[i64]) {
    for (i, pod) in fleet.pods.values_mut().enumerate() {
        let workload = i % took.len();
        let owner = json!([{"kind": "StatefulSet", "name": format!("web-{workload}"), "controller": true}]);
        pod["metadata"]["ownerReferences"] = owner;
        pod["spec"]["nodeName"] = json!("node");
        pod["metadata"]["creationTimestamp"] = json!(Timestamp::from_second(100).unwrap().to_string());
        for condition in pod["status"]["conditions"].as_array_mut().unwrap() {
            let ready = Timestamp::from_second(100 + took[workload]).unwrap();
            condition["lastTransitionTime"] = json!(ready.to_string());
        }
    }
}

#[test]
fn waves_are_as_large_as_allowed_and_follow_when_pods_are_ready() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 2, "partition": 1}), 6);
    give_pace(&mut fleet, &[30]);
    fleet.set_image("mesh:2");
    let forecast = foretell(&fleet);
    let pods = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        waves(&forecast),
        [(0, pods(&["web-000", "web-001"])), (30, pods(&["web-002", "web-003"])), (60, pods(&["web-004"]))]
    );
    assert_eq!(forecast.duration, SignedDuration::from_secs(90));
    assert_eq!(forecast.waves[0].pods[0].images[0].to, "mesh:2");
    assert_eq!(forecast.rest, None);
    let progressing = forecast.status.condition("Progressing").unwrap();
    assert_eq!((progressing.reason.as_str(), forecast.status.updated_pods), ("Complete", 5));
}

#[test]
fn what_would_block_is_in_the_status() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 0}), 3);
    fleet.set_image("mesh:2");
    let forecast = foretell(&fleet);
    assert_eq!(forecast.waves, []);
    let blocked = forecast.status.condition("Blocked").unwrap();
    assert_eq!(blocked.message, "maxUnavailable is 0: no ready pod may be updated");

    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({}), 3);
    fleet.edit(|set| set["spec"]["containers"][0]["env"] = json!([{"name": "A", "value": "b"}]));
    let forecast = foretell(&fleet);
    assert_eq!(forecast.status.condition("Blocked").unwrap().reason, "NotUpgradable");
}

#[test]
fn an_app_that_is_not_ready_holds_the_rollout_up() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 1}), 3);
    give_pace(&mut fleet, &[5]);
    fleet.unready_apps.push("web-001".to_owned());
    fleet.kubelets();
    fleet.set_image("mesh:2");
    let forecast = foretell(&fleet);
    // It is updated with the first one at no cost, and then does not become ready.
    assert_eq!(waves(&forecast), [(0, vec!["web-001".to_owned(), "web-000".to_owned()])]);
    let blocked = forecast.status.condition("Blocked").unwrap();
    assert!(blocked.message.contains("default/web-001"), "{}", blocked.message);
}

#[test]
fn a_pace_that_nobody_knows_is_assumed() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({}), 1);
    fleet.unready_apps.push("web-000".to_owned());
    fleet.kubelets();
    assert_eq!(Pace::of("mesh", &fleet.views()).overall.basis, Basis::Assumed);
}

/// The decision is made for each wave again, so that a rollout of many waves over many pods would take very long.
#[test]
fn what_is_too_much_to_play_is_reckoned() {
    let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({"maxUnavailable": 1, "partition": 100}), 1);
    give_pace(&mut fleet, &[10]);
    fleet.set_image("mesh:2");
    let target = fleet.target();
    let snapshot = Snapshot {
        target: &target,
        revisions: &[],
        is_used_elsewhere: &|_| false,
        is_in_scope: &|_| true,
        refusals: &Refusals::default(),
        system_namespace: "kruise-system",
    };
    let one = fleet.views().remove(0);
    let pods = (0..1500).map(|i| {
        let mut pod = one.clone();
        (pod.name, pod.uid) = (format!("web-{i:05}").into(), format!("uid-{i}").into());
        pod
    });
    let pace = Pace::of("mesh", [&one]);
    let forecast = forecast(&snapshot, pods, &pace, fleet.now);
    let rest = forecast.rest.unwrap();
    let played: usize = forecast.waves.iter().map(|wave| wave.pods.len()).sum();
    assert_eq!(played + rest.pods, 1500 - 100, "the partition keeps the others");
    let all = 1400 * 10;
    let off = (forecast.duration.as_secs() - all).abs();
    assert!(off < all / 50, "{} s instead of {all}", forecast.duration.as_secs());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(96) })]

    #[test]
    fn a_forecast_agrees_with_what_happens(
        kind in prop::sample::select(vec![Kind::Cold, Kind::Native, Kind::Hot, Kind::HotNative]),
        pods in 0..10_usize,
        max_unavailable in prop::sample::select(vec![json!(0), json!(1), json!(2), json!("30%"), json!("100%")]),
        partition in prop::sample::select(vec![json!(0), json!(2), json!("50%"), json!("100%")]),
        took in prop::collection::vec(1..120_i64, 1..4),
        before in prop::sample::select(vec!["mesh:1", "bad:1", "crash:1", "unready:1"]),
        half_way in 0..6_usize,
        unready_app in prop::option::of(0..10_usize),
        paused in prop::bool::weighted(0.1),
        selected in prop::bool::weighted(0.2),
    ) {
        let mut strategy = json!({"maxUnavailable": max_unavailable, "partition": partition, "paused": paused});
        if selected {
            strategy["selector"] = json!({"matchLabels": {"ring": "0"}});
        }
        let mut fleet = Fleet::new(kind, "mesh:0", strategy, pods);
        give_pace(&mut fleet, &took);
        for (i, pod) in fleet.pods.values_mut().enumerate() {
            pod["metadata"]["labels"]["ring"] = json!((i % 2).to_string());
        }
        fleet.kubelets();
        // Another rollout is under way, or has gone wrong.
        fleet.set_image(before);
        for i in 0..half_way {
            fleet.round();
            let pod = fleet.pods.keys().nth(i % pods.max(1)).cloned();
            if let Some(pod) = &pod {
                fleet.kubelet(pod);
            }
            fleet.wait(7);
        }
        let unready = unready_app.and_then(|n| fleet.pods.keys().nth(n).cloned());
        fleet.unready_apps.extend(unready);
        fleet.kubelets();
        fleet.set_image("mesh:2");
        let foretold = foretell(&fleet);
        let (happened, last) = carried_out(&mut fleet);
        prop_assert_eq!(waves(&foretold), happened);
        let end = pillion_rollout::Plan { status: foretold.status, ..last.clone() };
        prop_assert_eq!(conditions(&end), conditions(&last));
    }
}
