//! Whether the API server has the field `containers[].sidecar`: then its node honours it, and pods are left alone.

use axum::http::Request;
use kube::Client;
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
    let request = Request::get(DOCUMENT).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

#[cfg(test)]
mod tests {
    use pillion_apiserver::{ApiServer, Config};
    use pillion_gates::Gates;

    use super::*;

    #[tokio::test]
    async fn the_schema_says_whether_the_node_knows_the_field() {
        for (gates, expected) in [("", false), ("SidecarField=true", true)] {
            let gates = Gates::default().with(&gates.parse().unwrap());
            let server = ApiServer::new(Config { gates, ..Config::in_memory() });
            server.bootstrap().await.unwrap();
            assert_eq!(is_served(&Client::new(server.router(), "default")).await, expected);
        }
    }
}
