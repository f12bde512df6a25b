//! What users do inside running containers: `kubectl exec`, `cp` and `attach`.
//!
//! ```text
//!  kubectl ─▶ API server (who may) ─▶ kubelet: upgrade to a WebSocket ─▶ Runtime::open ─▶ a process in the container
//!                                                    │                                        │
//!                                                 channels ◀── stdin, stdout, stderr, size, exit code
//! ```

mod channels;

use std::sync::Arc;

use axum::extract::ws::{WebSocketUpgrade, rejection::WebSocketUpgradeRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use self::channels::{Channels, PROTOCOLS};
use crate::runtime::{ContainerId, LogOptions, Runtime};
use crate::state::Inner;
use crate::target::find;

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

/// Connects the client with what a container writes from now on. Containers read nothing.
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
    let from_now_on = LogOptions { follow: true, tail_lines: Some(0), ..LogOptions::default() };
    match inner.runtime.logs(&id, from_now_on).await {
        Ok(lines) => upgrade.on_upgrade(async move |socket| Channels::new(socket, &options).copy(lines).await),
        Err(refusal) => (StatusCode::INTERNAL_SERVER_ERROR, refusal.message).into_response(),
    }
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
