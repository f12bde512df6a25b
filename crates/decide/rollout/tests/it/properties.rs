//! Random rollouts: whatever happens, the limits hold, and in the end all is as the set says.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_api::pod::Pod;
use pillion_api::sidecarset::SidecarContainer;
use pillion_rollout::{PodView, Step, Texts};
use proptest::prelude::*;
use serde_json::json;

use super::fleet::{Fleet, Kind, Write};

#[derive(Clone, Debug)]
enum Event {
    /// The controller makes a plan, and this many of its writes before it ends.
    Round(usize, bool),
    Kubelet(usize),
    Image(usize),
    Partition(usize),
    Delete(usize),
    Create,
    AppFails(usize),
    AppRecovers,
    Pause(bool),
    Wait(i64),
}

const IMAGES: [&str; 5] = ["mesh:1", "mesh:2", "mesh:3", "bad:4", "crash:5"];

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0..8_usize, any::<bool>()).prop_map(|(writes, is_killed)| Event::Round(writes, is_killed)),
        4 => Just(Event::Round(usize::MAX, false)),
        8 => (0..10_usize).prop_map(Event::Kubelet),
        2 => (0..IMAGES.len()).prop_map(Event::Image),
        1 => (0..6_usize).prop_map(Event::Partition),
        1 => (0..10_usize).prop_map(Event::Delete),
        1 => Just(Event::Create),
        1 => (0..10_usize).prop_map(Event::AppFails),
        1 => Just(Event::AppRecovers),
        1 => any::<bool>().prop_map(Event::Pause),
        1 => (1..1000_i64).prop_map(Event::Wait),
    ];
    prop::collection::vec(event, 0..60)
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
        let view = PodView::new(&Pod::new(fleet.pods[name].clone()).unwrap(), &mut Texts::default());
        let is_done = view.containers.iter().all(|container| {
            container.image_id.as_deref() == Some(pillion_testkit::mk_image_id(&container.image).as_str())
        });
        view.is_running_and_ready() && is_done
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
        let is_hot = fleet.set.sidecars().any(SidecarContainer::is_hot_upgrade);
        if was_available && !is_hot && fleet.images(&update.name) != before {
            self.taken_down.insert(update.name.clone(), fleet.now);
        }
        let strategy = &fleet.set.spec.update_strategy;
        let Some(IntOrString::Int(max_unavailable)) = strategy.max_unavailable else { panic!("a number") };
        assert!(
            self.taken_down.len() <= usize::try_from(max_unavailable).unwrap(),
            "{:?} are down, maxUnavailable is {max_unavailable}",
            self.taken_down
        );
        if matches!(update.step, Step::Update { .. }) {
            let hash = fleet.set.current_hash();
            let old = fleet.views().iter().filter(|it| *it.injected("mesh").unwrap().hash != *hash).count();
            let kept = pillion_rollout::partition(strategy.partition.as_ref(), fleet.pods.len());
            assert!(old >= kept, "{old} pods are old, the partition keeps {kept}");
        }
    }
}

fn nth(fleet: &Fleet, n: usize) -> Option<String> {
    fleet.pods.keys().nth(n % fleet.pods.len().max(1)).cloned()
}

fn play(kind: Kind, pods: usize, max_unavailable: i32, events: &[Event]) {
    let mut fleet = Fleet::new(kind, "mesh:1", json!({"maxUnavailable": max_unavailable}), pods);
    let mut observer = Observer::default();
    for (i, event) in events.iter().enumerate() {
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
            Event::Image(n) => fleet.set_image(IMAGES[*n]),
            Event::Partition(n) => fleet.edit(|set| set["spec"]["updateStrategy"]["partition"] = json!(n)),
            Event::Delete(n) => {
                if let Some(pod) = nth(&fleet, *n) {
                    fleet.pods.remove(&pod);
                }
            }
            Event::Create => fleet.create(&format!("new-{i}")),
            Event::AppFails(n) => fleet.unready_apps.extend(nth(&fleet, *n)),
            Event::AppRecovers => fleet.unready_apps.clear(),
            Event::Pause(paused) => fleet.edit(|set| set["spec"]["updateStrategy"]["paused"] = json!(paused)),
            Event::Wait(seconds) => fleet.wait(*seconds),
        }
        observer.look(&fleet);
    }

    // In the end the image is a good one, and nothing stands in the way.
    fleet.unready_apps.clear();
    fleet.edit(|set| set["spec"]["updateStrategy"]["paused"] = json!(false));
    fleet.set_image("mesh:9");
    fleet.kubelets();
    let plan = fleet.settle();
    let strategy = &fleet.set.spec.update_strategy;
    let kept = pillion_rollout::partition(strategy.partition.as_ref(), fleet.pods.len());
    assert_eq!(usize::try_from(plan.status.updated_pods).unwrap(), fleet.pods.len() - kept);
    assert_eq!(Some(plan.status.updated_pods), plan.status.updated_ready_pods);
    fleet.edit(|set| set["spec"]["updateStrategy"]["partition"] = json!(0));
    let plan = fleet.settle();
    let status = &plan.status;
    assert_eq!(usize::try_from(status.updated_pods).unwrap(), fleet.pods.len());
    assert_eq!(status.ready_pods, status.matched_pods);
    assert_eq!(status.condition("Progressing").unwrap().reason, "Complete");
    assert_eq!(status.condition("Blocked").unwrap().status, "False");
    assert_eq!(fleet.count("mesh:9"), fleet.pods.len());
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::with_cases(64) })]

    #[test]
    fn no_rollout_breaks_a_limit_and_every_one_ends(
        kind in prop::sample::select(vec![Kind::Cold, Kind::Native, Kind::Hot, Kind::HotNative]),
        pods in 0..8_usize,
        max_unavailable in 1..4_i32,
        events in events(),
    ) {
        play(kind, pods, max_unavailable, &events);
    }

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
