//! What a node answers: logs, and whatever its kubelet serves.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use pillion_rules::field::{Error, Path};
use serde_json::Value;
use tower::ServiceExt as _;

use crate::call::Call;
use crate::read;
use crate::status::{Refusal, Result};
use crate::user::User;

/// A kubelet refuses in a few words.
const LARGEST_REFUSAL: usize = 64 * 1024;

/// `pods/log`
pub(super) async fn log(call: &Call<'_>) -> Result<Response> {
    let pod = read::stored(call).await?;
    let container = container(call, &pod)?;
    check_options(call)?;
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        // Nothing has run yet: nothing was said.
        return Ok(Response::new(Body::empty()));
    }
    let path = format!("/containerLogs/{}/{}/{container}", call.namespace(), call.name());
    let query = call.raw_query.as_deref().unwrap_or_default();
    let response = ask(call, node, &path, query).await?;
    if response.status().is_success() { Ok(response) } else { Err(refused(response).await) }
}

/// A kubelet's refusal, in the form of this server's own.
async fn refused(response: Response) -> Box<Refusal> {
    let code = response.status();
    let body = axum::body::to_bytes(response.into_body(), LARGEST_REFUSAL).await.unwrap_or_default();
    let message = String::from_utf8_lossy(&body).into_owned();
    match code {
        StatusCode::BAD_REQUEST => Refusal::bad_request(message),
        StatusCode::NOT_FOUND => Refusal::new(code, "NotFound", message, Value::Null),
        _ => Refusal::internal(message),
    }
}

/// The container that is meant: the one that is named, or the only one.
fn container(call: &Call<'_>, pod: &Value) -> Result<String> {
    let names = |list: &str| -> Vec<String> {
        let containers = pod["spec"][list].as_array().into_iter().flatten();
        containers.filter_map(|container| container["name"].as_str()).map(str::to_owned).collect()
    };
    let (containers, init) = (names("containers"), names("initContainers"));
    let all = || containers.iter().chain(&init).cloned().chain(names("ephemeralContainers"));
    let wanted = call.query.text("container");
    if !wanted.is_empty() {
        if all().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        return Err(Refusal::bad_request(format!("container {wanted} is not valid for pod {}", call.name())));
    }
    if let ([only], []) = (containers.as_slice(), init.as_slice()) {
        return Ok(only.clone());
    }
    let name = call.name();
    let mut why =
        format!("a container name must be specified for pod {name}, choose one of: [{}]", containers.join(" "));
    if !init.is_empty() {
        let _ = write!(why, " or one of the init containers: [{}]", init.join(" "));
    }
    Err(Refusal::bad_request(why))
}

fn check_options(call: &Call<'_>) -> Result<()> {
    let mut errors = Vec::new();
    for (key, least) in [("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)] {
        if let Some(number) = call.query.number(key)?
            && number < least
        {
            let why = if least == 0 { "must be greater than or equal to 0" } else { "must be greater than 0" };
            errors.push(Error::invalid(&Path::new(key), number, why));
        }
    }
    if call.query.get("sinceSeconds").is_some() && call.query.get("sinceTime").is_some() {
        errors.push(Error::forbidden(&Path::root(), "at most one of `sinceTime` or `sinceSeconds` may be specified"));
    }
    if errors.is_empty() { Ok(()) } else { Err(Refusal::invalid("", "PodLogOptions", call.name(), &errors)) }
}

/// `nodes/proxy`
pub(super) async fn proxy(call: &Call<'_>) -> Result<Response> {
    // What a kubelet serves besides texts is a way into containers.
    let first = call.path.rest.iter().find(|part| !part.is_empty()).map(String::as_str).unwrap_or_default();
    if call.upgrade.is_some() || matches!(first, "exec" | "attach" | "portForward") {
        check_owner(call, "nodes/proxy")?;
    }
    read::stored(call).await?;
    let path = format!("/{}", call.path.rest.join("/"));
    ask(call, call.name(), &path, call.raw_query.as_deref().unwrap_or_default()).await
}

async fn ask(call: &Call<'_>, node: &str, path: &str, query: &str) -> Result<Response> {
    let Some(kubelet) = call.inner().node(node) else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "ServiceUnavailable",
            format!("node {node:?} runs no kubelet that this server knows"),
            Value::Null,
        ));
    };
    let uri = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
    let mut request = Request::builder().method(call.method.clone()).uri(uri);
    if let Some(upgrade) = &call.upgrade {
        request = upgrade.ask_again(request);
    }
    let request =
        request.body(Body::from(call.body.clone())).map_err(|error| Refusal::bad_request(error.to_string()))?;
    match kubelet.oneshot(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

/// Refuses everybody but the owner of the cluster.
fn check_owner(call: &Call<'_>, resource: &str) -> Result<()> {
    if call.user == User::admin() {
        return Ok(());
    }
    let place = match call.namespace() {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {namespace:?}"),
    };
    let why = format!(
        "User {:?} cannot create resource {resource:?} in API group \"\" {place}: only the user of the kubeconfig can",
        call.user.name
    );
    Err(Refusal::forbidden(&call.endpoint.group_resource(), call.name(), &why))
}

/// `pods/exec`, `pods/attach` and `pods/portforward`: only for the owner of the cluster, since a container is a process of the owner's machine.
pub(super) async fn connection(call: &Call<'_>) -> Result<Response> {
    let subresource = call.path.subresource.as_deref().unwrap_or_default();
    check_owner(call, &format!("pods/{subresource}"))?;
    let pod = read::stored(call).await?;
    let (namespace, name) = (call.namespace(), call.name());
    let path = match subresource {
        "exec" | "attach" => format!("/{subresource}/{namespace}/{name}/{}", container(call, &pod)?),
        "portforward" => format!("/portForward/{namespace}/{name}"),
        _ => {
            return Err(Refusal::bad_request(format!(
                "pods/{subresource} is not served by this one-machine cluster: its containers are processes of your machine, which you can reach directly"
            )));
        }
    };
    let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    if node.is_empty() {
        return Err(Refusal::bad_request(format!("pod {name} does not have a host assigned")));
    }
    let response = ask(call, node, &path, call.raw_query.as_deref().unwrap_or_default()).await?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS => Ok(response),
        _ => Err(refused(response).await),
    }
}
