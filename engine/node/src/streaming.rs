//! What users do inside running pods: `kubectl exec`, `cp`, `attach` and `port-forward`.
//!
//! ```text
//!  kubectl ─▶ API server (who may) ─▶ kubelet: upgrade ─┬─▶ Runtime::open ───▶ a process in the container
//!                                                       ├─▶ Runtime::attach ─▶ the container's own process
//!                                                       │     channels ◀── stdin, stdout, stderr, size, exit code
//!                                                       └─▶ Runtime::connect ▶ a port of the pod
//!                                                             port_forward ◀── data, errors
//! ```

mod channels;
mod port_forward;
mod spdy;

use std::sync::Arc;

use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{FromRequestParts as _, Path, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::TokioIo;

use self::channels::{Channels, PROTOCOLS};
use self::port_forward::Target;
use self::spdy::Transport;
use crate::runtime::{ContainerId, Runtime};
use crate::state::Inner;
use crate::target::find;

/// What a connection becomes that does not become a WebSocket.
const SPDY: &str = "SPDY/3.1";

/// The header in which clients of SPDY name what they use it for.
const STREAM_PROTOCOL: &str = "x-stream-protocol-version";

/// `PodExecOptions` and `PodAttachOptions`, as a query.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "the API has them")]
struct Options {
    command: Vec<String>,
    stdin: bool,
    stdout: bool,
    stderr: bool,
    tty: bool,
}

impl Options {
    fn of(query: Vec<(String, String)>) -> Result<Options, &'static str> {
        let mut options = Options::default();
        for (key, value) in query {
            let flag = matches!(value.as_str(), "1" | "true");
            match key.as_str() {
                "command" => options.command.push(value),
                "stdin" => options.stdin = flag,
                "stdout" => options.stdout = flag,
                "stderr" => options.stderr = flag,
                "tty" => options.tty = flag,
                _ => {}
            }
        }
        // A terminal has one stream for both.
        options.stderr &= !options.tty;
        if options.stdin || options.stdout || options.stderr {
            Ok(options)
        } else {
            Err("you must specify at least 1 of stdin, stdout, stderr")
        }
    }
}

type Names = Path<(String, String, String)>;
type Streams = Query<Vec<(String, String)>>;
type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// Runs a command in a container, and connects the client with it.
pub(crate) async fn exec<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    names: Names,
    streams: Streams,
    upgrade: Upgrade,
) -> Response {
    let (id, options, upgrade) = match accept(&inner, names, streams, upgrade) {
        Ok((_, options, _)) if options.command.is_empty() => return refuse("you must specify at least one command"),
        Ok(accepted) => accepted,
        Err(refusal) => return refusal,
    };
    match inner.runtime.open(&id, &options.command, options.tty).await {
        Ok(session) => upgrade.on_upgrade(async move |socket| Channels::new(socket, &options).connect(session).await),
        Err(refusal) => (StatusCode::INTERNAL_SERVER_ERROR, refusal.message).into_response(),
    }
}

/// Connects the client with a container: with what it writes from now on, and with what it reads.
pub(crate) async fn attach<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    names: Names,
    streams: Streams,
    upgrade: Upgrade,
) -> Response {
    let (id, options, upgrade) = match accept(&inner, names, streams, upgrade) {
        Ok(accepted) => accepted,
        Err(refusal) => return refusal,
    };
    match inner.runtime.attach(&id).await {
        Ok(attachment) => {
            upgrade.on_upgrade(async move |socket| Channels::new(socket, &options).attach(attachment).await)
        }
        Err(refusal) => (StatusCode::INTERNAL_SERVER_ERROR, refusal.message).into_response(),
    }
}

/// Connects the client with ports of a pod, over SPDY that is carried by a WebSocket, or by the connection itself.
pub(crate) async fn port_forward<R: Runtime>(
    State(inner): State<Arc<Inner<R>>>,
    Path((namespace, pod)): Path<(String, String)>,
    request: Request,
) -> Response {
    let uid = inner.pods().named(&namespace, &pod).map(|(uid, _)| uid.clone());
    let Some(uid) = uid else {
        return (StatusCode::NOT_FOUND, format!("pod \"{pod}\" does not exist")).into_response();
    };
    let target = Target { inner, pod, uid };
    if asks_for_spdy(request.headers()) {
        return forward_over_spdy(request, target);
    }
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &()).await {
        Ok(upgrade) => upgrade
            .protocols([port_forward::OVER_WEBSOCKET])
            .on_upgrade(async |socket| port_forward::forward(Transport::over_websocket(socket), target).await),
        Err(refusal) => refusal.into_response(),
    }
}

fn asks_for_spdy(headers: &HeaderMap) -> bool {
    headers.get(header::UPGRADE).is_some_and(|upgrade| upgrade.as_bytes().eq_ignore_ascii_case(SPDY.as_bytes()))
}

fn forward_over_spdy<R: Runtime>(request: Request, target: Target<R>) -> Response {
    let asked = request.headers().get_all(STREAM_PROTOCOL).iter().filter_map(|value| value.to_str().ok());
    if !asked.flat_map(|value| value.split(',')).any(|protocol| protocol.trim() == port_forward::PROTOCOL) {
        return (StatusCode::FORBIDDEN, format!("the only protocol for this is {}", port_forward::PROTOCOL))
            .into_response();
    }
    let upgrade = hyper::upgrade::on(request);
    tokio::spawn(async {
        match upgrade.await {
            Ok(connection) => port_forward::forward(Transport::over(TokioIo::new(connection)), target).await,
            Err(error) => tracing::debug!(%error, "a connection was not upgraded"),
        }
    });
    let headers = [("connection", "Upgrade"), ("upgrade", SPDY), (STREAM_PROTOCOL, port_forward::PROTOCOL)];
    (StatusCode::SWITCHING_PROTOCOLS, headers).into_response()
}

/// Which container is meant, what the client wants of it, and the connection; or why there is none.
fn accept<R: Runtime>(
    inner: &Inner<R>,
    Path((namespace, pod, container)): Names,
    Query(streams): Streams,
    upgrade: Upgrade,
) -> Result<(ContainerId, Options, WebSocketUpgrade), Response> {
    let options = Options::of(streams).map_err(refuse)?;
    let upgrade = upgrade.map_err(IntoResponse::into_response)?.protocols(PROTOCOLS);
    let id = find(inner, &namespace, &pod, &container, false).map_err(IntoResponse::into_response)?;
    Ok((id, options, upgrade))
}

fn refuse(why: &str) -> Response {
    (StatusCode::BAD_REQUEST, why.to_owned()).into_response()
}
