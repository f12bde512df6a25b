//! The server: what it holds, and how a request finds its handler.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Method, header};
use axum::response::Response;
use pillion_clock::Clock;
use pillion_store::Store;

use crate::call::{Call, Warnings};
use crate::condition::Conditions;
use crate::custom::CustomResources;
use crate::endpoint::Endpoint;
use crate::media::{self, Output};
use crate::openapi::OpenApi;
use crate::path::{self, ResourcePath, Target};
use crate::policy::Policies;
use crate::query::Query;
use crate::status::{Refusal, Result};
use crate::token::TokenSigner;
use crate::user::User;
use crate::{discovery, kinds, nonresource, respond, verbs};

/// Bodies may not be larger, as with kube-apiserver.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// An API server. Clones are the same server.
#[derive(Clone)]
pub struct ApiServer {
    pub(crate) inner: Arc<Inner>,
}

/// What an API server is made of.
pub struct Config {
    /// Where objects are kept.
    pub store: Store,
    /// Tells the time.
    pub clock: Clock,
    /// Signs the tokens of service accounts; without it there are none.
    pub tokens: Option<TokenSigner>,
    /// Makes uids and generated names the same in every run; `None` makes them random.
    pub seed: Option<u64>,
}

impl Config {
    /// A server for tests and trials: nothing is kept. Without a key of its own it hands out no tokens.
    pub fn in_memory() -> Config {
        Config {
            store: Store::memory(pillion_store::Options::default()),
            clock: Clock::system(),
            tokens: TokenSigner::generate().ok(),
            seed: None,
        }
    }
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) clock: Clock,
    pub(crate) tokens: Option<TokenSigner>,
    pub(crate) custom: CustomResources,
    pub(crate) open_api: OpenApi,
    pub(crate) conditions: Conditions,
    pub(crate) policies: Policies,
    random: Mutex<fastrand::Rng>,
    /// The owner's token, once a port is served.
    admin_token: RwLock<Option<String>>,
    /// Webhooks that live in this process, by the start of their URL.
    webhooks: RwLock<HashMap<String, Router>>,
    /// Kubelets that live in this process, by the name of their node.
    nodes: RwLock<HashMap<String, Router>>,
    /// Who knows what pods and nodes use.
    metrics: RwLock<Option<Router>>,
}

impl ApiServer {
    /// A server over a store. Objects that every cluster has are made by [`ApiServer::bootstrap`].
    pub fn new(config: Config) -> ApiServer {
        let random = config.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let custom = CustomResources::new(&config.store);
        let inner = Inner {
            store: config.store,
            clock: config.clock,
            tokens: config.tokens,
            custom,
            open_api: OpenApi::default(),
            conditions: Conditions::default(),
            policies: Policies::default(),
            random: Mutex::new(random),
            admin_token: RwLock::default(),
            webhooks: RwLock::default(),
            nodes: RwLock::default(),
            metrics: RwLock::default(),
        };
        ApiServer { inner: Arc::new(inner) }
    }

    /// The service that answers requests. It takes every caller for the administrator unless a [`User`] was put into the request's extensions.
    pub fn router(&self) -> Router {
        Router::new().fallback(answer).with_state(self.clone())
    }

    /// Answers calls of webhooks whose URL begins with `url` by a service of this process, without a socket.
    pub fn register_webhook(&self, url: &str, service: Router) {
        self.inner.webhooks.write().unwrap_or_else(PoisonError::into_inner).insert(url.to_owned(), service);
    }

    /// Answers `nodes/NAME/proxy` and `pods/log` of pods on that node by a service of this process.
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

impl Inner {
    /// A service of this process for a webhook's URL.
    pub(crate) fn webhook(&self, url: &str) -> Option<Router> {
        let webhooks = self.webhooks.read().unwrap_or_else(PoisonError::into_inner);
        webhooks.iter().find(|(start, _)| url.starts_with(start.as_str())).map(|(_, service)| service.clone())
    }

    pub(crate) fn metrics(&self) -> Option<Router> {
        self.metrics.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn node(&self, name: &str) -> Option<Router> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn set_admin_token(&self, token: &str) {
        *self.admin_token.write().unwrap_or_else(PoisonError::into_inner) = Some(token.to_owned());
    }

    /// Compared in constant time, so that nobody learns it letter by letter.
    pub(crate) fn is_admin_token(&self, token: &str) -> bool {
        let known = self.admin_token.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_some_and(|known| {
            aws_lc_rs::constant_time::verify_slices_are_equal(known.as_bytes(), token.as_bytes()).is_ok()
        })
    }

    pub(crate) fn uid(&self) -> String {
        let bytes = self.random.lock().unwrap_or_else(PoisonError::into_inner).u128(..).to_be_bytes();
        uuid::Builder::from_random_bytes(bytes).into_uuid().to_string()
    }

    /// Five characters that never spell a word: what generated names end with.
    pub(crate) fn suffix(&self) -> String {
        const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        (0..5).filter_map(|_| random.choice(ALPHABET)).map(|byte| char::from(*byte)).collect()
    }

    pub(crate) fn number(&self, range: std::ops::Range<u32>) -> u32 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).u32(range)
    }

    /// A number between 0 and 1.
    pub(crate) fn fraction(&self) -> f64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).f64()
    }

    /// The same resource in other groups or versions.
    pub(crate) fn equivalents(&self, endpoint: &Endpoint) -> Vec<Endpoint> {
        match endpoint {
            Endpoint::Builtin(_) => {
                let same = |resource: &&'static pillion_kinds::resource::Resource| {
                    let other = Endpoint::Builtin(resource);
                    other.storage_name() == endpoint.storage_name() && other.api_version() != endpoint.api_version()
                };
                pillion_kinds::resource::all().iter().filter(same).map(Endpoint::Builtin).collect()
            }
            Endpoint::Custom(custom) => self.custom.other_versions(custom).into_iter().map(Endpoint::Custom).collect(),
        }
    }

    /// The resource whose objects have this kind.
    pub(crate) fn endpoint_of_kind(&self, api_version: &str, kind: &str) -> Option<Endpoint> {
        let builtin = kinds::of_kind(api_version, kind).map(Endpoint::Builtin);
        builtin.or_else(|| self.custom.of_kind(api_version, kind).map(Endpoint::Custom))
    }

    /// The resource that a path names.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<Endpoint> {
        kinds::find(group, version, plural)
            .map(Endpoint::Builtin)
            .or_else(|| self.custom.find(group, version, plural).map(Endpoint::Custom))
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
        server,
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
        body,
        warnings,
    };
    verbs::run(action, &call).await
}
