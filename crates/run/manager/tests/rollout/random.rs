//! Random rollouts, with somebody who looks all the time whether the promises are kept. `PILLION_ROLLOUTS` says how many.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::cluster::{Cluster, condition};
use crate::faults::Faults;

/// What may never be seen while pods are updated.
#[derive(Clone, Copy, Debug)]
struct Promise {
    pods: usize,
    partition: usize,
    max_unavailable: usize,
}

fn rollouts() -> u64 {
    std::env::var("PILLION_ROLLOUTS").ok().and_then(|rollouts| rollouts.parse().ok()).unwrap_or(3)
}

/// Looks at the pods that there are now until it is stopped, and writes down every promise that is broken.
async fn look_after(cluster: &Cluster, promise: Promise) -> (Arc<Mutex<BTreeSet<String>>>, JoinHandle<()>) {
    let pods: Api<Pod> = cluster.api();
    let originals: BTreeSet<String> =
        pods.list(&ListParams::default()).await.unwrap().iter().filter_map(kube::ResourceExt::uid).collect();
    let broken: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let found = Arc::clone(&broken);
    let task = tokio::spawn(async move {
        loop {
            let listed = pods.list(&ListParams::default()).await.unwrap();
            let ours: Vec<&Pod> = listed
                .iter()
                .filter(|pod| pod.metadata.deletion_timestamp.is_none())
                .filter(|pod| pod.uid().is_some_and(|uid| originals.contains(&uid)))
                .collect();
            let unready = ours.iter().filter(|pod| !is_ready(pod)).count();
            if unready > promise.max_unavailable {
                found.lock().unwrap().insert(format!("{unready} pods are unavailable"));
            }
            // Pods that were replaced have the latest revision without our doing.
            let kept = ours.iter().filter(|pod| has_image(pod, "envoy:1")).count() + (promise.pods - ours.len());
            if kept < promise.partition {
                found.lock().unwrap().insert(format!("{kept} pods are kept on the old revision"));
            }
            sleep(Duration::from_millis(100)).await;
        }
    });
    (broken, task)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn has_image(pod: &Pod, image: &str) -> bool {
    let spec = pod.spec.as_ref().unwrap();
    let all = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    all.into_iter().any(|container| container.image.as_deref() == Some(image))
}

#[tokio::test(start_paused = true)]
async fn random_rollouts_keep_their_promises_and_end() {
    for seed in 0..rollouts() {
        let mut random = fastrand::Rng::with_seed(seed);
        let pods = random.usize(3..9);
        let promise = Promise { pods, partition: random.usize(0..pods), max_unavailable: random.usize(1..4) };
        let cluster = Cluster::start().await;
        let faults = Faults::new(seed);
        let replica = |name: &str| pillion_manager::Config {
            identity: Some(name.to_owned()),
            ..cluster.config(faults.client(cluster.engine.server()))
        };
        let first = cluster.manage(replica("a")).await;
        let second = cluster.manage(replica("b")).await;
        let proxy = json!({"name": "proxy", "image": "envoy:1"});
        let native = json!({"name": "proxy", "image": "envoy:1", "restartPolicy": "Always"});
        let containers = if random.bool() {
            json!({"initContainers": [native], "containers": null})
        } else {
            json!({"containers": [proxy]})
        };
        let mut spec =
            json!({"updateStrategy": {"partition": promise.partition, "maxUnavailable": promise.max_unavailable}});
        spec.as_object_mut().unwrap().extend(containers.as_object().unwrap().clone());
        cluster.create_set("envoy:1", spec).await;
        cluster.create_deployment("web", pods, json!({})).await;
        cluster.until_status(json!({"updatedReadyPods": pods})).await;

        let (broken, looking) = look_after(&cluster, promise).await;
        if random.bool() {
            faults.start();
        }
        cluster.set_image("envoy:2").await;
        sleep(Duration::from_secs(random.u64(0..6))).await;
        if random.bool() {
            first.kill();
        }
        if random.bool() {
            cluster.set_image("envoy:3").await;
        }
        if random.bool() {
            let name = cluster.pods().await[0]["metadata"]["name"].as_str().unwrap().to_owned();
            cluster.delete_pod(&name).await;
        }
        let is_over = async || {
            let set = cluster.set("mesh").await;
            let is_current = set["status"]["observedGeneration"] == set["metadata"]["generation"];
            let is_complete = condition(&set, "Progressing")["reason"] == "Complete";
            is_current && (is_complete || condition(&set, "Blocked")["status"] == "True")
        };
        cluster.until(&format!("seed {seed} is over, {promise:?}"), is_over).await;
        looking.abort();
        assert_eq!(*broken.lock().unwrap(), BTreeSet::new(), "seed {seed}, {promise:?}");
        assert_eq!(cluster.restarts().await.1, 0, "seed {seed}: an app was restarted");
        second.kill();
    }
}
