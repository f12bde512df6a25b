//! Probes against real sockets.

use std::time::Duration;

use k8s_openapi::api::core::v1::Container;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::Spec;
use super::check::{Outcome, check};
use crate::runtime::ContainerId;
use crate::tests::trouble::Scripted;

/// A server that answers each request by its path, until the test ends. The answer is its port.
async fn serve(answer: fn(&str) -> String) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            // A client that speaks TLS hangs up on the answer.
            let _ = stream.write_all(answer(&request).as_bytes()).await;
        }
    });
    port
}

async fn probe(action: Value) -> Outcome {
    let mut spec = action;
    spec["timeoutSeconds"] = json!(1);
    let spec: Spec = serde_json::from_value(spec).unwrap();
    let id = ContainerId { pod_uid: "u".into(), container: "main".into(), attempt: 0 };
    let container = Container {
        ports: serde_json::from_value(json!([{"name": "web", "containerPort": 1}])).unwrap(),
        ..Container::default()
    };
    check(&Scripted::default(), &id, &container, &spec, "127.0.0.1").await
}

/// A port on which nobody listens.
async fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

#[tokio::test]
async fn http_probes_judge_by_the_status_and_follow_redirects_at_home() {
    let port = serve(|request| {
        let path = request.split(' ').nth(1).unwrap_or_default();
        let (status, more) = match path {
            "/ok" if request.contains("user-agent: kube-probe/1.35") && request.contains("x-a: b") => {
                ("204 No Content", "")
            }
            "/home" => ("302 Found", "location: /ok\r\n"),
            "/away" => ("302 Found", "location: http://example.com/\r\n"),
            _ => ("503 Service Unavailable", ""),
        };
        format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\n\r\n")
    })
    .await;
    let get =
        |path: &str| json!({"httpGet": {"port": port, "path": path, "httpHeaders": [{"name": "X-A", "value": "b"}]}});
    assert_eq!(probe(get("/ok")).await, Outcome::Success);
    assert_eq!(probe(get("/home")).await, Outcome::Success);
    assert_eq!(probe(get("/away")).await, Outcome::Warning("Probe terminated redirects, Response body: ".into()));
    assert_eq!(probe(get("/down")).await, Outcome::Failure("HTTP probe failed with statuscode: 503".into()));
    let plain = Outcome::Failure(format!(
        "Get \"https://127.0.0.1:{port}/ok\": http: server gave HTTP response to HTTPS client"
    ));
    assert_eq!(probe(json!({"httpGet": {"port": port, "path": "/ok", "scheme": "HTTPS"}})).await, plain);
}

#[tokio::test]
async fn nobody_at_home_is_told_in_the_words_of_go() {
    let port = closed().await;
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(probe(json!({"tcpSocket": {"port": port}})).await, Outcome::Failure(refused.clone()));
    let get = Outcome::Failure(format!("Get \"http://127.0.0.1:{port}/\": {refused}"));
    assert_eq!(probe(json!({"httpGet": {"port": port}})).await, get);
    let named = Outcome::Error("port nowhere not found".into());
    assert_eq!(probe(json!({"tcpSocket": {"port": "nowhere"}})).await, named);
    let grpc = Outcome::Failure(format!(
        "timeout: failed to connect service \"127.0.0.1:{port}\" within 1s: context deadline exceeded"
    ));
    assert_eq!(probe(json!({"grpc": {"port": port}})).await, grpc);
}

#[tokio::test]
async fn a_server_that_says_nothing_in_time_has_failed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = Outcome::Failure(format!(
        "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    ));
    let looked = tokio::time::timeout(Duration::from_secs(30), probe(json!({"httpGet": {"port": port}}))).await;
    assert_eq!(looked.unwrap(), silent);
    assert_eq!(probe(json!({"tcpSocket": {"port": port}})).await, Outcome::Success);
}
