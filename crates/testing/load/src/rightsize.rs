//! What a pass of the recommender costs: processor time, memory and writes, over few and many containers.
//!
//! ```text
//!  an API server in memory with pods, ReplicaSets and autoscalers; usage as text, each pass a minute later
//!      ─▶ the recommender, one pass after the other in virtual time ─▶ /proc, and its own metrics
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_rightsizer::{Cluster, Config, recommend};
use pillion_store::{Options, Store};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::process;

/// Containers of a pod, one of which is a native sidecar.
const CONTAINERS: usize = 2;
/// Pods of one Deployment, which has an autoscaler.
const PODS: usize = 10;
/// Passes that are measured.
const PASSES: u32 = 5;

/// How many containers.
#[derive(Args, Clone)]
pub(crate) struct Rightsize {
    /// Containers in all; a tenth of it is measured first, for the growth of the cost.
    #[arg(long, default_value_t = 100_000)]
    containers: usize,
}

/// What one size took.
struct Taken {
    containers: usize,
    pass: Duration,
    first: Duration,
    memory: u64,
    writes: u64,
}

impl Rightsize {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "containers",
            "first pass",
            "a pass at rest, processor time",
            "of each container",
            "memory of each container",
            "writes of a pass at rest",
        ]);
        let mut passes = Vec::new();
        for containers in [self.containers / 10, self.containers] {
            eprintln!("{containers} containers …");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
            let taken = runtime.block_on(measure(containers))?;
            let count = f64::from(u32::try_from(taken.containers)?);
            #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
            let memory = taken.memory as f64;
            table.add_row([
                taken.containers.to_string(),
                format!("{:.0} ms", taken.first.as_secs_f64() * 1e3),
                format!("{:.0} ms", taken.pass.as_secs_f64() * 1e3),
                format!("{:.1} µs", taken.pass.as_secs_f64() / count * 1e6),
                format!("{:.2} KiB", memory / count / 1024.0),
                taken.writes.to_string(),
            ]);
            passes.push(taken.pass.as_secs_f64());
        }
        println!("{table}");
        if let [small, large] = passes.as_slice() {
            println!(
                "growth of a pass over ten times as many containers: {:.1}; the goal is at most 11",
                large / small
            );
        }
        println!("a pass reads the usage of all containers; 2 containers a pod, one autoscaler for 10 pods");
        Ok(())
    }
}

async fn measure(containers: usize) -> anyhow::Result<Taken> {
    let pods = containers / CONTAINERS;
    let server = ApiServer::new(pillion_apiserver::Config {
        store: Store::memory(Options::default()),
        clock: Clock::virtual_from("2026-01-01T00:00:00Z".parse()?),
        seed: Some(0),
        ..pillion_apiserver::Config::in_memory()
    });
    server.bootstrap().await?;
    fill(&server, pods).await?;
    let usage = Arc::new(Mutex::new(String::new()));
    server.register_metrics(Router::new().route(
        "/apis/metrics.k8s.io/v1beta1/pods",
        axum::routing::get({
            let usage = Arc::clone(&usage);
            // The answer is given away: the recommender's memory is what is measured.
            async move || std::mem::take(&mut *usage.lock().unwrap_or_else(PoisonError::into_inner))
        }),
    ));
    let writes = Arc::new(AtomicU64::new(0));
    let router = server.router().layer(middleware::from_fn({
        let writes = Arc::clone(&writes);
        move |request: Request, next: Next| {
            if request.method() != axum::http::Method::GET {
                writes.fetch_add(1, Ordering::Relaxed);
            }
            next.run(request)
        }
    }));
    let clock = server.clock();
    let client = Client::new(router, "default");
    let mut config = Config::new(client.clone(), Arc::new(move || clock.now()));
    config.gates.native_sidecar = true;
    let before = process::usage(std::process::id())?;
    // History of two days is stored every ten minutes, and not in each pass.
    *usage.lock().unwrap_or_else(PoisonError::into_inner) =
        answer(pods, clock.now() - jiff::SignedDuration::from_hours(48));
    let cluster = Cluster::new(client);
    let running = tokio::spawn(async move { recommend(&cluster, &config, std::future::pending()).await });
    // The first pass comes at once, and writes every status and checkpoint.
    tokio::time::sleep(Duration::from_secs(50)).await;
    let first = process::usage(std::process::id())?.processor.saturating_sub(before.processor);
    let mut spent = Duration::ZERO;
    let mut at_rest = 0;
    for _ in 0..PASSES {
        *usage.lock().unwrap_or_else(PoisonError::into_inner) = answer(pods, clock.now());
        let (start, written) = (process::usage(std::process::id())?.processor, writes.load(Ordering::Relaxed));
        tokio::time::sleep(Duration::from_mins(1)).await;
        spent += process::usage(std::process::id())?.processor.saturating_sub(start);
        at_rest = writes.load(Ordering::Relaxed) - written;
    }
    let after = process::usage(std::process::id())?;
    running.abort();
    Ok(Taken {
        containers,
        pass: spent / PASSES,
        first,
        memory: after.resident.saturating_sub(before.resident),
        writes: at_rest,
    })
}

/// Pods that run, their controllers, and an autoscaler for each Deployment.
async fn fill(server: &ApiServer, pods: usize) -> anyhow::Result<()> {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    create(server, definitions, pillion_api::vpa::crd::vertical_pod_autoscaler()).await?;
    create(server, definitions, pillion_api::vpa::crd::checkpoint()).await?;
    create(server, "/api/v1/namespaces/default/serviceaccounts", json!({"metadata": {"name": "default"}})).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for group in 0..pods.div_ceil(PODS) {
        let name = format!("web-{group}");
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": spec()});
        let workload = json!({"replicas": PODS, "selector": {"matchLabels": labels}, "template": template});
        let deployment = json!({"metadata": {"name": name}, "spec": workload});
        let deployment = create(server, "/apis/apps/v1/namespaces/default/deployments", deployment).await?;
        let set = json!({"metadata": {"name": name, "ownerReferences": [owner("Deployment", &deployment)]}, "spec": workload});
        let set = create(server, "/apis/apps/v1/namespaces/default/replicasets", set).await?;
        let fixed = json!({"cpu": "500m", "memory": "500Mi"});
        let autoscaler = json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": name},
            "spec": {
                "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
                // What is recommended does not move, however the little history grows.
                "resourcePolicy": {"containerPolicies": [{"containerName": "*", "minAllowed": fixed, "maxAllowed": fixed}]}
            }
        });
        create(server, "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers", autoscaler).await?;
        for pod in (group * PODS)..((group + 1) * PODS).min(pods) {
            let name = format!("pod-{pod}");
            let metadata = json!({"name": name, "labels": labels, "ownerReferences": [owner("ReplicaSet", &set)]});
            let mut spec = spec();
            spec["nodeName"] = json!("node");
            create(server, "/api/v1/namespaces/default/pods", json!({"metadata": metadata, "spec": spec})).await?;
        }
    }
    Ok(())
}

fn spec() -> Value {
    let container =
        |name: &str| json!({"name": name, "image": "x", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}});
    let mut mesh = container("mesh");
    mesh["restartPolicy"] = json!("Always");
    json!({"containers": [container("app")], "initContainers": [mesh]})
}

fn owner(kind: &str, object: &Value) -> Value {
    let metadata = &object["metadata"];
    json!({"apiVersion": "apps/v1", "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "controller": true})
}

async fn create(server: &ApiServer, path: &str, object: Value) -> anyhow::Result<Value> {
    let request = Request::post(path)
        .header("content-type", "application/json")
        .body(axum::body::Body::from(object.to_string()))?;
    let response = server.router().oneshot(request).await?;
    let status = response.status();
    let body = axum::body::to_bytes(response.into_body(), usize::MAX).await?;
    anyhow::ensure!(status.is_success(), "{path}: {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

/// The answer of the metrics API about all pods.
fn answer(pods: usize, at: jiff::Timestamp) -> String {
    let pod = |i: usize| {
        let container = |name: &str, cpu: usize, memory: usize| {
            format!(r#"{{"name":"{name}","usage":{{"cpu":"{cpu}m","memory":"{memory}Mi"}}}}"#)
        };
        let containers = format!("{},{}", container("app", 50 + i % 300, 100 + i % 200), container("mesh", 10, 40));
        format!(
            r#"{{"metadata":{{"name":"pod-{i}","namespace":"default"}},"timestamp":"{at}","window":"15s","containers":[{containers}]}}"#
        )
    };
    let items: Vec<String> = (0..pods).map(pod).collect();
    format!(
        r#"{{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","metadata":{{}},"items":[{}]}}"#,
        items.join(",")
    )
}
