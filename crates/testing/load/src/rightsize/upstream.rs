//! Upstream's recommender over a fleet: a process of its own, in real time.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use axum::Router;
use axum::routing::get;
use pillion_apiserver::ApiServer;
use pillion_serve::Server;
use serde_json::json;

use super::fleet::{CONTAINERS, answer, fill};
use super::{Taken, counted};
use crate::process;

/// Passes that are measured; each takes seconds.
const PASSES: u32 = 3;
/// Between passes. A pass that takes longer delays the next one.
const INTERVAL: &str = "10s";

/// Ended with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures from one question for usage to another, some passes later: what lies between are whole passes.
pub(super) async fn measure(recommender: &Path, containers: usize) -> anyhow::Result<Taken> {
    let pods = containers / CONTAINERS;
    let server = ApiServer::new(pillion_apiserver::Config::in_memory());
    server.bootstrap().await?;
    fill(&server, pods).await?;
    let asked = Arc::new(AtomicU64::new(0));
    let usage = get({
        let asked = Arc::clone(&asked);
        async move || {
            asked.fetch_add(1, Ordering::SeqCst);
            ([("content-type", "application/json")], answer(pods, jiff::Timestamp::now()))
        }
    });
    server.register_metrics(Router::new().route("/apis/metrics.k8s.io/v1beta1/pods", usage));
    let writes = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", listener.local_addr()?);
    tokio::spawn(Server::new(listener, counted(server.router(), &writes))?.run());

    let folder = tempfile::tempdir()?;
    let kubeconfig = folder.path().join("kubeconfig");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": address}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "users": [{"name": "me", "user": {}}]
    });
    std::fs::write(&kubeconfig, config.to_string())?;
    let mut running = Running(
        Command::new(recommender)
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            // Its own limit would be what is measured.
            .args(["--kube-api-qps=100000", "--kube-api-burst=100000", "--address=127.0.0.1:0"])
            .arg(format!("--recommender-interval={INTERVAL}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot run {}", recommender.display()))?,
    );
    let id = running.0.id();
    let mut until_asked = async |times: u64| -> anyhow::Result<()> {
        while asked.load(Ordering::SeqCst) < times {
            ensure!(running.0.try_wait()?.is_none(), "upstream's recommender has ended");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    };
    // The first pass writes everything for the first time.
    until_asked(2).await?;
    let (first, written) = (process::usage(id)?.processor, writes.load(Ordering::Relaxed));
    until_asked(2 + u64::from(PASSES)).await?;
    let after = process::usage(id)?;
    let writes = (writes.load(Ordering::Relaxed) - written) / u64::from(PASSES);
    let pass = after.processor.saturating_sub(first) / PASSES;
    Ok(Taken { containers, pass, first, memory: after.resident, writes })
}
