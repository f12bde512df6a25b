//! Many SidecarSets, and requests that are none.

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use futures::StreamExt as _;
use pillion_manager::Manager;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{Cluster, PODS, SIDECARSETS, names, pod, sidecarset};

pub(crate) async fn ask(webhooks: &Router, method: &str, path: &str, body: impl Into<Body>) -> (u16, String) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let response = webhooks.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test(start_paused = true)]
async fn sets_that_were_there_before_the_manager_are_in_force_when_it_has_started() {
    let cluster = Cluster::new().await;
    Manager::new(cluster.config()).start().await.unwrap();
    for i in 0..600 {
        let spec = json!({"selector": {"matchLabels": {"app": format!("app-{i}")}}});
        cluster.create(SIDECARSETS, sidecarset(&format!("set-{i}"), spec)).await.object();
    }
    let manager = cluster.manage(cluster.config()).await;
    let mut web = pod("web-0");
    web["metadata"]["labels"]["app"] = json!("app-599");
    assert_eq!(names(&cluster.create(PODS, web).await.object()), ["app", "proxy"], "these were never defaulted");
    let (_, metrics) = ask(&manager.health(), "GET", "/metrics", Body::empty()).await;
    assert!(metrics.contains("pillion_cache_objects{kind=\"SidecarSet\"} 600\n"), "{metrics}");
    assert!(metrics.contains(r#"{webhook="/mutate-pod",outcome="Changed"} 1"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn more_reviews_than_are_decided_at_once_are_shed_with_a_reason() {
    let cluster = Cluster::new().await;
    // Its caches are not synced, so that every review waits for them.
    let manager = Manager::new(cluster.config());
    let webhooks = manager.webhooks();
    let request = json!({"uid": "1", "operation": "CREATE", "namespace": "default", "object": pod("web")});
    let review = json!({"request": request}).to_string();
    let asked = (0..520).map(|_| ask(&webhooks, "POST", "/mutate-pod", review.clone()));
    let answers = futures::future::join_all(asked).await;
    let shed: Vec<&String> = answers.iter().filter(|(status, _)| *status == 429).map(|(_, text)| text).collect();
    assert_eq!(shed.len(), 8, "{answers:?}");
    assert!(shed.iter().all(|text| text.starts_with("the manager has too much to do; try again")), "{shed:?}");
    let (_, metrics) = ask(&manager.health(), "GET", "/metrics", Body::empty()).await;
    assert!(metrics.contains(r#"{webhook="/mutate-pod",outcome="Shed"} 520"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn no_body_makes_a_webhook_fall() {
    let (_cluster, manager) = Cluster::managed().await;
    let webhooks = manager.webhooks();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let odd: [String; 7] = [
        String::new(),
        "null".to_owned(),
        "{\"request\": {}}".to_owned(),
        json!({"request": {"uid": "1", "operation": "CREATE", "object": 5}}).to_string(),
        json!({"request": {"uid": "1", "operation": "CREATE", "object": {"metadata": [], "spec": {"containers": {"a": 1}}}}}).to_string(),
        json!({"request": {"uid": "1", "operation": "UPDATE", "object": {"kind": "SidecarSet"}, "oldObject": []}}).to_string(),
        deep,
    ];
    for path in ["/mutate-pod", "/mutate-sidecarset", "/validate-sidecarset", "/convert"] {
        for body in &odd {
            let (status, answer) = ask(&webhooks, "POST", path, body.clone()).await;
            assert!(matches!(status, 200 | 400), "{path} {body:.80}: {status}");
            if status == 200 {
                serde_json::from_str::<Value>(&answer).unwrap();
            }
        }
    }
    for (path, size) in [("/mutate-pod", 9), ("/convert", 129)] {
        let body = vec![b' '; size * 1024 * 1024];
        assert_eq!(ask(&webhooks, "POST", path, body.clone()).await.0, 413, "{path}");
        let chunks = futures::stream::iter(body.chunks(1024 * 1024).map(<[u8]>::to_vec).collect::<Vec<_>>());
        let unannounced = Body::from_stream(chunks.map(Ok::<_, std::io::Error>));
        assert_eq!(ask(&webhooks, "POST", path, unannounced).await.0, 413, "{path} without its length");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(ask(&manager.health(), "GET", path, Body::empty()).await, (200, "ok".to_owned()));
    }
}
