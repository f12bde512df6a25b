//! A recommender over a fleet, ours or upstream's: a process of its own, in real time.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::routing::get;
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use pillion_api::vpa::{RecommendedContainerResources, VerticalPodAutoscalerStatus};
use pillion_apiserver::ApiServer;
use pillion_engine_load::process;
use pillion_rightsizer::{Cluster, Config, recommend};
use pillion_serve::Server;
use serde_json::{Value, json};

use super::fleet::{AUTOSCALERS, CONTAINERS, Fleet, fill, merge, read};
use super::{Taken, counted};

/// Questions for usage before the first measured pass: the first pass writes everything for the first time, and the second may have what came
/// too late for it.
const BEFORE: u64 = 3;

/// Whose recommender.
pub(super) enum Whose {
    Ours,
    /// Its program.
    Upstream(PathBuf),
}

impl Whose {
    /// Between passes. A pass that takes longer delays the next one.
    fn interval(&self) -> u64 {
        match self {
            Whose::Ours => 3,
            Whose::Upstream(_) => 10,
        }
    }

    /// Passes that are measured. Over a noisy fleet both recommenders read the same.
    fn passes(&self, fleet: Fleet) -> u32 {
        match (fleet, self) {
            (Fleet::Noisy, _) => 5,
            (Fleet::Flat, Whose::Ours) => 10,
            (Fleet::Flat, Whose::Upstream(_)) => 3,
        }
    }

    fn command(&self, kubeconfig: &Path) -> anyhow::Result<Command> {
        Ok(match self {
            Whose::Ours => {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("recommend").arg(kubeconfig).arg(self.interval().to_string());
                command
            }
            Whose::Upstream(program) => {
                let mut command = Command::new(program);
                command.arg(format!("--kubeconfig={}", kubeconfig.display()));
                // Its own limit would be what is measured.
                command.args(["--kube-api-qps=100000", "--kube-api-burst=100000", "--address=127.0.0.1:0"]);
                command.arg(format!("--recommender-interval={}s", self.interval()));
                command
            }
        })
    }
}

/// Ended with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Our recommender, with the cluster of a kubeconfig, until the process is killed.
pub(crate) async fn run(kubeconfig: &Path, seconds: u64) -> anyhow::Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let mut config = Config::new(client.clone(), Arc::new(Timestamp::now));
    config.gates.native_sidecar = true;
    config.recommender_interval = Duration::from_secs(seconds);
    recommend(&Cluster::new(client), &config, std::future::pending()).await;
    Ok(())
}

/// What each autoscaler recommends, by its name.
pub(super) type Recommended = BTreeMap<String, Vec<RecommendedContainerResources>>;

/// Measures from one question for usage to another, some passes later: what lies between are whole passes. Over a noisy fleet, which uses
/// the same in every run that begins at `start`, it also reads what is recommended after them.
pub(super) async fn measure(
    whose: &Whose,
    containers: usize,
    fleet: Fleet,
    start: Timestamp,
) -> anyhow::Result<(Taken, Recommended)> {
    let pods = containers / CONTAINERS;
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await?;
    fill(&server, fleet, pods, start).await?;
    let passes = whose.passes(fleet);
    let last = BEFORE + u64::from(passes);
    let asked = Arc::new(AtomicU64::new(0));
    let usage = get({
        let asked = Arc::clone(&asked);
        async move || {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            let (at, number) = match fleet {
                // History of two days is stored every ten minutes, and not in each pass.
                Fleet::Flat if number == 1 => (Timestamp::now() - SignedDuration::from_hours(48), number),
                Fleet::Flat => (Timestamp::now(), number),
                // After the last measured pass the same samples come again, which do not count.
                Fleet::Noisy => (start + SignedDuration::from_mins(number.min(last).cast_signed()), number.min(last)),
            };
            ([("content-type", "application/json")], fleet.answer(pods, at, number))
        }
    });
    server.register_metrics(Router::new().route("/apis/metrics.k8s.io/v1beta1/pods", usage));
    let writes = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    let serving = tokio::spawn(Server::new(listener, counted(server.router(), &writes))?.run());

    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": address}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {}}]
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let mut command = whose.command(&kubeconfig)?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut running = Running(command.spawn().with_context(|| format!("cannot run {command:?}"))?);
    let id = running.0.id();
    let mut until_asked = async |times: u64| -> anyhow::Result<()> {
        while asked.load(Ordering::SeqCst) < times {
            ensure!(running.0.try_wait()?.is_none(), "the recommender has ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    let mut first = BEFORE;
    until_asked(first).await?;
    if matches!((whose, fleet), (Whose::Ours, Fleet::Flat)) {
        // Passes go on while everything is written for the first time.
        let mut written = None;
        while written.replace(writes.load(Ordering::Relaxed)) != Some(writes.load(Ordering::Relaxed)) {
            first += 1;
            until_asked(first).await?;
        }
    }
    let (before, written) = (process::usage(id)?.processor, writes.load(Ordering::Relaxed));
    until_asked(first + u64::from(passes)).await?;
    let after = process::usage(id)?;
    let writes = (writes.load(Ordering::Relaxed) - written) / u64::from(passes);
    let pass = after.processor.saturating_sub(before) / passes;
    let recommended = match fleet {
        Fleet::Flat => Recommended::new(),
        Fleet::Noisy => {
            // A new generation has every status written as a whole. The pass that is under way may not have seen it yet.
            let names: Vec<String> = recommended(&server).await?.into_keys().collect();
            for name in names {
                let initial = json!({"spec": {"updatePolicy": {"updateMode": "Initial"}}});
                merge(&server, &format!("{AUTOSCALERS}/{name}"), &initial).await?;
            }
            until_asked(asked.load(Ordering::SeqCst) + 3).await?;
            recommended(&server).await?
        }
    };
    serving.abort();
    Ok((Taken { fleet, containers, pass, memory: after.resident, writes }, recommended))
}

async fn recommended(server: &ApiServer) -> anyhow::Result<Recommended> {
    let list = read(server, AUTOSCALERS).await?;
    let decode = |autoscaler: &Value| {
        let status: VerticalPodAutoscalerStatus = serde_json::from_value(autoscaler["status"].clone())?;
        let name = autoscaler["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok((name, status.recommendation.unwrap_or_default().container_recommendations))
    };
    list["items"].as_array().into_iter().flatten().map(decode).collect()
}
