//! Our recommender over a fleet, one pass after the other in virtual time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use kube::Client;
use pillion_apiserver::ApiServer;
use pillion_clock::Clock;
use pillion_rightsizer::{Cluster, Config, recommend};
use pillion_store::{Options, Store};

use super::fleet::{CONTAINERS, answer, fill};
use super::{PASSES, Taken, counted};
use crate::process;

pub(super) async fn measure(containers: usize) -> anyhow::Result<Taken> {
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
    let router = counted(server.router(), &writes);
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
