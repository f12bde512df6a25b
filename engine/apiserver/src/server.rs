//! The server: what is registered with it, and how a request finds its handler.

use std::sync::{Arc, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use pillion_clock::Clock;

use crate::call::{Call, Warnings};
use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::media::{self, Output};
use crate::path::{self, ResourcePath, Target};
use crate::query::Query;
use crate::state::Inner;
use crate::status::{Refusal, Result};
use crate::upgrade::Upgrade;
use crate::user::User;
use crate::{discovery, kinds, long, nonresource, respond, verbs};

/// Bodies may not be larger, as with kube-apiserver.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// An API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

impl ApiServer {
    /// A server over a store. Objects that every cluster has are made by [`ApiServer::bootstrap`].
    pub fn new(config: Config) -> ApiServer {
        ApiServer { inner: Arc::new(Inner::new(config)) }
    }

    /// The service that answers requests. It takes every caller for the administrator unless a [`User`] was put into the request's extensions.
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Answers calls of webhooks whose URL is `url` or below it by a service of this process, without a socket.
    pub fn register_webhook(&self, url: &str, service: Router) {
        self.inner.webhooks.write().unwrap_or_else(PoisonError::into_inner).insert(url.to_owned(), service);
    }

    /// Answers `nodes/NAME/proxy`, and `pods/log`, `pods/exec`, `pods/attach` and `pods/portforward` of pods on that node by a service of this
    /// process.
    pub fn register_node(&self, name: &str, kubelet: Router) {
        self.inner.nodes.write().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), kubelet);
    }

    /// Answers `metrics.k8s.io` by a service of this process.
    pub fn register_metrics(&self, service: Router) {
        *self.inner.metrics.write().unwrap_or_else(PoisonError::into_inner) = Some(service);
    }

    /// The clock that all timestamps come from.
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }
}

async fn answer(State(server): State<ApiServer>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let header = |name: header::HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    let user_agent = header(header::USER_AGENT);
    let pretty = match query.get("pretty") {
        Some(text) if !text.is_empty() => matches!(text, "1" | "t" | "T" | "TRUE" | "true" | "True"),
        _ => ["curl", "Wget", "Mozilla/5.0"].iter().any(|person| user_agent.starts_with(person)),
    };
    let path = parts.uri.path();
    let segments = path
        .split('/')
        .filter(|part| !part.is_empty())
        .map(|part| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned());
    let odd = path.contains("//") || path.to_ascii_lowercase().contains("%2f");
    let incoming = Incoming {
        method: parts.method.clone(),
        target: path::parse(segments.collect()),
        odd,
        query,
        raw_query: parts.uri.query().map(str::to_owned),
        uri: parts.uri.to_string(),
        // HTTP/2 names it in the URI.
        host: parts.uri.authority().map_or_else(|| header(header::HOST), ToString::to_string),
        accept: header(header::ACCEPT),
        content_type: header(header::CONTENT_TYPE),
        user_agent,
        user: parts.extensions.get::<User>().cloned().unwrap_or_else(User::admin),
        pretty,
        upgrade: Upgrade::of(&parts),
        body,
    };
    let output = Output::of_documents(&incoming.accept, pretty);
    let warnings = Warnings::default();
    match dispatch(&server, incoming, &warnings).await {
        Ok(response) => respond::with_warnings(response, &warnings),
        Err(refusal) => respond::with_warnings(respond::refusal(&refusal, output), &warnings),
    }
}

/// A request, before it is known what it is about.
struct Incoming {
    method: Method,
    target: Target,
    /// The path has empty segments, or slashes that are not meant to separate.
    odd: bool,
    query: Query,
    raw_query: Option<String>,
    uri: String,
    host: String,
    accept: String,
    content_type: String,
    user_agent: String,
    user: User,
    pretty: bool,
    upgrade: Option<Upgrade>,
    body: Body,
}

async fn dispatch(server: &ApiServer, incoming: Incoming, warnings: &Warnings) -> Result<Response> {
    let inner = &server.inner;
    match &incoming.target {
        Target::Other(parts) => {
            let verbose = incoming.query.get("verbose").is_some();
            nonresource::answer(inner, &incoming.method, parts, verbose, &incoming.accept)
        }
        _ if incoming.odd => Err(Refusal::no_such_resource()),
        Target::Resource(path) => {
            let endpoint = served(inner, path)?;
            check_name(path)?;
            let path = path.clone();
            resource(server, incoming, endpoint, path, warnings).await
        }
        target if incoming.method == Method::GET => discovery_answer(inner, target, &incoming),
        _ => Err(Refusal::method_not_allowed()),
    }
}

fn discovery_answer(inner: &Inner, target: &Target, incoming: &Incoming) -> Result<Response> {
    media::discovery(&incoming.accept)?;
    let output = Output::of_documents(&incoming.accept, incoming.pretty);
    let served = crate::served::all(inner);
    let aggregated = media::aggregated_discovery(&incoming.accept);
    let document = match (target, aggregated) {
        (Target::CoreVersions, Some(kind)) => return Ok(respond::typed(&discovery::aggregated_core(&served), kind)),
        (Target::Groups, Some(kind)) => return Ok(respond::typed(&discovery::aggregated_groups(&served), kind)),
        (Target::CoreVersions, None) => Some(discovery::api_versions(&incoming.host)),
        (Target::Groups, None) => Some(discovery::api_group_list(&served)),
        (Target::Group(group), _) => discovery::api_group_document(&served, group),
        (Target::Resources { group, version }, _) => discovery::api_resource_list(&served, group, version),
        _ => None,
    };
    document.map(|document| respond::document(&document, output)).ok_or_else(|| nothing_there(target))
}

/// A name that could be no part of a path.
fn check_name(path: &ResourcePath) -> Result<()> {
    let name = path.name.as_deref().unwrap_or_default();
    let why = match ['/', '%'].into_iter().find(|sign| name.contains(*sign)) {
        Some(sign) => format!("may not contain '{sign}'"),
        None if matches!(name, "." | "..") => format!("may not be '{name}'"),
        None => return Ok(()),
    };
    Err(Refusal::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
}

/// What is answered where nothing is: groups of Kubernetes' own say it in a Status, others in plain text.
fn nothing_there(target: &Target) -> Box<Refusal> {
    let group = match target {
        Target::Group(group) | Target::Resources { group, .. } => group,
        Target::Resource(path) => &path.group,
        _ => return Refusal::page_not_found(),
    };
    if kinds::has_group(group) { Refusal::no_such_resource() } else { Refusal::page_not_found() }
}

/// The resource, if the path names one in a place where it lives.
fn served(inner: &Inner, path: &ResourcePath) -> Result<Endpoint> {
    let endpoint = inner
        .endpoint(&path.group, &path.version, &path.resource)
        .ok_or_else(|| nothing_there(&Target::Resource(path.clone())))?;
    let in_namespace = !path.namespace.is_empty();
    let fits = match (endpoint.namespaced(), in_namespace) {
        (true, true) | (false, false) => true,
        // A namespaced resource can be listed across namespaces, and nothing else.
        (true, false) => path.name.is_none(),
        (false, true) => false,
    };
    if fits { Ok(endpoint) } else { Err(nothing_there(&Target::Resource(path.clone()))) }
}

async fn resource(
    server: &ApiServer,
    incoming: Incoming,
    endpoint: Endpoint,
    path: ResourcePath,
    warnings: &Warnings,
) -> Result<Response> {
    let deprecation = match &endpoint {
        Endpoint::Builtin(resource) => resource.deprecation,
        Endpoint::Custom(custom) => custom.deprecation_warning.as_deref(),
    };
    if let Some(text) = deprecation {
        warnings.add(text);
    }
    let action = verbs::action(&incoming.method, &endpoint, &path, &incoming.query)?;
    let output = if action.streams_from_node() {
        Output::json(incoming.pretty)
    } else {
        if incoming.method == Method::PATCH {
            // A patch of an unknown kind is refused before anything else is looked at.
            media::patch_type(&incoming.content_type, endpoint.is_custom())?;
        }
        let collection = incoming.method == Method::GET && path.name.is_none();
        media::negotiate(&incoming.accept, endpoint.is_custom(), collection, incoming.pretty)?
    };
    let body = axum::body::to_bytes(incoming.body, LARGEST_BODY)
        .await
        .map_err(|_| Refusal::too_large(format!("limit is {LARGEST_BODY}")))?;
    let call = Call {
        method: incoming.method,
        inner: &server.inner,
        api_version: endpoint.api_version(),
        endpoint,
        path,
        query: incoming.query,
        raw_query: incoming.raw_query,
        uri: incoming.uri,
        output,
        user: incoming.user,
        user_agent: incoming.user_agent,
        content_type: incoming.content_type,
        upgrade: incoming.upgrade,
        body,
        warnings,
    };
    long::run(action, &call).await
}
