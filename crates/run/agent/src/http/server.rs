//! A small server: a few connections, short requests, whole answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming as Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// More connections wait until others are closed.
const CONNECTIONS: usize = 32;
/// A request and its answer may take this long: an update is fetched, reloaded and verified meanwhile.
const LONGEST: Duration = Duration::from_mins(15);
/// The head of a request may take this long.
const HEAD: Duration = Duration::from_secs(10);
/// The body of a request may take this long.
const BODY: Duration = Duration::from_secs(30);
/// No longer body is read.
const BODY_BYTES: usize = 64 << 10;

/// A request that was received whole.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) media: String,
    pub(crate) authorization: Option<String>,
    pub(crate) body: Bytes,
}

/// What is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) media: &'static str,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn text(status: u16, body: impl Into<String>) -> Answer {
        Answer { status, media: "text/plain; charset=utf-8", body: body.into() }
    }
}

/// Answers requests.
pub(crate) trait Service: Send + Sync + 'static {
    fn answer(&self, request: Incoming) -> impl Future<Output = Answer> + Send;
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, service: Arc<impl Service>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        while connections.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: others are closed meanwhile.
                crate::log::line(format_args!("a connection could not be accepted: {error}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        let service = Arc::clone(&service);
        connections.spawn(async move {
            let _place = place;
            let respond = service_fn(move |request| {
                let service = Arc::clone(&service);
                async move { Ok::<_, std::convert::Infallible>(respond(&*service, request).await) }
            });
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false).max_buf_size(16 << 10);
            let connection = server.serve_connection(TokioIo::new(stream), respond);
            let _ = tokio::time::timeout(LONGEST, connection).await;
        });
    }
}

async fn respond(service: &impl Service, request: hyper::Request<Body>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let body = tokio::time::timeout(BODY, super::client::collect(body, BODY_BYTES)).await;
    let answer = match body {
        Ok(Ok(body)) => {
            let request = Incoming {
                method: head.method.as_str().to_owned(),
                path: head.uri.path().to_owned(),
                query: head.uri.query().unwrap_or_default().to_owned(),
                media: header(hyper::header::CONTENT_TYPE).unwrap_or_default(),
                authorization: header(hyper::header::AUTHORIZATION),
                body,
            };
            service.answer(request).await
        }
        Ok(Err(error)) => Answer::text(413, error),
        Err(_) => Answer::text(408, "the body did not come in time"),
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let media = hyper::header::HeaderValue::from_static(answer.media);
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, media);
    response
}
