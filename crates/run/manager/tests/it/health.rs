//! What `/readyz` and `/metrics` say while the API server does not answer as it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use kube::Client;
use pillion_manager::{Config, Manager};
use tokio::time::sleep;

use crate::{Cluster, URL, asked};

#[tokio::test(start_paused = true)]
async fn a_manager_is_ready_while_its_caches_are_synced_and_their_watches_work() {
    let cluster = Cluster::new().await;
    let is_refused = Arc::new(AtomicBool::new(false));
    let refuse = {
        let is_refused = Arc::clone(&is_refused);
        move |request: Request, next: Next| {
            let is_meant = request.uri().path().ends_with("/sidecarsets")
                && request.uri().query().is_some_and(|query| query.contains("watch=true"));
            let is_refused = is_meant && is_refused.load(Ordering::Relaxed);
            async move { if is_refused { StatusCode::FORBIDDEN.into_response() } else { next.run(request).await } }
        }
    };
    let client = Client::new(cluster.server.router().layer(axum::middleware::from_fn(refuse)), "default");
    let manager = Manager::new(Config { client, ..cluster.config() });
    let unready = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, text.to_owned());
    assert_eq!(asked(&manager, "/readyz").await, unready("caches are not synced yet"));
    cluster.server.register_webhook(URL, manager.webhooks());
    manager.start().await.unwrap();
    manager.register().await.unwrap();
    let ready = (StatusCode::OK, "ok".to_owned());
    assert_eq!(asked(&manager, "/readyz").await, ready);
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    // The API server ends a watch after five minutes.
    sleep(Duration::from_mins(10)).await;
    assert_eq!(asked(&manager, "/readyz").await, ready);
    let metrics = asked(&manager, "/metrics").await.1;
    for kind in ["SidecarSet", "Namespace", "Pod"] {
        let line = format!("pillion_cache_failing_seconds{{kind=\"{kind}\"}} 0");
        assert!(metrics.contains(&line), "{line}\n{metrics}");
    }

    is_refused.store(true, Ordering::Relaxed);
    sleep(Duration::from_mins(10)).await;
    let (status, text) = asked(&manager, "/readyz").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(text.starts_with("the watch of SidecarSets has failed for "), "{text}");
    let metrics = asked(&manager, "/metrics").await.1;
    assert!(!metrics.contains("pillion_cache_failing_seconds{kind=\"SidecarSet\"} 0"), "{metrics}");

    is_refused.store(false, Ordering::Relaxed);
    sleep(Duration::from_mins(1)).await;
    assert_eq!(asked(&manager, "/readyz").await, ready);
}
