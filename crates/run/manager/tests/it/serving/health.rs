//! What `/readyz` and `/metrics` say while the API server does not answer as it should.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::http::{Method, Response, StatusCode};
use axum::middleware::Next;
use axum::response::IntoResponse as _;
use jiff::SignedDuration;
use kube::Client;
use kube::client::Body;
use pillion_manager::{Certificates, Config, Manager};
use serde_json::json;
use tokio::time::sleep;

use crate::{Cluster, PODS, SIDECARSETS, URL, asked, names, pod, readyz, sidecarset};

/// A client whose requests that are meant are forbidden while the switch is on.
fn refusing(cluster: &Cluster, is_meant: fn(&Request) -> bool) -> (Client, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(false));
    let is_on = Arc::clone(&switch);
    let refuse = move |request: Request, next: Next| {
        let is_refused = is_meant(&request) && is_on.load(Ordering::Relaxed);
        async move { if is_refused { StatusCode::FORBIDDEN.into_response() } else { next.run(request).await } }
    };
    (Client::new(cluster.server.router().layer(axum::middleware::from_fn(refuse)), "default"), switch)
}

#[tokio::test(start_paused = true)]
async fn a_manager_is_ready_while_its_caches_are_synced_and_their_watches_work() {
    let cluster = Cluster::new().await;
    let (client, is_refused) = refusing(&cluster, |request| {
        request.uri().path().ends_with("/sidecarsets")
            && request.uri().query().is_some_and(|query| query.contains("watch=true"))
    });
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

/// What the API server answers to everything, other than what it should.
const UNREACHABLE: u16 = 1;
const AS_IT_SHOULD: u16 = 0;

/// Whether the metric says that the watch of SidecarSets has failed for more than a minute.
async fn is_failing(manager: &Manager) -> bool {
    let metrics = asked(manager, "/metrics").await.1;
    let line =
        metrics.lines().find_map(|line| line.strip_prefix("pillion_cache_failing_seconds{kind=\"SidecarSet\"} "));
    line.unwrap().parse::<u64>().unwrap() > 60
}

#[tokio::test(start_paused = true)]
async fn a_manager_stays_ready_while_the_api_server_is_down_and_has_a_minute_when_it_is_back() {
    let cluster = Cluster::new().await;
    let answer = Arc::new(AtomicU16::new(AS_IT_SHOULD));
    let (given, server) = (Arc::clone(&answer), cluster.client());
    let service = tower::service_fn(move |request: axum::http::Request<Body>| {
        let (code, server) = (given.load(Ordering::Relaxed), server.clone());
        async move {
            match code {
                AS_IT_SHOULD => server.send(request).await,
                UNREACHABLE => Err(kube::Error::Service("connection refused".into())),
                code => Ok(Response::builder().status(code).body(Body::empty()).unwrap()),
            }
        }
    });
    let manager = cluster.manage(Config { client: Client::new(service, "default"), ..cluster.config() }).await;
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    let ready = (StatusCode::OK, "ok".to_owned());
    // The API server ends a watch after five minutes, and nothing is tried less often than every minute.
    for code in [UNREACHABLE, 503, 429, UNREACHABLE] {
        answer.store(code, Ordering::Relaxed);
        sleep(Duration::from_mins(10)).await;
        assert_eq!(readyz(&manager).await, ready, "{code}");
        assert!(is_failing(&manager).await, "{code}");
    }
    answer.store(AS_IT_SHOULD, Ordering::Relaxed);
    for _ in 0..24 {
        sleep(Duration::from_secs(5)).await;
        assert_eq!(readyz(&manager).await, ready);
    }
    assert!(!is_failing(&manager).await);

    answer.store(UNREACHABLE, Ordering::Relaxed);
    sleep(Duration::from_mins(10)).await;
    answer.store(403, Ordering::Relaxed);
    sleep(Duration::from_secs(50)).await;
    assert_eq!(readyz(&manager).await, ready, "it has answered for less than a minute");
    sleep(Duration::from_mins(2)).await;
    let (status, text) = readyz(&manager).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{text}");
    answer.store(AS_IT_SHOULD, Ordering::Relaxed);
    sleep(Duration::from_mins(2)).await;
    assert_eq!(readyz(&manager).await, ready);
}

#[tokio::test(start_paused = true)]
async fn certificates_are_renewed_while_the_secret_of_their_authority_cannot_be_read() {
    let cluster = Cluster::new().await;
    let (client, is_refused) = refusing(&cluster, |request| request.uri().path().contains("/secrets"));
    let certificates = Certificates::SelfSigned { lifetime: SignedDuration::from_hours(1) };
    let manager = cluster.manage(Config { client, certificates, ..cluster.config() }).await;
    tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    sleep(Duration::from_mins(1)).await;
    is_refused.store(true, Ordering::Relaxed);
    sleep(Duration::from_hours(3)).await;
    let metrics = asked(&manager, "/metrics").await.1;
    let mut lines = metrics.lines();
    let expiry = lines.find_map(|line| line.strip_prefix("pillion_certificate_expiry_timestamp_seconds ")).unwrap();
    assert!(expiry.parse::<i64>().unwrap() > cluster.server.clock().now().as_second(), "{expiry}");
}

#[tokio::test(start_paused = true)]
async fn a_definition_of_autoscalers_that_is_deleted_holds_nobody_up() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const AUTOSCALERS: &str = "/apis/autoscaling.k8s.io/v1/namespaces/default/verticalpodautoscalers";
    let (cluster, manager) = Cluster::managed().await;
    let running = tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    cluster.create(SIDECARSETS, sidecarset("mesh", json!({}))).await.object();
    let autoscaler = || {
        let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
        json!({
            "apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler", "metadata": {"name": "web"}, "spec": {"targetRef": target},
        })
    };
    let is_registered = async || {
        let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";
        let entries = cluster.get(path).await["webhooks"].take();
        entries.as_array().unwrap().iter().any(|entry| entry["name"] == "vpa.pillion.dev")
    };
    let ready = (StatusCode::OK, "ok".to_owned());
    for round in 0..2 {
        sleep(Duration::from_mins(1)).await;
        assert!(is_registered().await);
        let created = cluster.create(AUTOSCALERS, autoscaler()).await.object();
        assert_eq!(
            created["spec"]["updatePolicy"],
            json!({"updateMode": "Recreate"}),
            "our webhook writes this default"
        );

        let definition = pillion_api::vpa::crd::vertical_pod_autoscaler();
        let path = format!("{DEFINITIONS}/{}", definition["metadata"]["name"].as_str().unwrap());
        cluster.request(Method::DELETE, &path, "", None).await.object();
        for _ in 0..60 {
            sleep(Duration::from_secs(10)).await;
            assert_eq!(readyz(&manager).await, ready);
        }
        assert!(!is_registered().await);
        assert_eq!(names(&cluster.create(PODS, pod(&format!("web-{round}"))).await.object()), ["proxy", "app"]);

        cluster.create(DEFINITIONS, definition).await.object();
        sleep(Duration::from_mins(1)).await;
        assert_eq!(readyz(&manager).await, ready);
    }
    assert!(!running.is_finished());
    running.abort();
}
