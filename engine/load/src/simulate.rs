//! Many simulated pods in one process: what each costs, and a rollout over ten thousand of them in virtual time.

use std::time::Instant;

use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use futures::future::try_join_all;
use k8s_openapi::api::apps::v1::Deployment;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::wait::await_condition;
use pillion_embedded::{Config, Embedded};
use serde_json::json;

use pillion_engine_load::process;

/// Pods of one Deployment.
const REPLICAS: usize = 10_000;

/// How many pods.
#[derive(Args, Clone)]
pub(crate) struct Simulate {
    /// Pods in all, in Deployments of 10,000.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    /// Also measures a tenth of it first, for the growth of the cost.
    #[arg(long)]
    growth: bool,
}

/// What one run took.
struct Taken {
    pods: usize,
    to_running: f64,
    memory: u64,
    rollout: f64,
    rollout_virtual: f64,
}

impl Simulate {
    /// Each size in a process of its own would be cleaner for memory; the smaller one comes first instead.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let sizes = if self.growth { vec![self.pods / 10, self.pods] } else { vec![self.pods] };
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "pods",
            "until all run",
            "of each",
            "memory",
            "of each",
            "rollout of the first Deployment",
            "in virtual time",
        ]);
        for pods in sizes {
            eprintln!("{pods} pods …");
            // One thread and a clock that moves when nobody works: the time of the cluster is exact, whatever the machine does.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
            let taken = runtime.block_on(simulate(pods))?;
            let count = f64::from(u32::try_from(taken.pods)?);
            #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
            let memory = taken.memory as f64;
            table.add_row([
                taken.pods.to_string(),
                format!("{:.1} s", taken.to_running),
                format!("{:.0} µs", taken.to_running / count * 1e6),
                format!("{:.0} MiB", memory / 1_048_576.0),
                format!("{:.1} KiB", memory / count / 1024.0),
                format!("{:.1} s", taken.rollout),
                format!("{:.0} s", taken.rollout_virtual),
            ]);
        }
        println!("{table}");
        Ok(())
    }
}

async fn simulate(pods: usize) -> anyhow::Result<Taken> {
    let before = process::usage(std::process::id())?.resident;
    let cluster = Embedded::start(Config::simulated("2026-01-01T00:00:00Z".parse()?)).await?;
    let client = cluster.client();
    let started = Instant::now();
    let mut left = pods;
    let mut names = Vec::new();
    while left > 0 {
        let replicas = left.min(REPLICAS);
        let name = format!("fleet-{}", names.len());
        create(&client, &name, replicas).await?;
        names.push(name);
        left -= replicas;
    }
    try_join_all(names.iter().map(|name| rolled_out(&client, name))).await?;
    let to_running = started.elapsed().as_secs_f64();
    let memory = process::usage(std::process::id())?.resident.saturating_sub(before);

    let (began, virtual_began) = (Instant::now(), tokio::time::Instant::now());
    if let Some(name) = names.first() {
        let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
        let patch = json!({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}});
        deployments.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        rolled_out(&client, name).await?;
    }
    Ok(Taken {
        pods,
        to_running,
        memory,
        rollout: began.elapsed().as_secs_f64(),
        rollout_virtual: virtual_began.elapsed().as_secs_f64(),
    })
}

async fn create(client: &Client, name: &str, replicas: usize) -> anyhow::Result<()> {
    let labels = json!({"app": name});
    let deployment = json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            // What a rollout waits for: without it simulated pods are available at once.
            "minReadySeconds": 30,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {
                "initContainers": [{"name": "proxy", "image": "proxy:1.0", "restartPolicy": "Always"}],
                "containers": [{"name": "app", "image": "web:1.0", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}],
            }},
        },
    });
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    deployments.create(&PostParams::default(), &serde_json::from_value(deployment)?).await?;
    Ok(())
}

/// As `kubectl rollout status` sees it.
async fn rolled_out(client: &Client, name: &str) -> anyhow::Result<()> {
    let deployments: Api<Deployment> = Api::default_namespaced(client.clone());
    let done = |deployment: Option<&Deployment>| {
        deployment.is_some_and(|deployment| {
            let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            deployment.status.as_ref().is_some_and(|status| {
                status.observed_generation == deployment.metadata.generation
                    && status.updated_replicas == wanted
                    && status.available_replicas == wanted
                    && status.replicas == wanted
            })
        })
    };
    await_condition(deployments, name, done).await?;
    Ok(())
}
