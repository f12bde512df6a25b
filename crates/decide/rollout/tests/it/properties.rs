//! Random rollouts: whatever happens, the limits hold, and in the end all is as the set says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use pillion_rollout::Step;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fleet::{EMPTY, Fleet, Kind, Write};

#[derive(Clone, Debug)]
enum Event {
    /// The controller makes a plan, and this many of its writes before it ends.
    Round(usize, bool),
    Kubelet(usize),
    Image(usize),
    Partition(Value),
    MaxUnavailable(Value),
    /// What else the strategy says.
    Strategy(usize),
    Delete(usize),
    Create,
    /// A node is drained: every third pod goes, and as many come.
    Drain(usize),
    /// The Deployment is rolled out itself: every pod goes, one after the other, after its successor of another ReplicaSet has come.
    Surge,
    AppFails(usize),
    AppRecovers,
    Pause(bool),
    Wait(i64),
}

const IMAGES: [&str; 5] = ["mesh:1", "mesh:2", "mesh:3", "bad:4", "crash:5"];

fn strategies() -> [Value; 6] {
    let zone = json!({"matchLabels": {"zone": "a"}});
    [
        json!({}),
        json!({"selector": zone}),
        json!({"priorityStrategy": {"weightPriority": [{"weight": 5, "matchSelector": zone}]}}),
        json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "rank"}]}}),
        json!({"scatterStrategy": [{"key": "zone", "value": "a"}]}),
        json!({"type": "NotUpdate"}),
    ]
}

fn amount(from: usize) -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => (from..6).prop_map(|number| json!(number)),
        1 => prop::sample::select(vec!["10%", "34%", "50%", "99%", "100%"]).prop_map(|percentage| json!(percentage)),
    ]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..8_usize, any::<bool>()).prop_map(|(writes, is_killed)| Event::Round(writes, is_killed)),
        4 => Just(Event::Round(usize::MAX, false)),
        8 => (0..10_usize).prop_map(Event::Kubelet),
        2 => (0..IMAGES.len()).prop_map(Event::Image),
        1 => amount(0).prop_map(Event::Partition),
        1 => amount(1).prop_map(Event::MaxUnavailable),
        1 => (0..strategies().len()).prop_map(Event::Strategy),
        1 => (0..10_usize).prop_map(Event::Delete),
        1 => Just(Event::Create),
        1 => (0..3_usize).prop_map(Event::Drain),
        1 => Just(Event::Surge),
        1 => (0..10_usize).prop_map(Event::AppFails),
        1 => Just(Event::AppRecovers),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => (1..1000_i64).prop_map(Event::Wait),
    ];
    prop::collection::vec(event, 0..16)
}

/// What an observer knows of the rollout.
#[derive(Default)]
struct Observer {
    /// Pods that were available until an update changed them, and when that was.
    taken_down: BTreeMap<String, Timestamp>,
    /// The hash that each pod was last updated to.
    updated_to: BTreeMap<String, String>,
}

impl Observer {
    fn is_available(fleet: &Fleet, name: &str) -> bool {
        let view = fleet.view(name);
        let is_done = view.containers.iter().all(|container| {
            container.image_id.as_deref() == Some(pillion_testkit::mk_image_id(&container.image).as_str())
        });
        // A hot upgrade is a hand-over in which both containers of the pair have work, until one of them is empty.
        let empty = view.containers.iter().filter(|container| *container.image == *EMPTY).count();
        let hot = fleet.set.sidecars().filter(|sidecar| sidecar.is_hot_upgrade()).count();
        view.is_running_and_ready() && is_done && empty == hot
    }

    /// How many pods stay on an older revision: one that a Deployment replaces and its successor are one.
    fn old(fleet: &Fleet) -> usize {
        let hash = fleet.set.current_hash();
        let mut by_replica_set = BTreeMap::<String, usize>::new();
        for pod in fleet.views().iter().filter(|pod| *pod.injected("mesh").unwrap().hash != *hash) {
            *by_replica_set.entry(pod.owner.as_ref().unwrap().name.to_string()).or_default() += 1;
        }
        by_replica_set.into_values().max().unwrap_or_default()
    }

    /// Pods are available again when they are ready with what their spec says. One that takes longer than the deadline is no longer
    /// the update's fault.
    fn look(&mut self, fleet: &Fleet) {
        let is_late = |at: Timestamp| fleet.now.duration_since(at).as_secs() >= 600;
        self.taken_down
            .retain(|name, at| fleet.pods.contains_key(name) && !Observer::is_available(fleet, name) && !is_late(*at));
    }

    fn write(&mut self, fleet: &mut Fleet, plan: &pillion_rollout::Plan, write: &Write, is_killed: bool) {
        let Write::Pod(update) = write else { return fleet.write(plan, write, is_killed) };
        let was_available = Observer::is_available(fleet, &update.name);
        let before = fleet.images(&update.name);
        fleet.write(plan, write, is_killed);
        if matches!(update.step, Step::SetUpgradable(_)) {
            return;
        }
        if let Step::Update { .. } = update.step {
            let hash = fleet.set.current_hash().into_owned();
            let last = self.updated_to.insert(update.uid.clone(), hash.clone());
            assert_ne!(last, Some(hash), "{} was updated twice", update.name);
        }
        let strategy = &fleet.set.spec.update_strategy;
        if was_available && fleet.images(&update.name) != before {
            self.taken_down.insert(update.name.clone(), fleet.now);
            let allowed = pillion_rollout::max_unavailable(strategy.max_unavailable.as_ref(), fleet.pods.len());
            assert!(self.taken_down.len() <= allowed, "{:?} are down, {allowed} may be", self.taken_down);
        }
        assert!(!strategy.paused && strategy.updates_running_pods(), "{} was updated in a pause", update.name);
        if matches!(update.step, Step::Update { .. }) {
            let old = Observer::old(fleet);
            let kept = pillion_rollout::partition(strategy.partition.as_ref(), fleet.pods.len());
            assert!(old >= kept, "{old} pods are old, the partition keeps {kept}");
        }
    }
}

fn nth(fleet: &Fleet, n: usize) -> Option<String> {
    fleet.pods.keys().nth(n % fleet.pods.len().max(1)).cloned()
}

/// Plays what happens, and checks all the time that nothing is promised that is not kept.
fn play(kind: Kind, pods: usize, events: &[Event]) {
    let mut fleet = Fleet::new(kind, "mesh:1", json!({}), 0);
    fleet.replica_set = Some(0);
    for i in 0..pods {
        fleet.create(&format!("web-{i:03}"));
    }
    for (i, pod) in fleet.pods.values_mut().enumerate() {
        pod["metadata"]["labels"]["zone"] = json!(["a", "b"][i % 2]);
        pod["metadata"]["labels"]["rank"] = json!(i.to_string());
    }
    let mut observer = Observer::default();
    for (i, event) in events.iter().enumerate() {
        let change = |fleet: &mut Fleet, key: &str, value: &Value| {
            fleet.edit(|set| set["spec"]["updateStrategy"][key] = value.clone());
        };
        match event {
            Event::Round(count, is_killed) => {
                let plan = fleet.plan();
                for (i, write) in Fleet::writes(&plan).iter().take(*count).enumerate() {
                    observer.write(&mut fleet, &plan, write, *is_killed && i + 1 == *count);
                }
            }
            Event::Kubelet(n) => {
                if let Some(pod) = nth(&fleet, *n) {
                    fleet.kubelet(&pod);
                }
            }
            Event::Image(n) => {
                // Of two sidecars sometimes one changes, and sometimes both.
                if kind == Kind::Mixed && i % 3 != 0 {
                    fleet.edit(|set| set["spec"]["containers"][1]["image"] = json!(IMAGES[*n].replace("mesh", "logs")));
                }
                if kind != Kind::Mixed || i % 3 != 1 {
                    fleet.set_image(IMAGES[*n]);
                }
            }
            Event::Partition(partition) => change(&mut fleet, "partition", partition),
            Event::MaxUnavailable(amount) => change(&mut fleet, "maxUnavailable", amount),
            Event::Strategy(n) => fleet.edit(|set| {
                let strategy = set["spec"]["updateStrategy"].as_object_mut().unwrap();
                for key in ["type", "selector", "priorityStrategy", "scatterStrategy"] {
                    strategy.remove(key);
                }
                strategy.extend(strategies()[*n].as_object().unwrap().clone());
            }),
            Event::Delete(n) => {
                if let Some(pod) = nth(&fleet, *n) {
                    fleet.pods.remove(&pod);
                }
            }
            Event::Create => fleet.create(&format!("new-{i}")),
            Event::Drain(n) => {
                let gone: Vec<String> = fleet.pods.keys().skip(*n).step_by(3).cloned().collect();
                for pod in gone {
                    fleet.pods.remove(&pod);
                    fleet.create(&format!("{pod}-{i}"));
                }
            }
            Event::Surge => {
                fleet.replica_set = fleet.replica_set.map(|hash| hash + 1);
                for pod in fleet.pods.keys().cloned().collect::<Vec<_>>() {
                    fleet.create(&format!("{pod}-{i}"));
                    let plan = fleet.plan();
                    for write in Fleet::writes(&plan) {
                        observer.write(&mut fleet, &plan, &write, false);
                    }
                    fleet.pods.remove(&pod);
                    observer.look(&fleet);
                }
            }
            Event::AppFails(n) => fleet.unready_apps.extend(nth(&fleet, *n)),
            Event::AppRecovers => fleet.unready_apps.clear(),
            Event::Pause(paused) => change(&mut fleet, "paused", &json!(paused)),
            Event::Wait(seconds) => fleet.wait(*seconds),
        }
        observer.look(&fleet);
    }

    // Whatever is in the way, it is done or says why it is not.
    let mut plan = fleet.settle();
    if plan.requeue_after.is_some() {
        fleet.wait(700);
        plan = fleet.settle();
    }
    assert_done_or_explained(&fleet, &plan);

    // In the end the image is a good one, and nothing stands in the way. That takes as long as all that came before: one in four is enough.
    if !events.len().is_multiple_of(4) {
        return;
    }
    fleet.unready_apps.clear();
    fleet.edit(|set| {
        let strategy = set["spec"]["updateStrategy"].as_object_mut().unwrap();
        for key in ["paused", "type", "selector"] {
            strategy.remove(key);
        }
    });
    fleet.set_image("mesh:9");
    if kind == Kind::Mixed {
        fleet.edit(|set| set["spec"]["containers"][1]["image"] = json!("logs:9"));
    }
    fleet.kubelets();
    let plan = fleet.settle();
    let strategy = &fleet.set.spec.update_strategy;
    let kept = pillion_rollout::partition(strategy.partition.as_ref(), fleet.pods.len());
    let left = fleet.pods.len() - kept;
    assert_eq!(usize::try_from(plan.status.updated_pods).unwrap(), left, "{}", super::fleet::conditions(&plan));
    assert_eq!(Some(plan.status.updated_pods), plan.status.updated_ready_pods);
    let mut plan = plan;
    if kept > 0 {
        fleet.edit(|set| set["spec"]["updateStrategy"]["partition"] = json!(0));
        plan = fleet.settle();
    }
    let status = &plan.status;
    assert_eq!(usize::try_from(status.updated_pods).unwrap(), fleet.pods.len());
    assert_eq!(status.ready_pods, status.matched_pods);
    assert_eq!(status.condition("Progressing").unwrap().reason, "Complete");
    assert_eq!(status.condition("Blocked").unwrap().status, "False");
    assert_eq!(fleet.count("mesh:9"), fleet.pods.len());
}

fn assert_done_or_explained(fleet: &Fleet, plan: &pillion_rollout::Plan) {
    let status = &plan.status;
    let (progressing, blocked) = (status.condition("Progressing").unwrap(), status.condition("Blocked").unwrap());
    let is_explained = [progressing.status != "True", blocked.status == "True"].contains(&true);
    let is_done = progressing.reason == "Complete";
    assert!(is_done || is_explained && !progressing.message.is_empty(), "{status:#?} of {:?}", fleet.set.spec);
}

/// Ten thousand rollouts, as many for each kind of sidecar, where `PILLION_THOROUGH` is set, as in CI, and a quarter of them elsewhere.
#[expect(clippy::disallowed_methods, reason = "this is about tests, not about decisions")]
fn rollouts() -> u32 {
    if std::env::var_os("PILLION_THOROUGH").is_some() { 2000 } else { 500 }
}

macro_rules! no_rollout_breaks_a_limit {
    ($($name:ident: $kind:expr,)+) => {
        proptest! {
            #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(rollouts()) })]
            $(
                #[test]
                fn $name(pods in prop_oneof![4 => 0..5_usize, 1 => 5..12_usize], events in events()) {
                    play($kind, pods, &events);
                }
            )+
        }
    };
}

no_rollout_breaks_a_limit! {
    no_rollout_of_plain_sidecars_breaks_a_limit_and_every_one_ends: Kind::Cold,
    no_rollout_of_native_sidecars_breaks_a_limit_and_every_one_ends: Kind::Native,
    no_hot_upgrade_breaks_a_limit_and_every_one_ends: Kind::Hot,
    no_hot_upgrade_of_native_sidecars_breaks_a_limit_and_every_one_ends: Kind::HotNative,
    no_rollout_of_a_plain_and_a_hot_sidecar_breaks_a_limit_and_every_one_ends: Kind::Mixed,
}

proptest! {
    #[test]
    fn the_order_of_the_pods_does_not_matter(pods in 1..12_usize, seed in any::<u64>()) {
        let mut fleet = Fleet::new(Kind::Cold, "mesh:1", json!({
            "maxUnavailable": 3, "scatterStrategy": [{"key": "zone", "value": "*"}],
        }), pods);
        for (i, pod) in (0..).zip(fleet.pods.values_mut()) {
            pod["metadata"]["labels"]["zone"] = json!(format!("z{}", (seed >> (2 * i)) & 3));
        }
        fleet.set_image("mesh:2");
        let target = fleet.target();
        let snapshot = pillion_rollout::Snapshot {
            target: &target, revisions: &[], is_used_elsewhere: &|_| false, is_in_scope: &|_| true,
            refusals: &pillion_rollout::Refusals::default(), system_namespace: "x",
        };
        let views = fleet.views();
        let forwards = pillion_rollout::plan(&snapshot, &views, fleet.now);
        prop_assert_eq!(forwards, pillion_rollout::plan(&snapshot, views.iter().rev(), fleet.now));
    }
}

/// A pod that a bad revision has taken down goes before pods of a higher priority: nothing else could be updated before it.
#[test]
fn a_pod_that_is_down_is_led_out_of_a_bad_revision_first() {
    for strategy in 0..strategies().len() {
        let events = [Event::Create, Event::Image(3), Event::Round(3, false), Event::Strategy(strategy)];
        play(Kind::Hot, 3, &events);
        play(Kind::Cold, 3, &events);
        play(Kind::Mixed, 3, &events);
    }
}
