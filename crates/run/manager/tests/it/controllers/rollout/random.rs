//! Random rollouts, many at a time on one cluster, with somebody who sees every state of every pod and every write, and looks whether
//! the promises are kept. `PILLION_ROLLOUTS` says how many. Its default is a hundred where
//! `PILLION_THOROUGH` is set, as in CI, and 24 elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use pillion_rollout::{max_unavailable, partition};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::controllers::rollout::cluster::{Cluster, condition};
use crate::controllers::rollout::faults::{Faults, PodWrite};
use crate::controllers::rollout::seen::{Follower, SeenPod};

/// What happens to clusters, one after the other: faults, and each fate of the leader.
const FATES: u64 = 4;

/// How many rollouts share a cluster.
fn together() -> u64 {
    rollouts().div_ceil(FATES).clamp(1, 25)
}

/// What may never be seen while pods are updated.
#[derive(Clone, Copy, Debug)]
struct Promise {
    pods: usize,
    partition: usize,
    max_unavailable: usize,
}

/// The numbers of a strategy: half of them are percentages.
#[derive(Clone, Debug)]
struct Amounts {
    partition: IntOrString,
    max_unavailable: IntOrString,
}

impl Amounts {
    fn random(random: &mut fastrand::Rng, pods: usize) -> Amounts {
        let mut amount = |numbers: std::ops::Range<i32>, percentages: &[&str]| {
            if random.bool() {
                IntOrString::Int(random.i32(numbers))
            } else {
                IntOrString::String((*random.choice(percentages).unwrap()).to_owned())
            }
        };
        Amounts {
            partition: amount(0..i32::try_from(pods).unwrap(), &["0%", "20%", "34%", "50%", "75%"]),
            max_unavailable: amount(1..4, &["1%", "25%", "34%", "50%"]),
        }
    }

    fn promise(&self, pods: usize) -> Promise {
        let partition = partition(Some(&self.partition), pods);
        Promise { pods, partition, max_unavailable: max_unavailable(Some(&self.max_unavailable), pods) }
    }

    fn fields(&self) -> Value {
        json!({"partition": self.partition, "maxUnavailable": self.max_unavailable})
    }
}

/// How the sidecar is injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cold,
    Native,
    Hot,
}

impl Kind {
    fn spec(self) -> Value {
        let mut proxy = json!({"name": "proxy", "image": "envoy:1"});
        match self {
            Kind::Cold => json!({"containers": [proxy]}),
            Kind::Native => {
                proxy["restartPolicy"] = json!("Always");
                json!({"initContainers": [proxy], "containers": null})
            }
            Kind::Hot => {
                proxy["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
                json!({"containers": [proxy]})
            }
        }
    }
}

fn rollouts() -> u64 {
    std::env::var("PILLION_ROLLOUTS")
        .ok()
        .and_then(|rollouts| rollouts.parse().ok())
        .unwrap_or(if super::is_thorough() { 100 } else { 24 })
}

/// Looks after the pods that there are now, and finds every promise that is broken.
async fn look_after(cluster: &Cluster, promise: Promise) -> Follower {
    let originals: BTreeSet<String> = cluster.seen_pods().list().await.iter().map(|pod| pod.uid().to_owned()).collect();
    let look = move |pods: &[&SeenPod]| {
        let ours: Vec<&&SeenPod> =
            pods.iter().filter(|pod| !pod.is_leaving() && originals.contains(pod.uid())).collect();
        let mut broken = Vec::new();
        let unready = ours.iter().filter(|pod| !pod.is_ready()).count();
        if unready > promise.max_unavailable {
            broken.push(format!("{unready} pods are unavailable"));
        }
        // Pods that were replaced have the latest revision without our doing.
        let is_old = |pod: &SeenPod| {
            pod.has_image("envoy:1") && !["2", "3", "bad"].iter().any(|tag| pod.has_image(&format!("envoy:{tag}")))
        };
        let kept = ours.iter().filter(|pod| is_old(pod)).count() + (promise.pods - ours.len());
        if kept < promise.partition {
            broken.push(format!("{kept} pods are kept on the old revision"));
        }
        broken
    };
    cluster.seen_pods().follow(look).await
}

/// A rollout that is changed, disturbed and followed to its end.
struct Rollout {
    seed: u64,
    cluster: Cluster,
    random: fastrand::Rng,
    kind: Kind,
    /// What the strategy says at first, and what it may be changed to.
    amounts: [Amounts; 2],
    promise: Promise,
}

impl Rollout {
    async fn prepare(cluster: &Cluster, seed: u64) -> Rollout {
        let mut random = fastrand::Rng::with_seed(seed);
        let cluster = cluster.in_namespace(&format!("mesh-{seed}")).await;
        let pods = random.usize(3..9);
        let amounts = [(); 2].map(|()| Amounts::random(&mut random, pods));
        let [first, then] = amounts.each_ref().map(|amounts| amounts.promise(pods));
        // Whenever it is changed, this holds.
        let promise = Promise {
            pods,
            partition: first.partition.min(then.partition),
            max_unavailable: first.max_unavailable.max(then.max_unavailable),
        };
        let kind = *random.choice(&[Kind::Cold, Kind::Native, Kind::Hot]).unwrap();
        let mut spec = kind.spec();
        spec["updateStrategy"] = strategy(&mut random, &amounts[0]);
        cluster.create_set("envoy:1", spec).await;
        let crashes = ["proxy", "proxy-1", "proxy-2"].map(|name| format!("{name}: 0s exit 1 with envoy:bad"));
        let crashes = if kind == Kind::Hot { crashes[1..].join(", ") } else { crashes[0].clone() };
        let annotations = json!({"pillion.dev/simulate": crashes});
        cluster.create_deployment("web", pods, json!({"annotations": annotations})).await;
        Rollout { seed, cluster, random, kind, amounts, promise }
    }

    async fn run(mut self) {
        let (seed, promise, cluster) = (self.seed, self.promise, &self.cluster);
        let random = &mut self.random;
        cluster.until_status(json!({"updatedReadyPods": promise.pods})).await;
        let looking = look_after(cluster, promise).await;
        let mut images = vec!["envoy:2"];
        cluster.set_image("envoy:2").await;
        sleep(Duration::from_millis(random.u64(0..6_000))).await;
        if random.bool() {
            let next = *random.choice(&["envoy:1", "envoy:3", "envoy:bad"]).unwrap();
            images.push(next);
            cluster.set_image(next).await;
        }
        if random.bool() {
            cluster.patch_own_set(json!({"spec": {"updateStrategy": self.amounts[1].fields()}})).await;
            sleep(Duration::from_millis(random.u64(0..3_000))).await;
        }
        if random.u8(0..3) == 0 {
            cluster.patch_own_set(json!({"spec": {"updateStrategy": {"paused": true}}})).await;
            sleep(Duration::from_millis(random.u64(0..3_000))).await;
            cluster.patch_own_set(json!({"spec": {"updateStrategy": {"paused": null}}})).await;
        }
        // Some pods are drained from their node.
        let mut names: Vec<Value> = cluster.pods().await.iter().map(|pod| pod["metadata"]["name"].clone()).collect();
        random.shuffle(&mut names);
        for name in names.iter().take(random.usize(0..3)) {
            cluster.delete_pod(name.as_str().unwrap()).await;
        }
        let is_over = async || {
            let set = cluster.own_set().await;
            let is_current = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            let is_complete = condition(&set, "Progressing")["reason"] == "Complete";
            is_current && (is_complete || condition(&set, "Blocked")["status"] == "True")
        };
        cluster.until(&format!("seed {seed} is over, {promise:?}, {images:?}"), is_over).await;
        let broken = looking.end();
        assert_eq!(broken, BTreeSet::new(), "seed {seed}, {promise:?}, {images:?}");
        let crashes = images.contains(&"envoy:bad");
        for pod in cluster.seen_pods().list().await {
            assert_eq!(pod.restarts("app"), 0, "seed {seed}: an app was restarted");
            let restarts: u64 = ["proxy", "proxy-1", "proxy-2"].map(|name| pod.restarts(name)).iter().sum();
            // A hot upgrade restarts both containers of a pair.
            let allowed = images.len() as u64 * if self.kind == Kind::Hot { 2 } else { 1 };
            assert!(crashes || restarts <= allowed, "seed {seed}: {restarts} restarts for {images:?}");
        }
    }
}

/// A way to order the pods, and what is promised whatever the order.
fn strategy(random: &mut fastrand::Rng, amounts: &Amounts) -> Value {
    let mut strategy = amounts.fields();
    match random.u8(0..4) {
        0 => {
            let weights = json!([{"weight": 50, "matchSelector": {"matchLabels": {"of": "web"}}}]);
            strategy["priorityStrategy"] = json!({"weightPriority": weights});
        }
        1 => strategy["priorityStrategy"] = json!({"orderPriority": [{"orderedKey": "of"}]}),
        2 => strategy["scatterStrategy"] = json!([{"key": "of", "value": "web"}]),
        _ => {}
    }
    strategy
}

/// Who wrote to pods, one after the other. Nobody begins before the one before has ended for good.
fn writers(writes: &[PodWrite]) -> Vec<&str> {
    let mut writers: Vec<&str> = Vec::new();
    let mut last: Option<&PodWrite> = None;
    for write in writes {
        if writers.last() != Some(&write.writer.as_str()) {
            assert!(!writers.contains(&write.writer.as_str()), "{} writes after {writers:?}", write.writer);
            assert!(
                last.is_none_or(|last| last.ended <= write.begun),
                "two write at the same time: {last:?}, {write:?}"
            );
            writers.push(&write.writer);
        }
        last = Some(write);
    }
    writers
}

/// What becomes of the leader in the middle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Stays,
    Killed,
    /// It lives, and does not reach the API server for a minute. When it does again, another one leads.
    CutOff,
}

#[tokio::test(start_paused = true)]
async fn random_rollouts_keep_their_promises_and_end() {
    let mut successions = 0;
    for first in (0..rollouts()).step_by(usize::try_from(together()).unwrap()) {
        let mut random = fastrand::Rng::with_seed(first);
        let cluster = Cluster::start().await;
        let faults = Faults::new(first);
        let replica = |name: &str| pillion_manager::Config {
            identity: Some(name.to_owned()),
            ..cluster.config(faults.client(cluster.engine.server(), name))
        };
        let leader = cluster.manage(replica("a")).await;
        let other = cluster.manage(replica("b")).await;
        let seeds = first..rollouts().min(first + together());
        let rollouts = join_all(seeds.map(|seed| Rollout::prepare(&cluster, seed))).await;
        let (is_faulty, fate) = match first / together() % FATES {
            0 => (true, Fate::Stays),
            1 => (false, Fate::Killed),
            2 => (false, Fate::CutOff),
            _ => (true, Fate::CutOff),
        };
        let moment = Duration::from_millis(random.u64(1_000..10_000));
        let disturb = async {
            if is_faulty {
                faults.start();
            }
            sleep(moment).await;
            match fate {
                Fate::Stays => {}
                Fate::Killed => leader.kill(),
                Fate::CutOff => faults.cut_off("a", Duration::from_mins(1)).await,
            }
        };
        tokio::join!(disturb, join_all(rollouts.into_iter().map(Rollout::run)));
        other.kill();
        let writes = faults.pod_writes();
        let writers = writers(&writes);
        assert!(fate != Fate::Stays || writers == ["a"], "{writers:?}");
        successions += writers.len() - 1;
    }
    assert!(rollouts() < 100 || successions > 0, "no replica ever went on where another one ended");
}
