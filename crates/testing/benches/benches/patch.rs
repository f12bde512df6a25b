//! A patch of one label of a large custom resource: what it costs grows with the object, and no faster.

use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use criterion::{Criterion, criterion_group, criterion_main};
use pillion_apiserver::{ApiServer, Config};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tower::ServiceExt as _;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDES: &str = "/apis/example.com/v1/namespaces/default/wides";

async fn send(server: &ApiServer, method: Method, path: &str, body: &Value) -> StatusCode {
    let content = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content);
    let request = request.body(Body::from(body.to_string())).unwrap_or_default();
    server.router().oneshot(request).await.map_or(StatusCode::IM_A_TEAPOT, |response| response.status())
}

/// An API server with one object of so many fields and items.
async fn serve(fields: usize) -> ApiServer {
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await.unwrap_or_else(|error| unreachable!("{error}"));
    let item = json!({"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}});
    let list = json!({"type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"spec": texts, "items": list}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wides.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "wides", "singular": "wide", "kind": "Wide", "listKind": "WideList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    assert_eq!(send(&server, Method::POST, DEFINITIONS, &definition).await, StatusCode::CREATED);
    let spec: Map<String, Value> = (0..fields / 2).map(|number| (format!("f{number}"), json!("v"))).collect();
    let items: Vec<Value> = (0..fields / 2).map(|number| json!({"name": format!("n{number}")})).collect();
    let metadata = json!({"name": "wide"});
    let wide =
        json!({"apiVersion": "example.com/v1", "kind": "Wide", "metadata": metadata, "spec": spec, "items": items});
    assert_eq!(send(&server, Method::POST, WIDES, &wide).await, StatusCode::CREATED);
    server
}

fn benches(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap_or_else(|error| unreachable!("{error}"));
    let mut group = criterion.benchmark_group("patch");
    group.sample_size(10);
    for fields in [2_000, 20_000] {
        let server = runtime.block_on(serve(fields));
        let mut number = 0;
        group.bench_function(format!("{fields} fields"), |b| {
            b.iter(|| {
                number += 1;
                let patch = json!({"metadata": {"labels": {"a": number.to_string()}}});
                let status = runtime.block_on(send(&server, Method::PATCH, &format!("{WIDES}/wide"), &patch));
                assert_eq!(status, StatusCode::OK);
            });
        });
    }
    group.finish();
}

criterion_group!(group, benches);
criterion_main!(group);
