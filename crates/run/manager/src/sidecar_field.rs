//! Whether the API server has the field `containers[].sidecar`: then its node honours it, and pods are left alone.

use axum::http::Request;
use kube::Client;
use serde_json::Value;

/// Where the schema of pods is.
const DOCUMENT: &str = "/openapi/v3/api/v1";
/// What a container is called in it.
const CONTAINER: &str = "io.k8s.api.core.v1.Container";

/// Whether the API server has the field, as its schema says. One that publishes no such schema is too old for it.
///
/// # Errors
/// The schema cannot be read.
pub async fn sidecar_field_is_served(client: &Client) -> kube::Result<bool> {
    let request = Request::get(DOCUMENT).body(Vec::new()).map_err(kube::Error::HttpError)?;
    match client.request::<Value>(request).await {
        Ok(document) => Ok(document["components"]["schemas"][CONTAINER]["properties"].get("sidecar").is_some()),
        Err(kube::Error::Api(answer)) if answer.code == 404 => Ok(false),
        Err(error) => Err(error),
    }
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
            assert_eq!(sidecar_field_is_served(&Client::new(server.router(), "default")).await.unwrap(), expected);
        }
        // A failure is no answer: whoever starts with one would change pods that are the node's.
        let failing = axum::Router::new().fallback(|| async { axum::http::StatusCode::INTERNAL_SERVER_ERROR });
        assert!(sidecar_field_is_served(&Client::new(failing, "default")).await.is_err());
        assert!(!sidecar_field_is_served(&Client::new(axum::Router::new(), "default")).await.unwrap_or(true));
    }
}
