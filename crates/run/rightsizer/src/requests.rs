//! Requests that `kube::Api` does not have.

use axum::http::Request;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject};
use kube::{Api, Client};
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

pub(crate) async fn get(client: &Client, path: &str) -> Result<Value, kube::Error> {
    let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
    client.request(request).await
}

/// How many objects are read at a time.
pub(crate) const PAGE: u32 = 500;

/// Lists objects page by page, and keeps what `read` makes of each.
pub(crate) async fn list_in_pages<T>(
    api: &Api<DynamicObject>,
    read: impl Fn(DynamicObject) -> Option<T>,
) -> Result<Vec<T>, kube::Error> {
    let (mut found, mut params) = (Vec::new(), ListParams::default().limit(PAGE));
    loop {
        let page = api.list(&params).await?;
        params.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
        found.extend(page.items.into_iter().filter_map(&read));
        if params.continue_token.is_none() {
            return Ok(found);
        }
    }
}

/// Applies a JSON patch: it replaces a whole field, where a merge patch would keep what is not mentioned.
pub(crate) async fn patch(client: &Client, path: &str, operations: &[Value]) -> Result<Value, kube::Error> {
    let body = serde_json::to_vec(operations).map_err(kube::Error::SerdeError)?;
    let request = Request::patch(path).header("content-type", "application/json-patch+json").body(body);
    client.request(request.map_err(kube::Error::HttpError)?).await
}
