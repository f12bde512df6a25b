//! The manager as a process of its own, and a server that does what any webhook must do and nothing else.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use futures::StreamExt as _;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use pillion_engine_load::client::Target;
use pillion_manager::{Config, Manager, NAMESPACE, WebhookAddress};
use pillion_serve::Server;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

/// What a child says when it is ready, as a line of JSON.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Ready {
    /// Its port on loopback.
    pub(crate) port: u16,
    /// The authority of its certificate, as PEM.
    pub(crate) authority: String,
}

impl Ready {
    /// The child as a server under load.
    pub(crate) fn target(&self) -> anyhow::Result<Target> {
        Target::on_loopback(self.port, &self.authority)
    }

    fn say(&self) -> anyhow::Result<()> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// Manages the cluster of a kubeconfig until the process is killed.
pub(crate) async fn manage(kubeconfig: &Path) -> anyhow::Result<()> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = Client::try_from(config)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let address = WebhookAddress::Url(format!("https://127.0.0.1:{port}"));
    let manager = Manager::new(Config::new(client.clone(), Arc::new(Timestamp::now), address));
    let serving = manager.serve(listener, Duration::ZERO, Duration::ZERO);
    let managing = async {
        manager.start().await?;
        manager.register().await?;
        let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
        let secret = secrets.get("pillion-webhook-certificate").await?;
        let authority = secret.data.unwrap_or_default().remove("ca.crt").context("the Secret has an authority")?;
        Ready { port, authority: String::from_utf8(authority.0)? }.say()?;
        manager.run().await?;
        anyhow::Ok(())
    };
    tokio::select! {
        ended = serving => ended?,
        ended = managing => ended?,
    }
    Ok(())
}

/// Decodes every review, and answers all of them with this answer, until the process is killed.
pub(crate) async fn decode(answer: &Path) -> anyhow::Result<()> {
    let answer = Bytes::from(std::fs::read(answer)?);
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let tls = pillion_serve::tls(&made.cert.pem(), &made.signing_key.serialize_pem())?;
    let review = async move |body: Bytes| -> Response {
        // What it decodes is used, or the compiler might leave it out.
        let uid = serde_json::from_slice::<Value>(&body).map(|review| review["request"]["uid"].is_string());
        let answer = if uid.unwrap_or(false) { answer } else { Bytes::new() };
        ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
    };
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let server = Server::new(listener, Router::new().route("/mutate-pod", post(review)))?;
    let port = server.address()?.port();
    Ready { port, authority: made.cert.pem() }.say()?;
    server.with_tls(watch::channel(tls).1).run().await;
    Ok(())
}

/// Reads what comes and throws it away, until the process is killed.
pub(crate) async fn discard() -> anyhow::Result<()> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let tls = pillion_serve::tls(&made.cert.pem(), &made.signing_key.serialize_pem())?;
    let discard = async |body: Body| {
        let mut chunks = body.into_data_stream();
        while let Some(Ok(_)) = chunks.next().await {}
    };
    let server = Server::new(TcpListener::bind("127.0.0.1:0")?, Router::new().fallback(discard))?;
    let port = server.address()?.port();
    Ready { port, authority: made.cert.pem() }.say()?;
    server.with_tls(watch::channel(tls).1).run().await;
    Ok(())
}

/// An `AdmissionReview` of a new pod of 8.5 KiB.
pub(crate) fn review() -> Value {
    let env: Vec<Value> =
        (0..148).map(|i| json!({"name": format!("VARIABLE_{i}"), "value": format!("value-of-variable-{i}")})).collect();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web", "tier": "frontend"}},
        "spec": {
            "containers": [{
                "name": "app", "image": "web:1", "env": env,
                "resources": {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "500m", "memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "config", "mountPath": "/config"}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "config", "configMap": {"name": "web"}}],
        },
    });
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002", "kind": kind, "resource": resource, "requestKind": kind,
            "requestResource": resource, "name": "web-0", "namespace": "default", "operation": "CREATE",
            "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller", "groups": ["system:authenticated"]},
            "object": pod, "oldObject": null, "dryRun": false, "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
        },
    })
}

/// The SidecarSet of this number. The first three match the pod of the review, and size their sidecars from it.
pub(crate) fn sidecarset(i: usize) -> Value {
    let expressions = json!({
        "limits": {"cpu": "max(cpu*50%, 50m)", "memory": "max(memory*25%, 100Mi)"},
        "requests": {"cpu": "cpu*20%", "memory": "memory*15%"},
    });
    let policy =
        json!({"targetContainersMode": "sum", "targetContainersNameRegex": "^app$", "resourcesExpr": expressions});
    let name = format!("sidecar-{i}");
    let container = json!({
        "name": name, "image": format!("{name}:1"), "shareVolumePolicy": {"type": "enabled"}, "resourcesPolicy": policy,
        "transferEnv": [{"sourceContainerName": "app", "envNames": ["VARIABLE_1", "VARIABLE_2"]}],
        "volumeMounts": [{"name": format!("{name}-data"), "mountPath": "/sidecar"}],
    });
    let app = if i < 3 { "web".to_owned() } else { format!("app-{i}") };
    json!({
        "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": format!("set-{i:05}")},
        "spec": {
            "selector": {"matchLabels": {"app": app}}, "containers": [container],
            "volumes": [{"name": format!("{name}-data"), "emptyDir": {}}],
            "updateStrategy": {"type": "NotUpdate"},
        },
    })
}
