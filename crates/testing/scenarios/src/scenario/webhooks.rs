//! The API server calls webhooks wherever they are.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::api::{Api, DeleteParams, PostParams};
use pillion_cluster::image::SCENARIOS;
use serde_json::{Value, json};

use super::shell;
use crate::webhook::{self, Certificate, MARK, PATH};
use crate::{Namespace, wait};

/// The webhook is a server of this process, on loopback.
pub async fn a_webhook_on_loopback_mutates_a_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let certificate = Certificate::for_name("127.0.0.1")?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let server = webhook::server(listener, &certificate.pem, &certificate.key)?;
    let (address, handle) = (server.address()?, server.handle());
    let serving = tokio::spawn(server.run());
    let outcome =
        pods_are_marked(namespace, json!({"url": format!("https://{address}{PATH}")}), &certificate.pem).await;
    handle.stop(Duration::ZERO);
    serving.await?;
    outcome
}

/// The webhook is a pod behind a Service.
pub async fn a_webhook_in_a_pod_mutates_a_pod(namespace: &Namespace) -> anyhow::Result<()> {
    let certificate = Certificate::for_name(&format!("webhook.{}.svc", namespace.name()))?;
    let files = json!({"tls.crt": certificate.pem, "tls.key": certificate.key});
    namespace.create::<Secret>(json!({"metadata": {"name": "certificate"}, "stringData": files})).await?;
    let pod = json!({"metadata": {"name": "webhook", "labels": {"app": "webhook"}}, "spec": {
        "terminationGracePeriodSeconds": 1, "automountServiceAccountToken": false,
        "containers": [{
            "name": "webhook", "image": SCENARIOS, "imagePullPolicy": "Never", "args": ["webhook", "--certificate", "/certificate"],
            "readinessProbe": {"tcpSocket": {"port": 8443}, "periodSeconds": 1},
            "volumeMounts": [{"name": "certificate", "mountPath": "/certificate"}]
        }],
        "volumes": [{"name": "certificate", "secret": {"secretName": "certificate"}}]
    }});
    namespace.create::<Pod>(pod).await?;
    let ports = json!([{"port": 443, "targetPort": 8443}]);
    namespace
        .create::<Service>(
            json!({"metadata": {"name": "webhook"}, "spec": {"selector": {"app": "webhook"}, "ports": ports}}),
        )
        .await?;
    let is_ready = |pod: &Pod| {
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
    };
    namespace.wait_for_pod("webhook", "ready", is_ready).await?;
    let service = json!({"service": {"namespace": namespace.name(), "name": "webhook", "path": PATH}});
    pods_are_marked(namespace, service, &certificate.pem).await
}

/// Registers the webhook for this namespace, and waits until a pod that is created comes out marked.
async fn pods_are_marked(namespace: &Namespace, mut client_config: Value, authority: &str) -> anyhow::Result<()> {
    client_config["caBundle"] = serde_json::to_value(ByteString(authority.as_bytes().to_vec()))?;
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(namespace.client());
    let configuration = json!({
        "metadata": {"name": namespace.name()},
        "webhooks": [{
            "name": "mark.scenarios.pillion.dev", "clientConfig": client_config, "failurePolicy": "Ignore", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "timeoutSeconds": 5,
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}]
        }]
    });
    configurations.create(&PostParams::default(), &serde_json::from_value(configuration)?).await?;
    // The API server learns of a configuration some time after it is created; a dry run leaves nothing behind.
    let pod: Pod = serde_json::from_value(
        json!({"metadata": {"name": "marked"}, "spec": {"containers": [shell("main", "true")]}}),
    )?;
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let outcome = wait::until("a pod that is marked by the webhook", async || {
        let created = namespace.api::<Pod>().create(&dry_run, &pod).await?;
        Ok(created.metadata.labels.and_then(|labels| labels.get(MARK).cloned()).filter(|mark| mark == "yes"))
    })
    .await;
    configurations.delete(namespace.name(), &DeleteParams::default()).await?;
    outcome.map(drop)
}
