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

/// A review of a new pod in this namespace whose container has these fields.
fn review_of(namespace: &str, fields: &str) -> String {
    let pod = format!(r#"{{"metadata":{{"name":"web"}},"spec":{{"containers":[{{"name":"app",{fields}}}]}}}}"#);
    format!(r#"{{"request":{{"uid":"1","operation":"CREATE","namespace":"{namespace}","object":{pod}}}}}"#)
}

/// A field with a list of many such items.
fn list(name: &str, item: &str, count: usize) -> String {
    format!(r#""{name}":[{}]"#, vec![item; count].join(","))
}

#[tokio::test(start_paused = true)]
async fn a_review_that_would_take_too_much_memory_is_refused_with_a_reason() {
    let (_cluster, manager) = Cluster::managed().await;
    let webhooks = manager.webhooks();
    let body = review_of("default", &list("x", "0", 2_000_000));
    for path in ["/mutate-pod", "/mutate-sidecarset", "/validate-sidecarset"] {
        let (status, answer) = ask(&webhooks, "POST", path, body.clone()).await;
        assert_eq!(status, 413, "{path}: {answer}");
        assert!(answer.ends_with("more than 268435456 bytes of memory: it has very many values"), "{path}: {answer}");
    }
    let (_, metrics) = ask(&manager.health(), "GET", "/metrics", Body::empty()).await;
    assert!(metrics.contains(r#"{webhook="/mutate-pod",outcome="Malformed"} 1"#), "{metrics}");
}

#[tokio::test(start_paused = true)]
async fn large_pods_are_admitted_whatever_is_in_their_texts() {
    let (_cluster, manager) = Cluster::managed().await;
    let webhooks = manager.webhooks();
    let table = r#"1,{\"a\":[2,3]},\n"#.repeat(200_000);
    let variable = r#"{"name":"A_VARIABLE","valueFrom":{"configMapKeyRef":{"name":"some","key":"one"}}}"#;
    for fields in [
        format!(r#""env":[{{"name":"TABLE","value":"{table}"}}]"#),
        list("env", variable, 30_000),
        // As large as the API server takes a pod, and all of it nothing.
        list("args", r#""""#, 1_000_000),
    ] {
        let body = review_of("default", &fields);
        let length = body.len();
        let (status, answer) = ask(&webhooks, "POST", "/mutate-pod", body).await;
        assert!(status == 200 && answer.contains(r#""allowed":true"#), "{fields:.40} of {length}: {status} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn heavy_pods_that_wait_for_their_namespace_leave_the_room_to_others() {
    let (_cluster, manager) = Cluster::managed().await;
    let webhooks = manager.webhooks();
    // There is room for two of them at a time. Would they keep it for the second that they wait, the others would be shed.
    let body = review_of("nowhere", &list("args", r#""""#, 500_000));
    let answers = futures::future::join_all((0..6).map(|_| ask(&webhooks, "POST", "/mutate-pod", body.clone()))).await;
    let statuses: Vec<u16> = answers.iter().map(|(status, _)| *status).collect();
    assert_eq!(statuses, [200; 6], "{answers:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_too_heavy_to_be_converted_is_named() {
    let (_cluster, manager) = Cluster::managed().await;
    let webhooks = manager.webhooks();
    let set = |name: &str, field: &str| {
        let version = "apps.kruise.io/v1alpha1";
        format!(r#"{{"apiVersion":"{version}","kind":"SidecarSet","metadata":{{"name":"{name}"}},{field}}}"#)
    };
    let convert = async |objects: &[String]| {
        let (wanted, objects) = ("apps.kruise.io/v1beta1", objects.join(","));
        let body = format!(r#"{{"request":{{"uid":"1","desiredAPIVersion":"{wanted}","objects":[{objects}]}}}}"#);
        let (status, answer) = ask(&webhooks, "POST", "/convert", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    };
    let message = |answer: &str| {
        let answer: Value = serde_json::from_str(answer).unwrap();
        assert_eq!(answer["response"]["convertedObjects"], json!([]));
        answer["response"]["result"]["message"].as_str().unwrap().to_owned()
    };
    let light = set("light", r#""spec":{}"#);
    let message_of_heavy = message(&convert(&[light.clone(), set("heavy", &list("x", "0", 2_000_000))]).await);
    let expected = r#"SidecarSet "heavy": decoding this would take more than "#;
    assert!(message_of_heavy.starts_with(expected), "{message_of_heavy}");
    let long = set("long", &format!(r#""x":"{}""#, "x".repeat(8 << 20)));
    assert_eq!(message(&convert(&[light, long]).await), r#"SidecarSet "long": this is larger than 8388608 bytes"#);

    // Together they are too heavy, but they are decoded one after the other.
    let answer = convert(&vec![set("medium", &list("x", "0", 100_000)); 14]).await;
    assert_eq!(answer.matches(r#"{"name":"medium"}"#).count(), 14);
    assert!(answer.ends_with(r#""result":{"status":"Success"}}}"#), "{answer:.200}");
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
