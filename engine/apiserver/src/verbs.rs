//! From method and path to what is done.

use axum::http::Method;
use axum::response::Response;

use crate::call::Call;
use crate::endpoint::Endpoint;
use crate::path::ResourcePath;
use crate::query::Query;
use crate::status::{Refusal, Result};
use crate::subresource::Subresource;
use crate::{create, delete, list, metrics, patch, read, review, subresource, update, watch};

/// What a request wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Get,
    List,
    Watch,
    Create,
    Update,
    Patch,
    Delete,
    DeleteCollection,
    /// A review: answered, never stored.
    Review,
    /// Something below an object that has no verbs of its own here.
    Subresource(Subresource),
    /// What is measured, not stored.
    Metrics,
}

impl Action {
    /// The answer comes from a kubelet, in whatever form it has.
    pub(crate) fn streams_from_node(self) -> bool {
        matches!(self, Action::Subresource(Subresource::Log | Subresource::NodeProxy | Subresource::Connection))
    }
}

/// What the request wants, if the resource allows it.
pub(crate) fn action(method: &Method, endpoint: &Endpoint, path: &ResourcePath, query: &Query) -> Result<Action> {
    let wants_watch = path.watch || query.flag("watch").unwrap_or(false);
    let Some(subresource) = &path.subresource else {
        let (action, verb) = main_action(method, path.name.is_some(), wants_watch, path.watch)?;
        // Across all namespaces there is only reading.
        let everywhere = endpoint.namespaced() && path.namespace.is_empty();
        let allowed =
            endpoint.verbs().contains(&verb) && (!everywhere || matches!(action, Action::List | Action::Watch));
        let reviews = verb == "create" && review::is_review(endpoint);
        return match allowed {
            true if reviews => Ok(Action::Review),
            true if endpoint.group() == "metrics.k8s.io" => Ok(Action::Metrics),
            true => Ok(action),
            false => Err(Refusal::method_not_allowed()),
        };
    };
    if endpoint.is("", "pods") && matches!(subresource.as_str(), "attach" | "exec" | "portforward" | "proxy") {
        return Ok(Action::Subresource(Subresource::Connection));
    }
    if subresource != "proxy" && !path.rest.is_empty() {
        return Err(Refusal::no_such_resource());
    }
    let verbs = endpoint.subresource_verbs(subresource).ok_or_else(|| {
        let name = path.name.as_deref().unwrap_or_default();
        if endpoint.is_custom() {
            Refusal::not_found(&endpoint.group_resource(), name)
        } else {
            Refusal::no_such_resource()
        }
    })?;
    let verb = match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => return Err(Refusal::method_not_allowed()),
    };
    if !verbs.contains(&verb) {
        return Err(Refusal::method_not_allowed());
    }
    let handled = match subresource.as_str() {
        "scale" => Some(Subresource::Scale),
        "eviction" => Some(Subresource::Eviction),
        "binding" => Some(Subresource::Binding),
        "log" => Some(Subresource::Log),
        "token" => Some(Subresource::Token),
        "proxy" => Some(Subresource::NodeProxy),
        "finalize" => Some(Subresource::Finalize),
        _ => None,
    };
    Ok(match (handled, verb) {
        (Some(subresource), _) => Action::Subresource(subresource),
        (None, "get") => Action::Get,
        (None, "update") => Action::Update,
        (None, "patch") => Action::Patch,
        _ => return Err(Refusal::method_not_allowed()),
    })
}

fn main_action(method: &Method, named: bool, watch: bool, old_watch: bool) -> Result<(Action, &'static str)> {
    Ok(match (method, named) {
        (&Method::GET, false) if watch => (Action::Watch, "watch"),
        (&Method::GET, false) => (Action::List, "list"),
        (&Method::GET, true) if old_watch => (Action::Watch, "watch"),
        (&Method::GET, true) => (Action::Get, "get"),
        (&Method::POST, false) => (Action::Create, "create"),
        (&Method::PUT, true) => (Action::Update, "update"),
        (&Method::PATCH, true) => (Action::Patch, "patch"),
        (&Method::DELETE, true) => (Action::Delete, "delete"),
        (&Method::DELETE, false) => (Action::DeleteCollection, "deletecollection"),
        _ => return Err(Refusal::method_not_allowed()),
    })
}

/// Does it.
pub(crate) async fn run(action: Action, call: &Call<'_>) -> Result<Response> {
    match action {
        Action::Get => read::get(call).await,
        Action::List => list::list(call).await,
        Action::Watch => watch::watch(call),
        Action::Create => create::create(call).await,
        Action::Update => update::update(call).await,
        Action::Patch => patch::patch(call).await,
        Action::Delete => delete::delete(call).await,
        Action::DeleteCollection => delete::delete_collection(call).await,
        Action::Review => review::answer(call).await,
        Action::Metrics => metrics::answer(call).await,
        Action::Subresource(subresource) => subresource::answer(subresource, call).await,
    }
}
