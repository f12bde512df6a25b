//! Requests to the API server.

use std::sync::OnceLock;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Method, Request, Uri};
use axum::response::Response;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use pillion_apiserver::{ApiServer, Config, TokenSigner};
use serde_json::Value;
use tower::ServiceExt as _;

/// Between the requests of one input.
const SEPARATOR: &str = "\n===\n";

/// Longer than anything takes but waiting: for a resourceVersion that is not there yet, or for a webhook.
const PATIENCE: Duration = Duration::from_millis(20);

/// Any requests are answered, and whatever is the server's own fault has a message. An input is text as HTTP has it, without the version:
/// `METHOD /path?query`, lines of headers, an empty line, a body; then maybe `===` and another. A server of its own answers them in order.
pub fn request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let requests: Vec<Request<Body>> = text.split(SEPARATOR).take(8).filter_map(parse).collect();
    if requests.is_empty() {
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let server = server();
        server.bootstrap().await.expect("what every cluster has");
        for request in requests {
            let shown = format!("{} {}", request.method(), request.uri());
            let answer = tokio::time::timeout(PATIENCE, server.router().oneshot(request)).await;
            if let Ok(Ok(response)) = answer {
                check(&shown, response);
            }
        }
    });
}

fn server() -> ApiServer {
    static TOKENS: OnceLock<TokenSigner> = OnceLock::new();
    let tokens = TOKENS.get_or_init(|| TokenSigner::generate().expect("a key"));
    let store = pillion_store::Store::memory(pillion_store::Options::default());
    ApiServer::new(Config {
        store,
        clock: pillion_clock::Clock::system(),
        tokens: Some(tokens.clone()),
        seed: Some(0),
        ..Config::in_memory()
    })
}

/// `None` for what no HTTP server would hand on.
fn parse(text: &str) -> Option<Request<Body>> {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, target) = lines.next()?.split_once(' ')?;
    let mut request = Request::new(Body::from(body.to_owned()));
    *request.method_mut() = method.parse::<Method>().ok()?;
    *request.uri_mut() = target.parse::<Uri>().ok().filter(|uri| uri.path().starts_with('/'))?;
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), value.parse::<HeaderValue>()) else { continue };
        request.headers_mut().insert(name, value);
    }
    Some(request)
}

fn check(request: &str, response: Response) {
    let status = response.status();
    let mut body = response.into_body();
    let mut text = Vec::new();
    // What has not been said by now is said later: it is a watch.
    while let Some(Some(Ok(frame))) = body.frame().now_or_never() {
        text.extend_from_slice(frame.data_ref().map(AsRef::as_ref).unwrap_or_default());
    }
    if status.is_server_error() {
        let said = serde_json::from_slice::<Value>(&text).unwrap_or_default();
        let message = said["message"].as_str().unwrap_or_default();
        assert!(!message.is_empty(), "{request}: {status} without a message: {}", String::from_utf8_lossy(&text));
    }
}
