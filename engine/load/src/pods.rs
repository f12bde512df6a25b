//! The pods that a server holds: how fast they come, and what each of them costs.

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::json;

use pillion_engine_load::client::{Target, post_all, turned_away};
use pillion_engine_load::measure::{Measure, Unit};
use pillion_engine_load::server::Server;

/// Where everything happens.
pub(crate) const NAMESPACE: &str = "pillion-load";
/// Pods, of which there are many.
pub(crate) const PODS: &str = "/api/v1/namespaces/pillion-load/pods";
/// `ConfigMaps`, which are written.
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/pillion-load/configmaps";

/// Selects what this program has made.
const OURS: &str = "labelSelector=load%3Dyes";
/// Clients that fill a server.
const CLIENTS: usize = 64;

/// Makes the namespace, and what pods need in it.
pub(crate) async fn prepare(target: &Target) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    for (path, name) in [
        ("/api/v1/namespaces".to_owned(), NAMESPACE),
        (format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts"), "default"),
    ] {
        let body = json!({"metadata": {"name": name}}).to_string().into();
        let (status, answer) = connection.ask(&Method::POST, &path, &body).await?;
        let is_there = status.is_success() || status == StatusCode::CONFLICT;
        anyhow::ensure!(is_there, "POST {path}: {status}: {}", String::from_utf8_lossy(&answer));
    }
    clean_up(target, PODS).await?;
    clean_up(target, CONFIG_MAPS).await
}

/// Creates all pods.
pub(crate) async fn fill(server: &Server, target: &Target, pods: usize) -> anyhow::Result<Vec<Measure>> {
    let before = server.usage()?;
    let template = pod();
    let (head, tail) = template.split_once("NAME").unwrap_or_default();
    let (head, tail) = (head.to_owned(), tail.to_owned());
    let took = post_all(target, CLIENTS, PODS, pods, move |index| format!("{head}pod-{index}{tail}").into()).await?;
    let after = server.usage()?;
    let count = Measure::number(pods);
    eprintln!("  {pods} pods in {:.1} s; turned away {} times", took.as_secs_f64(), turned_away());
    Ok(vec![
        Measure::more(format!("create pods, {CLIENTS} clients"), count / took.as_secs_f64(), Unit::PerSecond),
        Measure::less(
            "processor time of a created pod".to_owned(),
            after.processor.saturating_sub(before.processor).as_secs_f64() / count,
            Unit::Seconds,
        ),
        Measure::less(
            "memory of a stored pod".to_owned(),
            Measure::bytes(after.resident.saturating_sub(before.resident)) / count,
            Unit::Bytes,
        ),
    ])
}

/// Takes away the objects of a resource, in batches: no request takes longer than a server allows.
pub(crate) async fn clean_up(target: &Target, resource: &str) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    let now = Bytes::from_static(br#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}"#);
    loop {
        let rest = connection.must(&Method::GET, &format!("{resource}?{OURS}&limit=1"), &Bytes::new()).await?;
        if rest.trim_ascii_end().ends_with(br#""items":[]}"#) {
            return Ok(());
        }
        connection.must(&Method::DELETE, &format!("{resource}?{OURS}&limit=500"), &now).await?;
    }
}

/// A pod as small teams have them, before the server has added to it.
fn pod() -> String {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "NAME", "labels": {"load": "yes", "app.kubernetes.io/name": "web", "app.kubernetes.io/part-of": "shop", "tier": "front"}},
        // Said in full, since a control plane alone has no admission of service accounts: the pods are the same everywhere.
        "spec": {"serviceAccountName": "default", "automountServiceAccountToken": false, "containers": [{
            "name": "web",
            "image": "registry.example.com/shop/web:1.4.2",
            "args": ["--port=8080", "--log-level=info"],
            "env": [{"name": "REGION", "value": "north"}, {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 8080, "name": "http"}],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        }]},
    })
    .to_string()
}
