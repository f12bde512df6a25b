//! Requests are stopped after each of their writes: a store with what was on the disk then is loaded by a new server.

use axum::body::Body;
use axum::http::Request;
use pillion_store::{Options, Store};
use serde_json::json;
use tower::ServiceExt as _;

use super::*;
use crate::custom::condition;
use crate::{ApiServer, Config, serve};

const WIDGETS: &str = "widgets.example.com";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";
const OBJECTS: &str = "/apis/example.com/v1/namespaces/default/widgets";

async fn server(store: Store) -> ApiServer {
    let server = ApiServer::new(Config { store, ..Config::in_memory() });
    server.bootstrap().await.unwrap();
    server
}

async fn ask(server: &ApiServer, method: &str, path: &str, body: Value) -> (u16, Value) {
    // As on a port.
    let router = serve::carried_out(server.router());
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let request = Request::builder().method(method).uri(path).header("content-type", kind).body(body).unwrap();
    let response = router.oneshot(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn create_definition(server: &ApiServer) {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": WIDGETS},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let (folder, _) = DEFINITION.rsplit_once('/').unwrap();
    assert_eq!(ask(server, "POST", folder, definition).await.0, 201);
}

async fn create_object(server: &ApiServer, name: &str, finalizers: &[&str]) {
    let metadata = json!({"name": name, "finalizers": finalizers});
    let object = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata});
    assert_eq!(ask(server, "POST", OBJECTS, object).await.0, 201);
}

/// The store as it was after each write since a version, the last one included.
async fn stops(of: &ApiServer, since: u64, resources: &[&str]) -> Vec<Store> {
    let old = &of.inner.store;
    let mut stores = Vec::new();
    for version in since..=old.resource_version() {
        let store = Store::memory(Options::default());
        for resource in resources {
            for (namespace, name, stored) in old.list_at(resource, None, version).unwrap().iter() {
                let Value::Object(object) = stored::parse(stored).unwrap() else { unreachable!() };
                let key = Key::new(*resource, namespace.clone(), name.clone());
                store.write(Write::Create { key, object }).await.unwrap();
            }
        }
        stores.push(store);
    }
    stores
}

#[tokio::test]
async fn a_definition_whose_conditions_were_not_written_is_established_on_load() {
    let first = server(Store::memory(Options::default())).await;
    let before = first.inner.store.resource_version() + 1;
    create_definition(&first).await;
    let stops = stops(&first, before, &[DEFINITIONS]).await;
    assert_eq!(stops.len(), 2, "the definition and its conditions");
    for store in stops {
        let again = server(store).await;
        let (_, definition) = ask(&again, "GET", DEFINITION, Value::Null).await;
        assert_eq!(condition(&definition, "Established"), Some("True"), "{definition}");
        create_object(&again, "one", &[]).await;
    }
}

#[tokio::test]
async fn a_definition_that_is_being_deleted_is_gone_after_load() {
    let first = server(Store::memory(Options::default())).await;
    create_definition(&first).await;
    for name in ["one", "two", "three"] {
        create_object(&first, name, &[]).await;
    }
    let before = first.inner.store.resource_version() + 1;
    ask(&first, "DELETE", DEFINITION, Value::Null).await;
    let stops = stops(&first, before, &[DEFINITIONS, WIDGETS]).await;
    assert_eq!(stops.len(), 5, "the mark, three objects and the definition");
    for store in stops {
        let again = server(store).await;
        assert_eq!(ask(&again, "GET", DEFINITION, Value::Null).await.0, 404);
        assert_eq!(ask(&again, "GET", OBJECTS, Value::Null).await.0, 404);
        // The same name can be defined again.
        create_definition(&again).await;
        create_object(&again, "one", &[]).await;
    }
}

#[tokio::test]
async fn a_definition_goes_with_the_last_object_that_held_it() {
    let first = server(Store::memory(Options::default())).await;
    create_definition(&first).await;
    create_object(&first, "free", &[]).await;
    create_object(&first, "held", &["example.com/keep"]).await;
    let before = first.inner.store.resource_version() + 1;
    ask(&first, "DELETE", DEFINITION, Value::Null).await;
    let mut servers = vec![first.clone()];
    for store in stops(&first, before, &[DEFINITIONS, WIDGETS]).await {
        servers.push(server(store).await);
    }
    for server in servers {
        let (_, definition) = ask(&server, "GET", DEFINITION, Value::Null).await;
        assert_eq!(condition(&definition, "Terminating"), Some("True"), "{definition}");
        let (_, left) = ask(&server, "GET", OBJECTS, Value::Null).await;
        assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
        let unheld = json!({"metadata": {"finalizers": null}});
        assert_eq!(ask(&server, "PATCH", &format!("{OBJECTS}/held"), unheld).await.0, 200);
        assert_eq!(ask(&server, "GET", DEFINITION, Value::Null).await.0, 404);
    }
}

#[tokio::test]
async fn a_pod_that_was_marked_to_go_at_once_is_gone_after_load() {
    let first = server(Store::memory(Options::default())).await;
    let account = json!({"metadata": {"name": "default"}});
    ask(&first, "POST", "/api/v1/namespaces/default/serviceaccounts", account).await;
    let pods = "/api/v1/namespaces/default/pods";
    for name in ["kept", "unscheduled"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "main"}]}});
        assert_eq!(ask(&first, "POST", pods, pod).await.0, 201);
    }
    let before = first.inner.store.resource_version() + 1;
    ask(&first, "DELETE", &format!("{pods}/unscheduled"), Value::Null).await;
    let stops = stops(&first, before, &["pods"]).await;
    assert_eq!(stops.len(), 2, "the mark and the removal");
    for store in stops {
        let again = server(store).await;
        assert_eq!(ask(&again, "GET", &format!("{pods}/unscheduled"), Value::Null).await.0, 404);
        assert_eq!(ask(&again, "GET", &format!("{pods}/kept"), Value::Null).await.0, 200);
    }
}

#[tokio::test]
async fn a_request_is_carried_out_although_its_client_has_gone() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(Store::open(folder.path(), Options::default()).unwrap()).await;
    {
        let mut request = std::pin::pin!(create_definition(&server));
        // The store has the first write, and waits for the disk.
        assert!(futures::poll!(request.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    let established = async {
        loop {
            let (_, definition) = ask(&server, "GET", DEFINITION, Value::Null).await;
            if condition(&definition, "Established") == Some("True") {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), established).await.expect("it is never established");
}
