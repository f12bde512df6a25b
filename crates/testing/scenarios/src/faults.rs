//! A network that fails: what a client of the API server has to survive.
//!
//! [`Faults`] is a tower layer. In a storm one request in two is answered, the others meet a refused connection, a server
//! error or the request to come again later; and what is answered breaks off at a byte of chance. When the storm is over,
//! everything goes through.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderValue, Request, Response, StatusCode, header};
use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream;
use kube::Client;
use pillion_apiserver::ApiServer;
use serde_json::json;
use tower::{BoxError, Layer, Service};

/// Bodies break off before this many bytes: a list of a few objects may come through, a watch never does.
const LONGEST_BODY: usize = 16 * 1024;

/// How often each fault happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Connections that were refused.
    pub refused: u32,
    /// Answers 500.
    pub failed: u32,
    /// Answers 429.
    pub throttled: u32,
    /// Bodies that broke off.
    pub cut: u32,
}

/// The faults of one network. Clones are the same network.
#[derive(Clone)]
pub struct Faults {
    state: Arc<Mutex<State>>,
}

struct State {
    random: fastrand::Rng,
    storm: bool,
    count: Count,
}

enum Fault {
    Refused,
    Answer(StatusCode),
    Cut { after: usize },
}

impl Faults {
    /// A storm. The same `start` brings the same faults to the same requests.
    pub fn storm(start: u64) -> Faults {
        let state = State { random: fastrand::Rng::with_seed(start), storm: true, count: Count::default() };
        Faults { state: Arc::new(Mutex::new(state)) }
    }

    /// A client whose requests go through this network.
    pub fn client(&self, server: &ApiServer) -> Client {
        Client::new(self.layer(server.router()), "default")
    }

    /// Ends the storm, also for bodies that are under way.
    pub fn cease(&self) {
        self.with(|state| state.storm = false);
    }

    /// What happened so far.
    pub fn count(&self) -> Count {
        self.with(|state| state.count)
    }

    fn with<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The fate of the next request; `None` in fair weather.
    fn draw(&self) -> Option<Fault> {
        self.with(|state| {
            let State { random, count, .. } = state;
            state.storm.then(|| match random.u8(0..6) {
                0 => {
                    count.refused += 1;
                    Fault::Refused
                }
                1 => {
                    count.failed += 1;
                    Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR)
                }
                2 => {
                    count.throttled += 1;
                    Fault::Answer(StatusCode::TOO_MANY_REQUESTS)
                }
                _ => Fault::Cut { after: random.usize(0..LONGEST_BODY) },
            })
        })
    }

    /// The way in which a body breaks off, if the storm still goes on.
    fn cut(&self) -> Option<io::ErrorKind> {
        self.with(|state| {
            state.storm.then(|| {
                state.count.cut += 1;
                if state.random.bool() { io::ErrorKind::ConnectionReset } else { io::ErrorKind::UnexpectedEof }
            })
        })
    }

    /// The body up to a byte, and then an error.
    fn cut_after(self, body: Body, after: usize) -> Body {
        struct Rest<S> {
            frames: S,
            left: usize,
            broken: Option<io::ErrorKind>,
        }
        let rest = Rest { frames: body.into_data_stream(), left: after, broken: None };
        Body::from_stream(stream::unfold(rest, move |mut rest| {
            let faults = self.clone();
            async move {
                if let Some(kind) = rest.broken {
                    return Some((Err(BoxError::from(io::Error::from(kind))), rest));
                }
                let frame = match rest.frames.next().await? {
                    Ok(frame) => frame,
                    Err(error) => return Some((Err(error.into()), rest)),
                };
                match rest.left.checked_sub(frame.len()) {
                    Some(left) => rest.left = left,
                    None => rest.broken = faults.cut(),
                }
                let shown = if rest.broken.is_some() { frame.slice(..rest.left) } else { frame };
                Some((Ok(shown), rest))
            }
        }))
    }
}

impl<S> Layer<S> for Faults {
    type Service = Faulty<S>;

    fn layer(&self, inner: S) -> Faulty<S> {
        Faulty { faults: self.clone(), inner }
    }
}

/// A service behind a network with faults.
#[derive(Clone)]
pub struct Faulty<S> {
    faults: Faults,
    inner: S,
}

impl<S, B> Service<Request<B>> for Faulty<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match self.faults.draw() {
            Some(Fault::Refused) => Box::pin(async { Err(io::Error::from(io::ErrorKind::ConnectionRefused).into()) }),
            Some(Fault::Answer(status)) => Box::pin(async move { Ok(answer(status)) }),
            Some(Fault::Cut { after }) => {
                let (faults, answer) = (self.faults.clone(), self.inner.call(request));
                Box::pin(async move { Ok(answer.await.map_err(Into::into)?.map(|body| faults.cut_after(body, after))) })
            }
            None => {
                let answer = self.inner.call(request);
                Box::pin(async move { answer.await.map_err(Into::into) })
            }
        }
    }
}

/// As an API server says it that cannot answer now.
fn answer(status: StatusCode) -> Response<Body> {
    let reason = if status == StatusCode::TOO_MANY_REQUESTS { "TooManyRequests" } else { "InternalError" };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "this is a storm",
        "reason": reason, "details": {"retryAfterSeconds": 1}, "code": status.as_u16()
    });
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
