//! The objects that every cluster has from its first moment.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::server::ApiServer;
use crate::status::Refusal;
use crate::{service_address, unfinished};

impl ApiServer {
    /// Finishes what an earlier run over the same store was killed in the middle of, and makes what every cluster has: namespaces, the
    /// `kubernetes` Service, priority classes of the system. What is there stays as it is.
    pub async fn bootstrap(&self) -> Result<(), Refusal> {
        unfinished::finish(&self.inner).await.map_err(|refusal| *refusal)?;
        for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
            self.ensure("/api/v1/namespaces", json!({"metadata": {"name": name}})).await?;
        }
        let service = json!({
            "metadata": {"name": "kubernetes", "labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": service_address::FIRST.to_string(),
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
                "type": "ClusterIP",
            },
        });
        self.ensure("/api/v1/namespaces/default/services", service).await?;
        for (name, value, what) in [
            (
                "system-cluster-critical",
                2_000_000_000,
                "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
            ),
            (
                "system-node-critical",
                2_000_001_000,
                "Used for system critical pods that must not be moved from their current node.",
            ),
        ] {
            let class = json!({"metadata": {"name": name}, "value": value, "description": what});
            self.ensure("/apis/scheduling.k8s.io/v1/priorityclasses", class).await?;
        }
        Ok(())
    }

    async fn ensure(&self, path: &str, object: Value) -> Result<(), Refusal> {
        let request = Request::post(path)
            .header("content-type", "application/json")
            .header("user-agent", "kube-apiserver")
            .body(Body::from(object.to_string()))
            .map_err(|error| *Refusal::internal(error))?;
        let response = match self.router().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        if response.status().is_success() || response.status() == axum::http::StatusCode::CONFLICT {
            return Ok(());
        }
        let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap_or_default();
        Err(*Refusal::internal(String::from_utf8_lossy(&body)))
    }
}
