//! Whether the API server has the field `containers[].sidecar`: then its node honours it, and pods are left alone.

use kube::Client;
use kube::core::Request;
use serde_json::Value;

/// Where the schema of pods is.
const DOCUMENT: &str = "/openapi/v3/api/v1";
/// What a container is called in it.
const CONTAINER: &str = "io.k8s.api.core.v1.Container";

/// Asks the API server for its schema. One that cannot be read has no such field: then pods are changed, which works everywhere.
pub(crate) async fn is_served(client: &Client) -> bool {
    match read(client).await {
        Ok(document) => document["components"]["schemas"][CONTAINER]["properties"].get("sidecar").is_some(),
        Err(error) => {
            tracing::warn!(%error, "the schema of pods cannot be read; containers[].sidecar is taken for unknown to the API server");
            false
        }
    }
}

async fn read(client: &Client) -> kube::Result<Value> {
    let request = Request::new(DOCUMENT).get("", &kube::api::GetParams::default());
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    *request.uri_mut() = axum::http::Uri::from_static(DOCUMENT);
    client.request(request).await
}
