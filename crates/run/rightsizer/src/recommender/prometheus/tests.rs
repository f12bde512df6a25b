use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use axum::routing::get;
use serde_json::json;

use super::*;

fn config() -> Prometheus {
    Prometheus::default()
}

/// `TestPrometheusAuth` and the queries of upstream's `pkg/recommender/input/history/history_provider_test.go`.
#[test]
fn queries_are_those_of_upstream() {
    let config = Prometheus { resolution: SignedDuration::from_secs(30), ..config() };
    assert_eq!(
        cpu_query(&config, None),
        r#"rate(container_cpu_usage_seconds_total{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!=""}[30s])"#
    );
    assert_eq!(
        memory_query(&config, None),
        r#"container_memory_working_set_bytes{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!=""}"#
    );
    assert_eq!(
        memory_query(&config, Some("kube-system")),
        r#"container_memory_working_set_bytes{job="kubernetes-cadvisor", pod_name=~".+", name!="POD", name!="", namespace="kube-system"}"#
    );
    let without_job = Prometheus { cadvisor_job: String::new(), resolution: SignedDuration::from_hours(1), ..config };
    assert_eq!(
        cpu_query(&without_job, None),
        r#"rate(container_cpu_usage_seconds_total{pod_name=~".+", name!="POD", name!=""}[1h])"#
    );
}

#[test]
fn a_bearer_token_or_a_password_is_sent() {
    let of = |login| authorization(&login);
    assert_eq!(of(PrometheusLogin::None), None);
    assert_eq!(of(PrometheusLogin::Bearer("token".into())).unwrap(), "Bearer token");
    let basic = PrometheusLogin::Basic { username: "user".into(), password: "password".into() };
    assert_eq!(of(basic).unwrap(), "Basic dXNlcjpwYXNzd29yZA==");
}

#[test]
fn the_newest_labels_of_a_pod_win() {
    let found = |value: &str, at: f64| Found {
        metric: serde_json::from_value(
            json!({"kubernetes_namespace": "default", "kubernetes_pod_name": "pod", "pod_label_x": value, "job": "y"}),
        )
        .unwrap(),
        values: vec![(at, "1".to_owned())],
    };
    let labels = pod_labels(&config(), vec![found("z", 20.0), found("y", 1.0)], "default");
    assert_eq!(labels["pod"], BTreeMap::from([("x".to_owned(), "z".to_owned())]));
    assert!(pod_labels(&config(), vec![found("z", 20.0)], "other").is_empty());
}

/// A server that speaks the API of Prometheus, and what it was asked.
async fn prometheus(
    answer: impl Fn(&str) -> serde_json::Value + Clone + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let record = Arc::clone(&asked);
    let serve = move |request: Request| {
        let uri = request.uri().to_string();
        let authorization = request.headers().get("authorization").map(|it| it.to_str().unwrap().to_owned());
        record.lock().unwrap().push(format!("{uri} {}", authorization.unwrap_or_default()));
        let text = percent_encoding::percent_decode_str(&uri).decode_utf8().unwrap().into_owned();
        let answer = answer(&text).to_string();
        async move { answer }
    };
    tokio::spawn(async move {
        axum::serve(listener, Router::new().route("/api/v1/query_range", get(serve))).await.unwrap();
    });
    (address, asked)
}

#[tokio::test]
async fn history_is_read_over_http() {
    let (address, asked) = prometheus(|asked| {
        let of = |value: &str| {
            let metric = json!({"namespace": "shop", "pod_name": "web-1", "name": "app"});
            json!([{"metric": metric, "values": [[1_767_225_660, value], [1_767_225_600.5, "NaN"]]},
                   {"metric": {"namespace": "shop", "pod_name": "web-1", "name": "app"}, "values": [[1_767_225_600, value]]}])
        };
        let result = if asked.contains("cpu_usage") {
            of("0.25")
        } else if asked.contains("working_set") {
            of("1048576")
        } else {
            json!([{"metric": {"kubernetes_namespace": "shop", "kubernetes_pod_name": "web-1", "pod_label_app": "web"},
                    "values": [[1_767_225_600, "1"]]}])
        };
        json!({"status": "success", "data": {"resultType": "matrix", "result": result}})
    })
    .await;
    let config = Prometheus { address, login: PrometheusLogin::Bearer("secret".into()), ..config() };
    let now: Timestamp = "2026-01-09T00:00:00Z".parse().unwrap();
    let past = read(&config, "shop", now).await.unwrap();
    let [cpu] = past.cpu.as_slice() else { panic!("{past:?}") };
    assert_eq!((cpu.pod.as_str(), cpu.container.as_str()), ("web-1", "app"));
    assert_eq!(cpu.points.iter().map(|(at, _)| at.as_second()).collect::<Vec<_>>(), [1_767_225_600, 1_767_225_660]);
    assert!((past.memory[0].points[0].1 - 1_048_576.0).abs() < 0.5);
    assert_eq!(past.labels["web-1"]["app"], "web");
    let asked = asked.lock().unwrap();
    assert_eq!(asked.len(), 3);
    // Eight days, in steps of an hour.
    assert!(asked[0].contains("&start=1767225600&end=1767916800&step=3600 Bearer secret"), "{asked:?}");
}

#[tokio::test]
async fn what_prometheus_says_is_reported() {
    let (address, _) =
        prometheus(|_| json!({"status": "error", "errorType": "bad_data", "error": "parse error"})).await;
    let now: Timestamp = "2026-01-09T00:00:00Z".parse().unwrap();
    let error = read(&Prometheus { address, ..config() }, "shop", now).await.unwrap_err();
    assert!(error.ends_with("parse error"), "{error}");
    let error = read(&Prometheus { address: "prometheus".to_owned(), ..config() }, "shop", now).await.unwrap_err();
    assert!(error.contains("write an address such as http://"), "{error}");
}
