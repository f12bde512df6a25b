use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::Router;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::{Patch, PatchParams};
use kube::client::Body;
use kube::{Api, Client};
use pillion_apiserver::ApiServer;
use proptest::prelude::*;
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::*;

/// How a candidate's way to the API server is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Network {
    #[default]
    Up,
    /// Every request is answered with an error.
    Refused,
    /// No request is answered.
    Hanging,
    /// Requests arrive, and the answers do not.
    Deaf,
    /// Only watches are refused.
    WithoutWatches,
}

const LEASE: &str = "manager";

/// An API server, and what happens to the leadership.
struct World {
    server: ApiServer,
    start: Instant,
    /// Who began or ended to lead, and after how many seconds.
    story: Arc<Mutex<Vec<(u64, String)>>>,
    leading: Arc<AtomicUsize>,
    most_leading: Arc<AtomicUsize>,
}

/// A replica that leads for as long as it can, whenever it can.
struct Replica {
    network: Arc<Mutex<Network>>,
    task: JoinHandle<()>,
    finish: Arc<tokio::sync::Notify>,
}

impl Replica {
    fn network(&self, network: Network) {
        *self.network.lock().unwrap() = network;
    }
}

impl World {
    async fn new() -> World {
        let server = ApiServer::new(pillion_apiserver::Config::in_memory());
        server.bootstrap().await.unwrap();
        World {
            server,
            start: Instant::now(),
            story: Arc::default(),
            leading: Arc::default(),
            most_leading: Arc::default(),
        }
    }

    fn client(&self) -> Client {
        Client::new(self.server.router(), "default")
    }

    async fn lease(&self) -> LeaseSpec {
        let leases: Api<Lease> = Api::default_namespaced(self.client());
        leases.get(LEASE).await.unwrap().spec.unwrap()
    }

    /// The time of each replica is years away from that of the others.
    fn config(&self, name: &str, network: &Arc<Mutex<Network>>) -> Config {
        let client = unreliable(self.server.router(), Arc::clone(network));
        let (start, year) = (self.start, i64::from(name.as_bytes()[0]));
        let now = move || {
            let elapsed = i64::try_from(start.elapsed().as_secs()).unwrap();
            Timestamp::from_second(year * 365 * 86_400 + elapsed).unwrap()
        };
        Config::new(client, "default", LEASE, name, now)
    }

    fn replica(&self, name: &str) -> Replica {
        let network = Arc::default();
        let elector = Elector::new(self.config(name, &network)).unwrap();
        let finish = Arc::new(tokio::sync::Notify::new());
        let (finished, term) = (Arc::clone(&finish), self.term(name));
        let task = tokio::spawn(async move {
            loop {
                let leadership = elector.acquire().await;
                let work = async {
                    let _term = term();
                    finished.notified().await;
                };
                if leadership.hold(work).await.is_ok() {
                    return;
                }
            }
        });
        Replica { network, task, finish }
    }

    /// Notes the beginning of a term, and its end when the guard is dropped.
    fn term(&self, name: &str) -> impl Fn() -> Term + Send + use<> {
        let (name, start, story) = (name.to_owned(), self.start, Arc::clone(&self.story));
        let (leading, most) = (Arc::clone(&self.leading), Arc::clone(&self.most_leading));
        move || {
            most.fetch_max(leading.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let term = Term { name: name.clone(), start, story: Arc::clone(&story), leading: Arc::clone(&leading) };
            term.note("leads");
            term
        }
    }

    fn story(&self) -> Vec<String> {
        self.story.lock().unwrap().iter().map(|(at, what)| format!("{at} {what}")).collect()
    }
}

struct Term {
    name: String,
    start: Instant,
    story: Arc<Mutex<Vec<(u64, String)>>>,
    leading: Arc<AtomicUsize>,
}

impl Term {
    fn note(&self, what: &str) {
        self.story.lock().unwrap().push((self.start.elapsed().as_secs(), format!("{} {what}", self.name)));
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.leading.fetch_sub(1, Ordering::Relaxed);
        self.note("ends");
    }
}

/// A client whose requests fare as the network is when they are sent.
fn unreliable(router: Router, network: Arc<Mutex<Network>>) -> Client {
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (router, network) = (router.clone(), *network.lock().unwrap());
        async move {
            let is_watch = request.uri().query().is_some_and(|query| query.contains("fieldSelector"));
            let refused = (StatusCode::SERVICE_UNAVAILABLE, "unavailable").into_response();
            let request = request.map(axum::body::Body::new);
            match network {
                Network::Up => router.oneshot(request).await,
                Network::WithoutWatches if !is_watch => router.oneshot(request).await,
                Network::Refused | Network::WithoutWatches => Ok::<Response, _>(refused),
                Network::Hanging => std::future::pending().await,
                Network::Deaf => {
                    let _ = router.oneshot(request).await;
                    Ok(refused)
                }
            }
        }
    });
    Client::new(service, "default")
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn of_two_candidates_one_leads_for_as_long_as_it_lives() {
    let world = World::new().await;
    let _a = world.replica("a");
    pass(1).await;
    let _b = world.replica("b");
    let first = world.lease().await;
    pass(600).await;
    assert_eq!(world.story(), ["0 a leads"]);
    let lease = world.lease().await;
    assert_eq!((lease.holder_identity.as_deref(), lease.lease_transitions), (Some("a"), Some(0)));
    assert_eq!((lease.lease_duration_seconds, lease.acquire_time), (Some(15), first.acquire_time));
    let renewed = [first.renew_time, lease.renew_time].map(|time| time.unwrap().0.as_second());
    assert!(renewed[0] + 596 <= renewed[1], "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_gracefully_is_followed_at_once() {
    let world = World::new().await;
    let a = world.replica("a");
    pass(1).await;
    let _b = world.replica("b");
    pass(40).await;
    a.finish.notify_one();
    a.task.await.unwrap();
    pass(5).await;
    assert_eq!(world.story(), ["0 a leads", "41 a ends", "41 b leads"]);
    assert_eq!(world.lease().await.lease_transitions, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_dies_is_followed_when_its_lease_has_expired() {
    for network in [Network::Up, Network::WithoutWatches] {
        let world = World::new().await;
        let a = world.replica("a");
        pass(1).await;
        let b = world.replica("b");
        b.network(network);
        // Renewed at 60.
        pass(60).await;
        a.task.abort();
        pass(40).await;
        let story = world.story();
        assert_eq!(story[..2], ["0 a leads", "61 a ends"]);
        let follows: u64 = story[2].strip_suffix(" b leads").unwrap().parse().unwrap();
        // Without a watch the last renewal is seen later, and the lease counts from there.
        let latest = if network == Network::Up { 75 } else { 91 };
        assert!((75..=latest).contains(&follows), "{network:?}: {follows}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_begins() {
    for network in [Network::Refused, Network::Hanging] {
        let world = World::new().await;
        let a = world.replica("a");
        pass(1).await;
        let _b = world.replica("b");
        pass(60).await;
        a.network(network);
        pass(60).await;
        assert_eq!(world.story(), ["0 a leads", "70 a ends", "75 b leads"], "{network:?}");
        assert!(!a.task.is_finished(), "it is a candidate again");
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_answers_were_lost_for_a_while_goes_on() {
    let world = World::new().await;
    let a = world.replica("a");
    pass(61).await;
    a.network(Network::Deaf);
    pass(5).await;
    a.network(Network::Up);
    pass(60).await;
    assert_eq!(world.story(), ["0 a leads"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_else_has_taken_is_lost_with_the_next_renewal() {
    let world = World::new().await;
    let _a = world.replica("a");
    pass(61).await;
    let leases: Api<Lease> = Api::default_namespaced(world.client());
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "intruder"}}));
    leases.patch(LEASE, &PatchParams::default(), &taken).await.unwrap();
    pass(10).await;
    assert_eq!(world.story(), ["0 a leads", "64 a ends"]);
}

#[tokio::test(start_paused = true)]
async fn work_does_not_go_on_after_the_whole_process_was_paused() {
    let world = World::new().await;
    let elector = Elector::new(world.config("a", &Arc::default())).unwrap();
    let (start, last) = (world.start, Arc::new(AtomicU64::new(0)));
    let seen = Arc::clone(&last);
    let lead = tokio::spawn(async move {
        let work = async {
            loop {
                tokio::time::sleep(Duration::from_millis(10)).await;
                seen.store(start.elapsed().as_secs(), Ordering::Relaxed);
            }
        };
        elector.acquire().await.hold::<()>(work).await
    });
    pass(61).await;
    tokio::time::advance(Duration::from_hours(1)).await;
    assert_eq!(lead.await.unwrap(), Err(Lost));
    assert!(last.load(Ordering::Relaxed) <= 61);
}

#[tokio::test(start_paused = true)]
async fn everybody_knows_who_leads() {
    let world = World::new().await;
    let a = world.replica("a");
    pass(1).await;
    let elector = Elector::new(world.config("b", &Arc::default())).unwrap();
    let mut leader = elector.leader();
    let candidate = tokio::spawn(async move { elector.acquire().await.hold(pass(1)).await });
    leader.wait_for(|leader| leader.as_deref() == Some("a")).await.unwrap();
    a.finish.notify_one();
    leader.wait_for(|leader| leader.as_deref() == Some("b")).await.unwrap();
    candidate.await.unwrap().unwrap();
    assert_eq!(*leader.borrow(), None);
}

/// Holds `lease` for ever, within `other` if one is named. Sends the name of the holder.
fn holding(world: &World, name: &str, lease: &str, other: Option<&str>) -> Replica {
    let network = Arc::default();
    let config = Config { name: lease.to_owned(), ..world.config(name, &network) };
    let elector = Elector::new(other.map_or(config.clone(), |other| config.within(other))).unwrap();
    let finish = Arc::new(tokio::sync::Notify::new());
    let (finished, term) = (Arc::clone(&finish), world.term(name));
    let task = tokio::spawn(async move {
        let work = async {
            let _term = term();
            finished.notified().await;
        };
        let _ = elector.acquire().await.hold(work).await;
    });
    Replica { network, task, finish }
}

#[tokio::test(start_paused = true)]
async fn a_lease_within_another_is_renewed_rarely_and_taken_over_at_once_by_the_next_holder_of_that_one() {
    let world = World::new().await;
    let first = holding(&world, "a", "rollout", Some("webhook"));
    let leases: Api<Lease> = Api::default_namespaced(world.client());
    pass(1).await;
    let version = async || leases.get("rollout").await.unwrap().metadata.resource_version;
    let created = version().await;
    pass(80).await;
    assert_eq!(version().await, created);
    pass(20).await;
    assert_ne!(version().await, created);
    assert_eq!(leases.get("rollout").await.unwrap().spec.unwrap().holder_identity.as_deref(), Some("a@webhook"));

    first.task.abort();
    // The current holder of the same Lease is the successor. All others wait until this one expires.
    let _next = holding(&world, "b", "rollout", Some("webhook"));
    pass(1).await;
    assert_eq!(world.story(), ["0 a leads", "101 a ends", "101 b leads"]);
    let _alone = holding(&world, "c", "rollout", None);
    let _elsewhere = holding(&world, "d", "rollout", Some("repair"));
    pass(1000).await;
    assert_eq!(world.story().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_holder_within_another_lease_does_not_take_over_from_one_without() {
    let world = World::new().await;
    let old = holding(&world, "a", "rollout", None);
    pass(1).await;
    let new = holding(&world, "b", "rollout", Some("webhook"));
    pass(100).await;
    assert_eq!(world.story(), ["0 a leads"]);
    old.finish.notify_one();
    pass(1).await;
    assert_eq!(world.story()[1..], ["101 a ends", "101 b leads"]);
    // The other way round as well: one of an older version waits until the new one gives the Lease back.
    let _older = holding(&world, "c", "rollout", None);
    pass(1000).await;
    assert_eq!(world.story().len(), 3);
    new.finish.notify_one();
    pass(1).await;
    assert_eq!(world.story()[4], "1102 c leads");
}

#[tokio::test]
async fn settings_that_could_let_two_lead_at_once_are_refused() {
    type Change = dyn Fn(&mut Config);
    let world = World::new().await;
    let check = |change: &Change| {
        let mut config = world.config("a", &Arc::default());
        change(&mut config);
        Elector::new(config).err().map(|error| error.to_string())
    };
    assert_eq!(check(&|_| ()), None);
    let wrong: [(&Change, &str); 6] = [
        (
            &|config| config.renew_period = Duration::from_secs(8),
            "the renew period 8s must be above zero and, with the retry period 2s, below the renew deadline 10s",
        ),
        (&|config| config.identity = String::new(), "the identity is empty: a Lease without a holder is free"),
        (
            &|config| config.lease_duration = Duration::from_millis(15_500),
            "the lease duration 15.5s is not a whole number of seconds, which is all that a Lease can hold",
        ),
        (
            &|config| config.renew_deadline = Duration::from_secs(15),
            "the renew deadline 15s must be shorter than the lease duration 15s, or two could lead at once",
        ),
        (
            &|config| config.retry_period = Duration::from_secs(9),
            "the retry period 9s must be above zero and, times 1.2, below the renew deadline 10s",
        ),
        (
            &|config| config.retry_period = Duration::ZERO,
            "the retry period 0ns must be above zero and, times 1.2, below the renew deadline 10s",
        ),
    ];
    for (change, message) in wrong {
        assert_eq!(check(change).as_deref(), Some(message));
    }
}

fn network() -> impl Strategy<Value = Network> {
    prop_oneof![
        3 => Just(Network::Up),
        1 => Just(Network::Refused),
        1 => Just(Network::Hanging),
        1 => Just(Network::Deaf),
        1 => Just(Network::WithoutWatches),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Whatever happens to whom: never do two lead at once, and when all is well again, one does.
    #[test]
    fn never_do_two_lead_and_in_the_end_one_does(
        faults in prop::collection::vec((0..3_usize, network(), 0..20_000_u64, prop::bool::weighted(0.1)), 1..25),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            let names = ["a", "b", "c"];
            let mut replicas = names.map(|name| world.replica(name));
            let mut restarts = 0;
            for (index, network, milliseconds, dies) in faults {
                replicas[index].network(network);
                if dies {
                    replicas[index].task.abort();
                    restarts += 1;
                    replicas[index] = world.replica(&format!("{}{restarts}", names[index]));
                }
                tokio::time::sleep(Duration::from_millis(milliseconds)).await;
            }
            for replica in &replicas {
                replica.network(Network::Up);
            }
            // A lease that nobody renews, one more that only now is seen, and an attempt.
            pass(35).await;
            prop_assert_eq!(world.most_leading.load(Ordering::Relaxed), 1, "{:?}", world.story());
            prop_assert_eq!(world.leading.load(Ordering::Relaxed), 1, "{:?}", world.story());
            Ok(())
        })?;
    }
}

/// The API server and the requests of the candidate have a thread of their own. The work never yields: it ends when the lease was renewed.
#[test]
fn a_lease_is_renewed_while_the_work_keeps_its_thread_busy() {
    let own = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let renewals = Arc::new(AtomicUsize::new(0));
    let client = own.block_on(async {
        let world = World::new().await;
        let renewals = Arc::clone(&renewals);
        let count = move |request: axum::extract::Request, next: axum::middleware::Next| {
            renewals.fetch_add(usize::from(request.method() == axum::http::Method::PUT), Ordering::Relaxed);
            next.run(request)
        };
        Client::new(world.server.router().layer(axum::middleware::from_fn(count)), "default")
    });
    let config = Config {
        runtime: Some(own.handle().clone()),
        lease_duration: Duration::from_secs(2),
        renew_deadline: Duration::from_secs(1),
        renew_period: Duration::from_millis(10),
        retry_period: Duration::from_millis(10),
        ..Config::new(client, "default", LEASE, "a", || Timestamp::UNIX_EPOCH)
    };
    let callers = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let outcome = callers.block_on(async {
        let leadership = Elector::new(config).unwrap().acquire().await;
        let busy = async {
            let (start, before) = (Instant::now(), renewals.load(Ordering::Relaxed));
            while renewals.load(Ordering::Relaxed) < before + 3 {
                assert!(start.elapsed() < Duration::from_secs(10), "the lease is not renewed while the work runs");
                std::thread::yield_now();
            }
        };
        leadership.hold(busy).await
    });
    assert_eq!(outcome, Ok(()));
}
