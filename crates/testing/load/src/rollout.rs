//! A rollout of a SidecarSet over many simulated pods: what each pod costs, and how often the manager writes for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use pillion_embedded::{Config, Embedded};
use pillion_manager::{ControllerName, Manager, WebhookAddress};
use serde_json::{Value, json};

use pillion_engine_load::process;

/// Where the API server finds the webhooks: a name that no network has.
const URL: &str = "https://pillion.invalid";
/// Pods of one Deployment, at most. In both rollouts they are as large, so that only their number differs.
const REPLICAS: usize = 10_000;

/// How many pods.
#[derive(Args, Clone)]
pub(crate) struct Rollout {
    /// Pods of the larger rollout; the smaller one has a tenth of them.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
}

/// What one rollout took.
struct Taken {
    /// Of the whole process: API server, controllers, nodes and manager.
    processor: Duration,
    /// What the process holds for all pods, in bytes.
    memory: u64,
    /// Writes of the manager.
    writes: usize,
    /// In the time of the cluster.
    virtual_seconds: u64,
}

impl Rollout {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "pods",
            "processor time of each",
            "memory of each",
            "writes of the manager for each",
            "in virtual time",
        ]);
        let mut costs = Vec::new();
        let replicas = REPLICAS.min(self.pods / 10).max(1);
        for pods in [self.pods / 10, self.pods] {
            eprintln!("{pods} pods …");
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
            let taken = runtime.block_on(roll_out(pods, replicas))?;
            let count = f64::from(u32::try_from(pods)?);
            let processor = taken.processor.as_secs_f64() / count;
            let memory = f64::from(u32::try_from(taken.memory / 1024)?) / count;
            let writes = f64::from(u32::try_from(taken.writes)?) / count;
            table.add_row([
                pods.to_string(),
                format!("{:.0} µs", processor * 1e6),
                format!("{memory:.1} KiB"),
                format!("{writes:.2} (goal at most 2)"),
                format!("{} s", taken.virtual_seconds),
            ]);
            costs.push((processor, memory));
        }
        println!("{table}");
        if let [small, large] = costs.as_slice() {
            println!(
                "growth: processor time of a pod {:.2}, memory of a pod {:.2}",
                large.0 / small.0,
                large.1 / small.1
            );
        }
        Ok(())
    }
}

async fn roll_out(pods: usize, replicas: usize) -> anyhow::Result<Taken> {
    let me = std::process::id();
    let before = process::usage(me)?.resident;
    let engine = Embedded::start(Config::simulated("2026-01-01T00:00:00Z".parse()?)).await?;
    let writes = Arc::new(AtomicUsize::new(0));
    let clock = engine.server().clock();
    let manager = Manager::new(pillion_manager::Config {
        parts: vec![ControllerName::Webhook, ControllerName::Rollout],
        ..pillion_manager::Config::new(
            counted(&engine, Arc::clone(&writes)),
            Arc::new(move || clock.now()),
            WebhookAddress::Url(URL.to_owned()),
        )
    });
    engine.server().register_webhook(URL, manager.webhooks());
    manager.start().await?;
    manager.register().await?;
    let running = tokio::spawn(async move { manager.run().await });

    let client = engine.client();
    let sets = sets(&client);
    sets.create(&PostParams::default(), &serde_json::from_value(set("envoy:1"))?).await?;
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    for (i, begin) in (0..pods).step_by(replicas).enumerate() {
        let deployment = deployment(&format!("web-{i}"), replicas.min(pods - begin));
        deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    }
    updated(&sets, pods).await?;

    let (used, sent) = (process::usage(me)?, writes.load(Ordering::Relaxed));
    let began = tokio::time::Instant::now();
    let patch = json!({"spec": set("envoy:2")["spec"]});
    sets.patch("mesh", &PatchParams::default(), &Patch::Merge(patch)).await?;
    updated(&sets, pods).await?;
    let after = process::usage(me)?;
    running.abort();
    Ok(Taken {
        processor: after.processor.saturating_sub(used.processor),
        memory: after.resident.saturating_sub(before),
        writes: writes.load(Ordering::Relaxed) - sent,
        virtual_seconds: began.elapsed().as_secs(),
    })
}

/// A client that counts its writes; Leases are not about pods.
fn counted(engine: &Embedded, writes: Arc<AtomicUsize>) -> Client {
    let count = from_fn(move |request: Request, next: Next| {
        let is_counted = request.method() != Method::GET && !request.uri().path().contains("/leases");
        writes.fetch_add(usize::from(is_counted), Ordering::Relaxed);
        next.run(request)
    });
    // One that matches everything: a layer is only called for what is matched.
    Client::new(Router::new().fallback_service(engine.server().router()).layer(count), "default")
}

fn sets(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("apps.kruise.io", "v1beta1", "SidecarSet");
    Api::all_with(client.clone(), &ApiResource::from_gvk(&kind))
}

fn set(image: &str) -> Value {
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}}, "containers": [{"name": "proxy", "image": image}],
            "updateStrategy": {"maxUnavailable": "10%"},
        },
    })
}

fn deployment(name: &str, replicas: usize) -> Value {
    let labels = json!({"app": "web", "of": name});
    let spec = json!({"containers": [{"name": "app", "image": "app:1"}]});
    json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"of": name}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    })
}

/// Waits until every pod has the latest revision and is ready.
async fn updated(sets: &Api<DynamicObject>, pods: usize) -> anyhow::Result<()> {
    loop {
        let set = sets.get("mesh").await?;
        let status = &set.data["status"];
        let is_current = status["observedGeneration"].as_i64() == set.metadata.generation;
        if is_current && status["matchedPods"] == pods && status["updatedReadyPods"] == pods {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}
