//! Pods that are created concurrently, by several webhooks, with requests that fail in every way.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_rollout::{Applicant, Confirmation, Creator, Grant, Limit, Observed, Places, PodView, Target, Texts};
use pillion_testkit::{mk_container, mk_injected_pod, mk_set};
use proptest::prelude::*;
use serde_json::json;

/// What becomes of a pod that asked for a place.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Created,
    /// The API server refuses it after the webhook, and never asks for a confirmation.
    Refused,
    /// The API server refuses it after its place was confirmed.
    RefusedLate,
    /// Its place is confirmed so many seconds after it was granted.
    ConfirmedAfter(i64),
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
    /// A webhook needs places, and withdraws those that are not confirmed.
    Withdraw,
    /// The registration of the webhook changes, and API servers may create pods without a confirmation from now on.
    Register,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    use Fate::{AnswerLost, ConfirmedAfter, Created, Refused, RefusedLate, Slow};
    let fate = prop::sample::select(vec![
        Created,
        Created,
        Refused,
        Refused,
        RefusedLate,
        Slow,
        AnswerLost,
        ConfirmedAfter(4),
        ConfirmedAfter(20),
    ]);
    let event = prop_oneof![
        8 => fate.prop_map(Event::Create),
        4 => any::<bool>().prop_map(|is_stale| Event::Count { is_stale }),
        2 => (0..20_usize).prop_map(Event::Delete),
        3 => (1..60_i64).prop_map(Event::Wait),
        1 => (0..12_usize).prop_map(Event::Limit),
        4 => Just(Event::Withdraw),
        1 => Just(Event::Register),
    ];
    prop::collection::vec(event, 0..120)
}

struct World {
    places: Places,
    now: Timestamp,
    version: u64,
    /// Pods that have the pinned revision, by place.
    pods: BTreeSet<String>,
    /// Pods on their way, and when they arrive. Their places are confirmed.
    slow: BTreeMap<String, Timestamp>,
    /// Pods whose places are not confirmed yet, and when they are.
    unconfirmed: BTreeMap<String, Timestamp>,
    registration: u64,
    limit: usize,
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
            unconfirmed: BTreeMap::new(),
            registration: 1,
            limit: 6,
            next: 0,
            old_cache: (BTreeSet::new(), 1, Timestamp::UNIX_EPOCH),
            views: Views { template: view },
            target: Target::new(Arc::new(set)),
        };
        world.count(false);
        world
    }

    /// The pods that have the pinned revision, and those that may come with it.
    fn pods(&self) -> usize {
        let unconfirmed = self.unconfirmed.keys().filter(|id| self.places.is_granted(id));
        self.pods.len() + self.slow.len() + unconfirmed.count()
    }

    fn withdraw(&mut self) {
        if self.places.is_overdue(self.now) {
            self.places.withdraw(Some(self.registration), self.now);
        }
    }

    fn create(&mut self, fate: Fate) {
        self.next += 1;
        let id = format!("place-{}", self.next);
        let (limit, now) = (Limit::Number(self.limit), self.now);
        let applicant = Applicant { creator: Creator::of(&self.views.template), registration: self.registration };
        if self.places.must_wait(&applicant.creator, &limit) {
            return;
        }
        let mut grant = self.places.grant_unconfirmed(&id, None, &applicant, &limit, now);
        if matches!(fate, Fate::AnswerLost) {
            grant = self.places.grant_unconfirmed(&id, None, &applicant, &limit, now);
        }
        if grant == Grant::Full {
            return;
        }
        match fate {
            Fate::Created | Fate::AnswerLost => self.confirm(id, self.now),
            Fate::Slow => self.confirm(id, self.now + REQUEST_TIMEOUT),
            Fate::ConfirmedAfter(seconds) => {
                self.unconfirmed.insert(id, self.now + SignedDuration::from_secs(seconds));
            }
            Fate::RefusedLate => {
                let revision = self.places.revision().to_owned();
                self.places.confirm(&id, &revision, &limit, now);
            }
            Fate::Refused => {}
        }
    }

    /// The API server asks for a confirmation, and creates the pod then.
    fn confirm(&mut self, id: String, arrives: Timestamp) {
        let revision = self.places.revision().to_owned();
        match self.places.confirm(&id, &revision, &Limit::Number(self.limit), self.now) {
            Confirmation::Confirmed if arrives > self.now => drop(self.slow.insert(id, arrives)),
            Confirmation::Confirmed => {
                self.version += 1;
                self.pods.insert(id);
            }
            Confirmation::Withdrawn => {}
            Confirmation::Unknown => panic!("{id} was granted less than two minutes ago"),
        }
    }

    fn wait(&mut self, seconds: i64) {
        let until = self.now + SignedDuration::from_secs(seconds);
        let due = |from: &BTreeMap<String, Timestamp>| -> Vec<(Timestamp, String)> {
            from.iter().filter(|(_, at)| **at <= until).map(|(id, at)| (*at, id.clone())).collect()
        };
        for (at, id) in due(&self.unconfirmed) {
            self.unconfirmed.remove(&id);
            self.now = at.max(self.now);
            self.confirm(id, self.now);
        }
        for (_, id) in due(&self.slow) {
            self.slow.remove(&id);
            self.version += 1;
            self.pods.insert(id);
        }
        self.now = until;
    }

    /// Some API servers do not know the new registration yet, and create the pods that they are working on without a confirmation.
    fn register(&mut self) {
        self.registration += 1;
        for (id, _) in std::mem::take(&mut self.unconfirmed) {
            if self.places.is_granted(&id) {
                self.version += 1;
                self.pods.insert(id);
            }
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
        let mut world = World::new();
        for event in events {
            let before = world.pods();
            match event {
                Event::Create(fate) => world.create(fate),
                Event::Count { is_stale } => world.count(is_stale),
                Event::Delete(n) => {
                    let gone = world.pods.iter().nth(n % world.pods.len().max(1)).cloned();
                    gone.map(|id| world.pods.remove(&id));
                    world.version += 1;
                }
                Event::Wait(seconds) => world.wait(seconds),
                Event::Limit(new) => world.limit = new,
                Event::Withdraw => world.withdraw(),
                Event::Register => world.register(),
            }
            let (after, limit) = (world.pods(), world.limit);
            prop_assert!(after <= limit.max(before), "{after} pods, the limit is {limit}");
            let taken = world.places.taken().unwrap();
            prop_assert!(taken >= after || taken >= limit, "{after} pods, {taken} places are taken");
        }
        world.wait(200);
        world.count(false);
        for _ in 0..40 {
            world.create(Fate::Created);
        }
        let limit = world.limit;
        prop_assert!(world.pods.len() >= limit, "{} pods, the limit is {limit}", world.pods.len());
    }
}

/// Three webhooks, three hundred pods at once, a partition of ninety.
#[test]
fn of_three_hundred_concurrent_pods_ninety_get_a_place() {
    let mut world = World::new();
    world.limit = 90;
    // Each webhook reads, decides and swaps; who comes second reads again.
    for _ in 0..100 {
        for _ in 0..3 {
            world.create(Fate::Created);
            assert!(world.pods.len() <= 90);
        }
    }
    assert_eq!(world.pods.len(), 90);
    world.count(false);
    world.create(Fate::Created);
    assert_eq!(world.pods.len(), 90);
}
