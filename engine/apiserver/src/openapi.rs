//! `OpenAPI` v3: a document per group and version, from which kubectl explains fields, learns how lists merge, and whether the server checks fields.
//!
//! ```text
//!  builtin.json ─────────┐                     ┌─▶ paths: an operation per verb
//!  schema::builtin() ────┼──▶ definitions ──▶ document ──▶ bytes and their hash ──▶ index
//!  `CustomResourceDefinitions`                   └─▶ components: what the paths refer to, and so on
//! ```
//! `builtin.json` is made of k8s-openapi's types by `cargo xtask gen`, because the code that describes them is several times as large.
//! Documents are large, so each is built when it is first asked for and then kept.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha512};

use crate::discovery::Served;

mod custom;
mod definitions;
mod paths;

/// What is under `/openapi`; `None` for what is not there. `custom` are the established `CustomResourceDefinitions`.
pub(crate) fn answer(open_api: &OpenApi, custom: &[Arc<Value>], parts: &[&str], accept: &str) -> Option<Response> {
    let (group, version) = match parts {
        ["openapi", "v3"] => {
            let mut response = Response::new(Body::from(open_api.index(custom).to_string()));
            response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
            return Some(response);
        }
        ["openapi", "v2"] => return Some(empty_v2(accept)),
        ["openapi", "v3", "api", version] => ("", version),
        ["openapi", "v3", "apis", group, version] => (*group, version),
        _ => return None,
    };
    let document = open_api.document(custom, group, version)?;
    let mut response = Response::new(Body::from(document.json.clone()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::ETAG, HeaderValue::from_str(&format!("\"{}\"", document.hash)).ok()?);
    Some(response)
}

/// OpenAPI v2 of nothing, in protobuf where the client wants that: kubectl asks for it where a kind is not in v3, and goes on without.
fn empty_v2(accept: &str) -> Response {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    // Fields 1 (swagger), 2 (info: 1 title, 2 version) and 8 (paths) of the document.
    const MESSAGE: &[u8] = b"\n\x032.0\x12\x15\n\nKubernetes\x12\x07v1.35.8B\x00";
    let (body, kind) = if accept.contains("proto-openapi") {
        (Body::from(MESSAGE), PROTOBUF)
    } else {
        let document = json!({"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1.35.8"}, "paths": {}});
        (Body::from(document.to_string()), "application/json")
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A document, and the hash that stands for its content.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) json: Bytes,
    /// SHA-512 in capitals: the entity tag, and part of the URL in the index.
    pub(crate) hash: String,
}

/// The documents that were asked for.
#[derive(Debug, Default)]
pub(crate) struct OpenApi {
    documents: Mutex<HashMap<String, CachedDocument>>,
    /// Containers have the field `sidecar`.
    sidecar_field: bool,
}

#[derive(Debug)]
struct CachedDocument {
    /// Of what definitions it was built, and in which of their generations.
    built_of: Vec<(String, i64)>,
    document: Arc<Document>,
}

impl OpenApi {
    /// `sidecar_field`: whether containers have the field `sidecar`.
    pub(crate) fn new(sidecar_field: bool) -> OpenApi {
        OpenApi { documents: Mutex::default(), sidecar_field }
    }

    /// `/openapi/v3`: where the documents are. `custom` are the established `CustomResourceDefinitions`.
    pub(crate) fn index(&self, custom: &[Arc<Value>]) -> Value {
        let mut places = places(builtin());
        places.extend(self::places(&served(custom)));
        let mut paths = Map::new();
        for (path, (group, version)) in places {
            if let Some(document) = self.document(custom, &group, &version) {
                let url = format!("/openapi/v3/{path}?hash={}", document.hash);
                paths.insert(path, json!({"serverRelativeURL": url}));
            }
        }
        json!({"paths": paths})
    }

    /// `/openapi/v3/api/v1` and `/openapi/v3/apis/GROUP/VERSION`; `None` when there is no such version.
    pub(crate) fn document(&self, custom: &[Arc<Value>], group: &str, version: &str) -> Option<Arc<Document>> {
        let of_group: Vec<&Arc<Value>> =
            custom.iter().filter(|definition| definition["spec"]["group"] == group).collect();
        let built_of: Vec<(String, i64)> = of_group
            .iter()
            .map(|definition| {
                let metadata = &definition["metadata"];
                let uid = metadata["uid"].as_str().unwrap_or_default();
                (uid.to_owned(), metadata["generation"].as_i64().unwrap_or_default())
            })
            .collect();
        let path = path(group, version);
        if let Some(kept) = self.documents().get(&path).filter(|kept| kept.built_of == built_of) {
            return Some(Arc::clone(&kept.document));
        }
        let is_served = |served: &&Served| served.group == group && served.version == version;
        let own = builtin().iter().filter(is_served).map(|served| (served.clone(), Map::new()));
        let brought = of_group.iter().flat_map(|definition| custom::served_with_definitions(definition));
        let resources: Vec<(Served, Map<String, Value>)> =
            own.chain(brought.filter(|(served, _)| is_served(&served))).collect();
        let document = Arc::new(Document::new(&resources, self.sidecar_field)?);
        self.documents().insert(path, CachedDocument { built_of, document: Arc::clone(&document) });
        Some(document)
    }

    fn documents(&self) -> std::sync::MutexGuard<'_, HashMap<String, CachedDocument>> {
        // The map is whole after every change, so a panic elsewhere does not spoil it.
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Document {
    /// `None` without resources whose definition is known.
    fn new(resources: &[(Served, Map<String, Value>)], sidecar_field: bool) -> Option<Document> {
        let mut own = Map::new();
        for (_, definitions) in resources {
            own.extend(definitions.clone());
        }
        let mut paths = BTreeMap::new();
        for (served, _) in resources {
            paths::add(&mut paths, served);
        }
        if paths.is_empty() {
            return None;
        }
        let paths: Value = serde_json::to_value(paths).ok()?;
        let mut schemas = definitions::closure(&paths, &own);
        if sidecar_field && let Some(container) = schemas.get_mut(definitions::CONTAINER) {
            definitions::add_sidecar_field(container);
        }
        let (title, version) = match resources.first() {
            Some((Served { custom: true, .. }, _)) => ("Kubernetes CRD Swagger", "v0.1.0"),
            _ => ("Kubernetes", "1.35"),
        };
        let document = json!({
            "openapi": "3.0.0",
            "info": {"title": title, "version": version},
            "paths": paths,
            "components": {"schemas": schemas},
        });
        let json = Bytes::from(serde_json::to_vec(&document).ok()?);
        let hash: Vec<String> = Sha512::digest(&json).iter().map(|byte| format!("{byte:02X}")).collect();
        Some(Document { json, hash: hash.concat() })
    }
}

fn builtin() -> &'static [Served] {
    static BUILTIN: OnceLock<Vec<Served>> = OnceLock::new();
    BUILTIN.get_or_init(|| pillion_kinds::resource::all().iter().map(Served::builtin).collect())
}

fn served(custom: &[Arc<Value>]) -> Vec<Served> {
    custom.iter().flat_map(|definition| Served::custom(definition)).collect()
}

/// The path of every group and version in the index, sorted.
fn places(served: &[Served]) -> BTreeMap<String, (String, String)> {
    let place = |served: &Served| {
        let (group, version) = (served.group.to_string(), served.version.to_string());
        (path(&group, &version), (group, version))
    };
    served.iter().map(place).collect()
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

#[cfg(test)]
mod tests;
