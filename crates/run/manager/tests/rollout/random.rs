//! Random rollouts, many at a time on one cluster, with somebody who sees every state of every pod and looks whether the promises
//! are kept. `PILLION_ROLLOUTS` says how many.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cluster::{Cluster, condition};
use crate::faults::Faults;
use crate::seen::{Follower, SeenPod};

/// How many rollouts share a cluster.
const TOGETHER: u64 = 25;

/// What may never be seen while pods are updated.
#[derive(Clone, Copy, Debug)]
struct Promise {
    pods: usize,
    partition: usize,
    max_unavailable: usize,
}

fn rollouts() -> u64 {
    std::env::var("PILLION_ROLLOUTS").ok().and_then(|rollouts| rollouts.parse().ok()).unwrap_or(100)
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
        let kept = ours.iter().filter(|pod| pod.has_image("envoy:1")).count() + (promise.pods - ours.len());
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
    promise: Promise,
}

impl Rollout {
    async fn prepare(cluster: &Cluster, seed: u64) -> Rollout {
        let mut random = fastrand::Rng::with_seed(seed);
        let cluster = cluster.in_namespace(&format!("mesh-{seed}")).await;
        let pods = random.usize(3..9);
        let promise = Promise { pods, partition: random.usize(0..pods), max_unavailable: random.usize(1..4) };
        let proxy = json!({"name": "proxy", "image": "envoy:1"});
        let native = json!({"name": "proxy", "image": "envoy:1", "restartPolicy": "Always"});
        let mut spec = if random.bool() {
            json!({"initContainers": [native], "containers": null})
        } else {
            json!({"containers": [proxy]})
        };
        spec["updateStrategy"] = strategy(&mut random, promise);
        cluster.create_set("envoy:1", spec).await;
        let crashes = json!({"pillion.dev/simulate": "proxy: 0s exit 1 with envoy:bad"});
        cluster.create_deployment("web", pods, json!({"annotations": crashes})).await;
        Rollout { seed, cluster, random, promise }
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
            let restarts = pod.restarts("proxy");
            assert!(crashes || restarts <= images.len() as u64, "seed {seed}: {restarts} restarts for {images:?}");
        }
    }
}

/// A way to order the pods, and what is promised whatever the order.
fn strategy(random: &mut fastrand::Rng, promise: Promise) -> Value {
    let mut strategy = json!({"partition": promise.partition, "maxUnavailable": promise.max_unavailable});
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

#[tokio::test(start_paused = true)]
async fn random_rollouts_keep_their_promises_and_end() {
    for first in (0..rollouts()).step_by(usize::try_from(TOGETHER).unwrap()) {
        let mut random = fastrand::Rng::with_seed(first);
        let cluster = Cluster::start().await;
        let faults = Faults::new(first);
        let replica = |name: &str| pillion_manager::Config {
            identity: Some(name.to_owned()),
            ..cluster.config(faults.client(cluster.engine.server()))
        };
        let leader = cluster.manage(replica("a")).await;
        let other = cluster.manage(replica("b")).await;
        let seeds = first..rollouts().min(first + TOGETHER);
        let rollouts = join_all(seeds.map(|seed| Rollout::prepare(&cluster, seed))).await;
        let (is_faulty, is_killed) = (random.bool(), random.bool());
        let moment = Duration::from_millis(random.u64(0..20_000));
        let disturb = async {
            if is_faulty {
                faults.start();
            }
            sleep(moment).await;
            if is_killed {
                leader.kill();
            }
        };
        tokio::join!(disturb, join_all(rollouts.into_iter().map(Rollout::run)));
        other.kill();
    }
}
