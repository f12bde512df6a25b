//! JSON patches: they replace a whole field, where a merge patch would keep what is not mentioned.

use axum::http::Request;
use kube::Client;
use kube::core::ApiResource;
use serde_json::Value;

/// The path of an object, and of a subresource of it if there is one.
pub(crate) fn path(resource: &ApiResource, namespace: &str, name: &str, subresource: Option<&str>) -> String {
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let below = subresource.map(|subresource| format!("/{subresource}")).unwrap_or_default();
    format!("{root}/namespaces/{namespace}/{}/{name}{below}", resource.plural)
}

/// Applies a JSON patch.
pub(crate) async fn patch(client: &Client, path: &str, operations: &[Value]) -> Result<Value, kube::Error> {
    let body = serde_json::to_vec(operations).map_err(kube::Error::SerdeError)?;
    let request = Request::patch(path).header("content-type", "application/json-patch+json").body(body);
    client.request(request.map_err(kube::Error::HttpError)?).await
}
