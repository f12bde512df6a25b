//! One connection, from the first byte to the last.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use crate::activity::{Activity, Exchange, Phase};
use crate::body::Tracked;
use crate::bounds::Bounds;
use crate::registry::Place;

/// The largest head of a request: less than what hyper allows, since each connection may have one.
const LARGEST_HEAD: usize = 64 * 1024;
/// How many requests one HTTP/2 connection may have under way.
const STREAMS: u32 = 256;
/// How long a client has to take the last of its answers after it was asked to go.
const FAREWELL: Duration = Duration::from_secs(5);
/// How long a server that stops waits for the first request of a connection that was just opened, and how often it looks for it.
const FIRST_REQUEST: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// What every connection of a server gets.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) router: Router,
    pub(crate) bounds: Bounds,
    /// The certificate to show; `None` for plain HTTP.
    pub(crate) tls: Option<watch::Receiver<Arc<rustls::ServerConfig>>>,
    /// Whether every answer is the last one of its connection.
    pub(crate) draining: Arc<AtomicBool>,
    /// True when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

/// Serves a connection until it ends, is overdue, or has to make room.
pub(crate) async fn serve(stream: TcpStream, place: Place, shared: Shared) {
    let Some(tls) = &shared.tls else { return serve_http1(stream, &place, &shared).await };
    let config = tls.borrow().clone();
    let handshake = TlsAcceptor::from(config).accept(stream);
    let accepted = tokio::select! {
        accepted = tokio::time::timeout(shared.bounds.request, handshake) => accepted,
        () = place.activity.closed() => return,
    };
    match accepted {
        Ok(Ok(stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            serve_http2(stream, &place, &shared).await;
        }
        Ok(Ok(stream)) => serve_http1(stream, &place, &shared).await,
        Ok(Err(error)) => tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => tracing::debug!("TLS handshake took too long"),
    }
}

async fn serve_http1(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, place: &Place, shared: &Shared) {
    let (router, tracked, draining) =
        (shared.router.clone(), Arc::clone(&place.activity), Arc::clone(&shared.draining));
    let service = service_fn(move |request| answer(router.clone(), request, &tracked, Some(&draining)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(None)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    drive(connection, http1::UpgradeableConnection::graceful_shutdown, place, shared).await;
}

async fn serve_http2(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, place: &Place, shared: &Shared) {
    let (router, tracked) = (shared.router.clone(), Arc::clone(&place.activity));
    let service = service_fn(move |request| answer(router.clone(), request, &tracked, None));
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(LARGEST_HEAD).unwrap_or(u32::MAX))
        .serve_connection(TokioIo::new(stream), service);
    drive(connection, http2::Connection::graceful_shutdown, place, shared).await;
}

/// Goes on with a connection until it ends, is overdue, or has to make room. `shut_down` lets it end after the answers that are under way.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: fn(Pin<&mut C>),
    place: &Place,
    shared: &Shared,
) {
    let mut connection = pin!(connection);
    let activity = &place.activity;
    let mut stopping = shared.stopping.clone();
    let (mut is_stopping, mut gone_by) = (false, None);
    loop {
        let next = if is_stopping { Instant::now() + LOOK } else { next_look(activity, &shared.bounds) };
        let deadline = gone_by.unwrap_or(next);
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended with an error");
                }
                return;
            }
            () = activity.closed() => return,
            () = stopped(&mut stopping), if !is_stopping => {
                is_stopping = true;
                if expects_first_request(activity) {
                    continue;
                }
            }
            () = tokio::time::sleep_until(deadline) => {
                if gone_by.is_some() {
                    return;
                }
                let is_overdue = activity.deadline(&shared.bounds).is_some_and(|deadline| deadline <= Instant::now());
                // A client that waits between requests may be about to send one. The others had their time.
                if is_overdue && activity.phase().0 != Phase::Idle {
                    return;
                }
                // It may have done something meanwhile.
                if !is_overdue && (!is_stopping || expects_first_request(activity)) {
                    continue;
                }
            }
        }
        // Responses in progress are sent first, within the grace period of `Handle::stop`.
        shut_down(connection.as_mut());
        is_stopping = true;
        gone_by = activity.deadline(&shared.bounds).map(|_| Instant::now() + FAREWELL);
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    if stopping.wait_for(|stopping| *stopping).await.is_err() {
        // The server that could stop it is gone.
        std::future::pending::<()>().await;
    }
}

/// Whether a connection was opened a moment ago, so that its first request is on its way.
fn expects_first_request(activity: &Activity) -> bool {
    let (phase, since) = activity.phase();
    phase == Phase::New && since.elapsed() < FIRST_REQUEST
}

/// When to look whether the connection is overdue. Nothing wakes it when its activity changes: that would cost every request something.
fn next_look(activity: &Activity, bounds: &Bounds) -> Instant {
    let soon = Instant::now() + bounds.request.min(bounds.idle);
    activity.deadline(bounds).map_or(soon, |deadline| deadline.min(soon))
}

/// Has the router answer, and reports how far it is. While `draining` is set, the answer is the last one of its connection.
fn answer(
    router: Router,
    request: hyper::Request<Incoming>,
    activity: &Arc<Activity>,
    draining: Option<&Arc<AtomicBool>>,
) -> impl Future<Output = Result<axum::response::Response, Infallible>> + Send + use<> {
    let exchange = Exchange::begin(activity);
    let draining = draining.cloned();
    let request: Request = request.map(|body| Body::new(Tracked::new(body, &exchange)));
    async move {
        let mut response = router.oneshot(request).await?;
        let is_last = draining.is_some_and(|draining| draining.load(Ordering::Relaxed));
        if is_last && response.status() != StatusCode::SWITCHING_PROTOCOLS {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response.map(|body| Body::new(Tracked::new(body, &exchange))))
    }
}
