//! Pods that are created concurrently, by several webhooks, with requests that fail in every way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_rollout::{Grant, Limit, Observed, Places, PodView, Target, Texts};
use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
use proptest::prelude::*;
use serde_json::json;

/// What becomes of a pod that asked for a place.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Created,
    /// The API server refuses it after the webhook.
    Refused,
    /// It takes as long as a request may.
    Slow,
    /// The answer of the store is lost, and the webhook asks again with the same id.
    AnswerLost,
}

#[derive(Clone, Debug)]
enum Event {
    Create(Fate),
    /// The controller's cache catches up and counts; the swap may be lost to another writer first.
    Count {
        is_stale: bool,
    },
    Delete(usize),
    Wait(i64),
    Limit(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let fate = prop::sample::select(vec![Fate::Created, Fate::Created, Fate::Refused, Fate::Slow, Fate::AnswerLost]);
    let event = prop_oneof![
        8 => fate.prop_map(Event::Create),
        4 => any::<bool>().prop_map(|is_stale| Event::Count { is_stale }),
        2 => (0..20_usize).prop_map(Event::Delete),
        3 => (1..60_i64).prop_map(Event::Wait),
        1 => (0..12_usize).prop_map(Event::Limit),
    ];
    prop::collection::vec(event, 0..120)
}

struct World {
    places: Places,
    now: Timestamp,
    version: u64,
    /// Pods that have the pinned revision, by place.
    pods: BTreeSet<String>,
    /// Pods on their way, and when they arrive.
    slow: BTreeMap<String, Timestamp>,
    next: usize,
    /// What a cache that lags behind has.
    old_cache: (BTreeSet<String>, u64, Timestamp),
    views: Views,
    target: Target,
}

struct Views {
    template: PodView,
}

impl Views {
    fn of(&self, places: &BTreeSet<String>) -> Vec<PodView> {
        places
            .iter()
            .map(|place| PodView { quota_place: Some(place.as_str().into()), ..self.template.clone() })
            .collect()
    }
}

const REQUEST_TIMEOUT: SignedDuration = SignedDuration::from_secs(60);

impl World {
    fn new() -> World {
        let set = mk_set("mesh", json!({"app": "web"}), json!({"containers": [mk_container("proxy")]}));
        let mut pod = mk_injected_pod("web", json!({"app": "web"}), [mk_container("app")], &[&set]).into_value();
        pod["metadata"]["annotations"][names::QUOTA_PLACE] = json!("place");
        let view = PodView::new(&Pod::new(pod).unwrap(), &mut Texts::default());
        let revision = view.injected("mesh").unwrap().revision.clone().unwrap();
        let mut world = World {
            places: Places::new(&revision),
            now: Timestamp::UNIX_EPOCH,
            version: 1,
            pods: BTreeSet::new(),
            slow: BTreeMap::new(),
            next: 0,
            old_cache: (BTreeSet::new(), 1, Timestamp::UNIX_EPOCH),
            views: Views { template: view },
            target: Target::new(Arc::new(set)),
        };
        world.count(false);
        world
    }

    fn create(&mut self, fate: Fate, limit: usize) {
        self.next += 1;
        let id = format!("place-{}", self.next);
        let mut grant = self.places.grant(&id, None, &Limit::Number(limit), self.now);
        if matches!(fate, Fate::AnswerLost) {
            grant = self.places.grant(&id, None, &Limit::Number(limit), self.now);
        }
        if grant == Grant::Full {
            return;
        }
        match fate {
            Fate::Created | Fate::AnswerLost => {
                self.version += 1;
                self.pods.insert(id);
            }
            Fate::Slow => {
                self.slow.insert(id, self.now + REQUEST_TIMEOUT);
            }
            Fate::Refused => {}
        }
    }

    fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
        let arrived: Vec<String> =
            self.slow.iter().filter(|(_, at)| **at <= self.now).map(|(id, _)| id.clone()).collect();
        for id in arrived {
            self.slow.remove(&id);
            self.version += 1;
            self.pods.insert(id);
        }
    }

    fn count(&mut self, is_stale: bool) {
        let (pods, version, as_of) =
            if is_stale { self.old_cache.clone() } else { (self.pods.clone(), self.version, self.now) };
        let views = self.views.of(&pods);
        let revision = self.places.revision().to_owned();
        self.places.observe(&Observed::new(&self.target, &revision, &views, version, as_of));
        self.old_cache = (self.pods.clone(), self.version, self.now);
        // What is stored is what is read back.
        assert_eq!(Places::parse(&self.places.to_string()).unwrap(), self.places);
    }
}

proptest! {
    #[test]
    fn there_are_never_more_pods_than_places_and_exactly_as_many_in_the_end(events in events()) {
        let (mut world, mut limit) = (World::new(), 6);
        for event in events {
            let before = world.pods.len() + world.slow.len();
            match event {
                Event::Create(fate) => world.create(fate, limit),
                Event::Count { is_stale } => world.count(is_stale),
                Event::Delete(n) => {
                    let gone = world.pods.iter().nth(n % world.pods.len().max(1)).cloned();
                    gone.map(|id| world.pods.remove(&id));
                    world.version += 1;
                }
                Event::Wait(seconds) => world.wait(seconds),
                Event::Limit(new) => limit = new,
            }
            let after = world.pods.len() + world.slow.len();
            prop_assert!(after <= limit.max(before), "{after} pods, the limit is {limit}");
            let taken = world.places.taken().unwrap();
            prop_assert!(taken >= after || taken >= limit, "{after} pods, {taken} places are taken");
        }
        world.wait(200);
        world.count(false);
        for _ in 0..40 {
            world.create(Fate::Created, limit);
        }
        prop_assert!(world.pods.len() >= limit, "{} pods, the limit is {limit}", world.pods.len());
    }
}

/// Three webhooks, three hundred pods at once, a partition of ninety.
#[test]
fn of_three_hundred_concurrent_pods_ninety_get_a_place() {
    let mut world = World::new();
    // Each webhook reads, decides and swaps; who comes second reads again.
    for _ in 0..100 {
        for _ in 0..3 {
            world.create(Fate::Created, 90);
            assert!(world.pods.len() <= 90);
        }
    }
    assert_eq!(world.pods.len(), 90);
    world.count(false);
    world.create(Fate::Created, 90);
    assert_eq!(world.pods.len(), 90);
}
