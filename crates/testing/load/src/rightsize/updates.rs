//! What our updater writes for each pod that it resizes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_rightsizer::{Cluster, Config, update};
use serde_json::json;

use super::counted;
use super::fleet::{AUTOSCALERS, Fleet, PODS, fill, merge};

/// Deployments of ten pods.
const DEPLOYMENTS: usize = 10;

/// Returns the writes, and how many pods were resized.
pub(super) async fn measure() -> anyhow::Result<(u64, u64)> {
    let start = "2026-01-01T00:00:00Z".parse()?;
    let clock = Clock::virtual_from(start);
    let server =
        ApiServer::new(pillion_apiserver::Config { clock, seed: Some(0), ..pillion_apiserver::Config::in_memory() });
    server.bootstrap().await?;
    fill(&server, Fleet::Flat, DEPLOYMENTS * PODS, start).await?;
    let amount = json!({"cpu": "500m", "memory": "500Mi"});
    let recommended = ["app", "mesh"]
        .map(|name| json!({"containerName": name, "target": amount, "lowerBound": amount, "upperBound": amount}));
    for group in 0..DEPLOYMENTS {
        let path = format!("{AUTOSCALERS}/web-{group}");
        merge(&server, &path, &json!({"spec": {"updatePolicy": {"updateMode": "InPlaceOrRecreate"}}})).await?;
        let status = json!({"status": {"recommendation": {"containerRecommendations": recommended}}});
        merge(&server, &format!("{path}/status"), &status).await?;
    }
    let (writes, resized) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let client = Client::new(resizes(counted(server.router(), &writes), &resized), "default");
    let mut config = Config::new(client.clone(), Arc::new(move || clock.now()));
    config.gates.native_sidecar = true;
    config.needs_admission = false;
    let cluster = Cluster::new(client);
    let updating = tokio::spawn(async move { update(&cluster, &config).await });
    tokio::time::sleep(Duration::from_hours(1)).await;
    updating.abort();
    Ok((writes.load(Ordering::Relaxed), resized.load(Ordering::Relaxed)))
}

fn resizes(router: Router, resized: &Arc<AtomicU64>) -> Router {
    let resized = Arc::clone(resized);
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        resized.fetch_add(u64::from(request.uri().path().ends_with("/resize")), Ordering::Relaxed);
        next.run(request)
    }))
}
