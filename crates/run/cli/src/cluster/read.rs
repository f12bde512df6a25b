//! Requests that read, and errors that say which right is missing.

use kube::Client;
use kube::api::{DynamicObject, GetParams, ListParams};
use kube::core::{ApiResource, Request};
use pillion_embedded::resource;
use serde::Deserialize;
use serde_json::Value;
use thiserror::Error;

use crate::{Failure, chain};

/// As many as kubectl asks for at a time.
const PAGE: u32 = 500;

/// How often a list is started again because the API server has forgotten where it was.
const RESTARTS: u32 = 3;

/// Reads from an API server.
#[derive(Clone)]
pub(crate) struct Reader {
    client: Client,
}

/// What of an object is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parts {
    All,
    Metadata,
}

/// Why something cannot be read.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// A right is missing.
    #[error("cannot {verb} {resource}{place}: the right to {verb} {resource} is missing: {message}")]
    Forbidden { verb: &'static str, resource: String, place: String, message: String },
    /// The API server does not serve the resource, or not the object.
    #[error("cannot {verb} {resource}{place}: {message}")]
    NotFound { verb: &'static str, resource: String, place: String, message: String },
    /// Anything else.
    #[error("cannot {verb} {resource}{place}: {message}")]
    Other { verb: &'static str, resource: String, place: String, message: String },
}

impl ReadError {
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self, ReadError::Forbidden { .. })
    }

    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, ReadError::NotFound { .. })
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::no(error.to_string())
    }
}

#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: PageMetadata,
    #[serde(default)]
    items: Vec<Value>,
}

#[derive(Default, Deserialize)]
struct PageMetadata {
    #[serde(default, rename = "continue")]
    next: String,
}

/// How objects of a kind of Kubernetes' own are reached.
pub(crate) fn api_resource(resource: &resource::Resource) -> ApiResource {
    let separator = if resource.group.is_empty() { "" } else { "/" };
    ApiResource {
        group: resource.group.to_owned(),
        version: resource.version.to_owned(),
        api_version: format!("{}{separator}{}", resource.group, resource.version),
        kind: resource.kind.to_owned(),
        plural: resource.plural.to_owned(),
    }
}

/// `deployments.apps`, as RBAC and kubectl name it.
pub(crate) fn qualified(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.plural.clone() } else { format!("{}.{}", resource.plural, resource.group) }
}

impl Reader {
    pub(crate) fn new(client: Client) -> Reader {
        Reader { client }
    }

    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// One object; `None` if it is not there.
    pub(crate) async fn get(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        name: &str,
    ) -> Result<Option<Value>, ReadError> {
        let place = format!(" {name:?}{}", in_namespace(namespace));
        let failed = |error| failure("get", resource, &place, error);
        let request = request(resource, namespace).get(name, &GetParams::default());
        let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        match self.client.request::<Value>(request).await {
            Ok(object) => Ok(Some(typed(object, resource))),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Every object of a resource that is selected, as `keep` leaves it, page by page. Without a namespace those of all namespaces.
    pub(crate) async fn list<T>(
        &self,
        resource: &ApiResource,
        namespace: Option<&str>,
        parts: Parts,
        selected: &ListParams,
        mut keep: impl FnMut(Value) -> Option<T>,
    ) -> Result<Vec<T>, ReadError> {
        let place = if namespace.is_some() { in_namespace(namespace) } else { " at the cluster scope".to_owned() };
        let failed = |error| failure("list", resource, &place, error);
        let (mut kept, mut restarts) = (Vec::new(), 0);
        let mut params = selected.clone().limit(PAGE);
        loop {
            let list = request(resource, namespace);
            let request = if parts == Parts::All { list.list(&params) } else { list.list_metadata(&params) };
            let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
            let page: Page = match self.client.request(request).await {
                Ok(page) => page,
                Err(kube::Error::Api(status)) if status.code == 410 && restarts < RESTARTS => {
                    (restarts, params.continue_token) = (restarts + 1, None);
                    kept.clear();
                    continue;
                }
                Err(error) => return Err(failed(error)),
            };
            kept.extend(page.items.into_iter().filter_map(|item| keep(typed(item, resource))));
            if page.metadata.next.is_empty() {
                return Ok(kept);
            }
            params.continue_token = Some(page.metadata.next);
        }
    }
}

fn request(resource: &ApiResource, namespace: Option<&str>) -> Request {
    Request::new(<DynamicObject as kube::Resource>::url_path(resource, namespace))
}

fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default()
}

/// Items of a list do not repeat the type of the list; metadata alone has a type of its own.
fn typed(mut object: Value, resource: &ApiResource) -> Value {
    if let Some(object) = object.as_object_mut() {
        object.insert("apiVersion".to_owned(), resource.api_version.clone().into());
        object.insert("kind".to_owned(), resource.kind.clone().into());
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("managedFields");
        }
    }
    object
}

fn failure(verb: &'static str, resource: &ApiResource, place: &str, error: kube::Error) -> ReadError {
    let (resource, place) = (qualified(resource), place.to_owned());
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            ReadError::Forbidden { verb, resource, place, message: status.message.clone() }
        }
        kube::Error::Api(status) if status.code == 404 => {
            ReadError::NotFound { verb, resource, place, message: status.message.trim_end().to_owned() }
        }
        kube::Error::Api(status) => ReadError::Other { verb, resource, place, message: status.message.clone() },
        error => ReadError::Other { verb, resource, place, message: chain(&error) },
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::extract::RawQuery;
    use axum::http::StatusCode;
    use axum::response::IntoResponse as _;
    use axum::{Json, Router};
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::cluster::testing::TestCluster;

    fn name(object: Value) -> Option<String> {
        object["metadata"]["name"].as_str().map(str::to_owned)
    }

    #[tokio::test(start_paused = true)]
    async fn more_objects_than_one_page_are_all_read() {
        const MANY: usize = 1_203;
        let cluster = TestCluster::bare().await;
        for i in 0..MANY {
            cluster
                .create("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": format!("c-{i:04}")}}))
                .await;
        }
        let (reader, config_maps) = (cluster.reader(), ApiResource::erase::<ConfigMap>(&()));
        for parts in [Parts::All, Parts::Metadata] {
            let before = cluster.requests().len();
            let names = reader.list(&config_maps, Some("default"), parts, &ListParams::default(), name).await.unwrap();
            assert_eq!(names, (0..MANY).map(|i| format!("c-{i:04}")).collect::<Vec<_>>());
            assert_eq!(cluster.requests().len() - before, MANY.div_ceil(500));
        }
    }

    /// A server with two pages, whose first token for the second one has expired.
    #[tokio::test]
    async fn a_list_whose_token_has_expired_is_started_again() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let answer = move |RawQuery(query): RawQuery| async move {
            let is_second = query.unwrap_or_default().contains("continue=");
            let item = |name: &str| json!({"metadata": {"name": name}});
            match (counter.fetch_add(1, Ordering::Relaxed), is_second) {
                (1, true) => {
                    let gone = json!({"kind": "Status", "status": "Failure", "reason": "Expired", "message": "too old", "code": 410});
                    (StatusCode::GONE, Json(gone)).into_response()
                }
                (_, true) => Json(json!({"metadata": {}, "items": [item("b")]})).into_response(),
                (_, false) => Json(json!({"metadata": {"continue": "x"}, "items": [item("a")]})).into_response(),
            }
        };
        let reader = Reader::new(Client::new(Router::new().fallback(answer), "default"));
        let config_maps = ApiResource::erase::<ConfigMap>(&());
        let names = reader.list(&config_maps, None, Parts::All, &ListParams::default(), name).await.unwrap();
        assert_eq!((names, asked.load(Ordering::Relaxed)), (vec!["a".to_owned(), "b".to_owned()], 4));
    }
}
