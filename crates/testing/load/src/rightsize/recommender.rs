//! A recommender over a fleet, ours or upstream's: a process of its own, in real time.

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
use pillion_apiserver::ApiServer;
use pillion_rightsizer::{Cluster, Config, recommend};
use pillion_serve::Server;
use serde_json::json;

use super::fleet::{CONTAINERS, answer, fill};
use super::{Taken, counted};
use crate::process;

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

    /// Passes that are measured.
    fn passes(&self) -> u32 {
        match self {
            Whose::Ours => 10,
            Whose::Upstream(_) => 3,
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

/// Measures from one question for usage to another, some passes later: what lies between are whole passes.
pub(super) async fn measure(whose: &Whose, containers: usize) -> anyhow::Result<Taken> {
    let pods = containers / CONTAINERS;
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await?;
    fill(&server, pods).await?;
    let asked = Arc::new(AtomicU64::new(0));
    let usage = get({
        let asked = Arc::clone(&asked);
        async move || {
            // History of two days is stored every ten minutes, and not in each pass.
            let is_first = asked.fetch_add(1, Ordering::SeqCst) == 0;
            let ago = SignedDuration::from_hours(if is_first { 48 } else { 0 });
            ([("content-type", "application/json")], answer(pods, Timestamp::now() - ago))
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
    // The first pass writes everything for the first time, and the second may have what came too late for it.
    until_asked(3).await?;
    let (before, written) = (process::usage(id)?.processor, writes.load(Ordering::Relaxed));
    let passes = whose.passes();
    until_asked(3 + u64::from(passes)).await?;
    let after = process::usage(id)?;
    let writes = (writes.load(Ordering::Relaxed) - written) / u64::from(passes);
    let pass = after.processor.saturating_sub(before) / passes;
    serving.abort();
    Ok(Taken { containers, pass, memory: after.resident, writes })
}
