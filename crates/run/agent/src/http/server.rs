//! A small server: a few connections, short requests, whole answers.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming as Body;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinSet};

/// So many connections may be open whose request is not there yet. A newer one takes the place of the oldest, so that nobody keeps others out by
/// opening connections and saying nothing.
const WAITING: usize = 64;
/// So many requests are answered at the same time, besides those that `Service::check` answers.
const REQUESTS: usize = 32;
/// A request and its answer may take this long: an update is fetched, reloaded and verified meanwhile.
const LONGEST: Duration = Duration::from_mins(15);
/// The head of a request may take this long.
const HEAD: Duration = Duration::from_secs(10);
/// The body of a request may take this long.
const BODY: Duration = Duration::from_secs(30);
/// No longer body is read.
const BODY_BYTES: usize = 64 << 10;

/// What comes before the body of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) media: String,
    pub(crate) authorization: Option<String>,
    /// Whom it is for, as it says itself.
    pub(crate) hosts: Vec<String>,
    /// The web pages that it comes from.
    pub(crate) origins: Vec<String>,
    /// The address that the connection was made to.
    pub(crate) own: Option<IpAddr>,
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
    /// The answer to a request that needs no body and no work, or is refused. Such answers are always given, however busy the server is.
    fn check(&self, head: &Head) -> Option<Answer>;

    /// The answer to any other request.
    fn answer(&self, head: Head, body: Bytes) -> impl Future<Output = Answer> + Send;
}

/// Serves until it is dropped.
pub(crate) async fn serve(listener: TcpListener, service: Arc<impl Service>) {
    let waiting = Arc::new(Waiting::default());
    let places = Arc::new(Semaphore::new(REQUESTS));
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely: others are closed meanwhile.
                crate::log::line(format_args!("a connection could not be accepted: {error}"));
                tokio::time::sleep(Duration::from_secs(1)).await;
                continue;
            }
        };
        while connections.try_join_next().is_some() {}
        waiting.enter(|number| {
            let connection = Connection {
                service: Arc::clone(&service),
                places: Arc::clone(&places),
                waiting: Arc::clone(&waiting),
                number,
            };
            connections.spawn(connection.serve(stream))
        });
    }
}

/// The connections whose requests are not there yet, the oldest first.
#[derive(Default)]
struct Waiting(Mutex<(u64, VecDeque<(u64, AbortHandle)>)>);

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, (u64, VecDeque<(u64, AbortHandle)>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection, which is started with its number; the oldest is closed if there are too many.
    fn enter(&self, start: impl FnOnce(u64) -> AbortHandle) {
        let mut waiting = self.lock();
        waiting.0 += 1;
        let number = waiting.0;
        waiting.1.push_back((number, start(number)));
        if waiting.1.len() > WAITING
            && let Some((_, oldest)) = waiting.1.pop_front()
        {
            oldest.abort();
        }
    }

    fn leave(&self, number: u64) {
        self.lock().1.retain(|(other, _)| *other != number);
    }
}

struct Connection<S> {
    service: Arc<S>,
    places: Arc<Semaphore>,
    waiting: Arc<Waiting>,
    number: u64,
}

impl<S: Service> Connection<S> {
    async fn serve(self, stream: TcpStream) {
        let own = stream.local_addr().ok().map(|address| address.ip());
        let this = &self;
        let respond = service_fn(move |request| async move {
            this.waiting.leave(this.number);
            Ok::<_, std::convert::Infallible>(message(this.respond(request, own).await))
        });
        let mut server = http1::Builder::new();
        server.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false).max_buf_size(16 << 10);
        let connection = server.serve_connection(TokioIo::new(stream), respond);
        let _ = tokio::time::timeout(LONGEST, connection).await;
        self.waiting.leave(self.number);
    }

    async fn respond(&self, request: hyper::Request<Body>, own: Option<IpAddr>) -> Answer {
        let (head, body) = request.into_parts();
        let head = head_of(&head, own);
        if let Some(answer) = self.service.check(&head) {
            return answer;
        }
        let Ok(_place) = self.places.try_acquire() else {
            return Answer::text(503, "too many requests are in progress: try again later\n");
        };
        match tokio::time::timeout(BODY, super::client::collect(body, BODY_BYTES)).await {
            Ok(Ok(body)) => self.service.answer(head, body).await,
            Ok(Err(error)) => Answer::text(413, error),
            Err(_) => Answer::text(408, "the body did not come in time"),
        }
    }
}

fn head_of(head: &hyper::http::request::Parts, own: Option<IpAddr>) -> Head {
    let all = |name: HeaderName| -> Vec<String> {
        let values = head.headers.get_all(name).into_iter();
        values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
    };
    let first = |name| all(name).into_iter().next();
    let mut hosts = all(header::HOST);
    hosts.extend(head.uri.authority().map(ToString::to_string));
    Head {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        media: first(header::CONTENT_TYPE).unwrap_or_default(),
        authorization: first(header::AUTHORIZATION),
        hosts,
        origins: all(header::ORIGIN),
        own,
    }
}

fn message(answer: Answer) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(answer.media));
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    struct Echo;

    impl Service for Echo {
        fn check(&self, head: &Head) -> Option<Answer> {
            (head.path == "/healthz").then(|| Answer::text(200, "ok"))
        }

        async fn answer(&self, _head: Head, body: Bytes) -> Answer {
            Answer::text(200, String::from_utf8_lossy(&body))
        }
    }

    async fn server() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(serve(listener, Arc::new(Echo)));
        address
    }

    /// Opens connections that send this and no more.
    async fn open(address: SocketAddr, count: usize, text: &str) -> Vec<TcpStream> {
        let mut streams = Vec::new();
        for _ in 0..count {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            streams.push(stream);
        }
        streams
    }

    /// The first line of the answer, and its body. What takes longer than this was not answered at once.
    async fn send(address: SocketAddr, text: &str) -> (String, String) {
        let exchange = async {
            let mut stream = open(address, 1, text).await.remove(0);
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default().to_owned();
            (answer.lines().next().unwrap_or_default().to_owned(), body)
        };
        tokio::time::timeout(Duration::from_secs(8), exchange).await.expect("it is answered at once")
    }

    const HEALTH: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const POST: &str = "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc";

    #[tokio::test]
    async fn connections_that_say_nothing_keep_nobody_out() {
        let address = server().await;
        for beginning in ["", "POST / HTTP/1.1\r\nHost: loc"] {
            let _silent = open(address, 140, beginning).await;
            assert_eq!(send(address, HEALTH).await, ("HTTP/1.1 200 OK".to_owned(), "ok".to_owned()));
            assert_eq!(send(address, POST).await, ("HTTP/1.1 200 OK".to_owned(), "abc".to_owned()));
        }
    }

    #[tokio::test]
    async fn requests_without_an_end_leave_room_for_health() {
        let address = server().await;
        let _unfinished = open(address, 140, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\na").await;
        assert_eq!(send(address, HEALTH).await.1, "ok");
        assert_eq!(send(address, POST).await.0, "HTTP/1.1 503 Service Unavailable");
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_ends_the_connection() {
        let address = server().await;
        for beginning in ["", "POST / HTTP/1.1\r\nHost: loc"] {
            let began = tokio::time::Instant::now();
            let mut silent = open(address, 1, beginning).await.remove(0);
            let _ = silent.read_to_end(&mut Vec::new()).await;
            assert!(began.elapsed() < Duration::from_mins(1), "{beginning}: {:?}", began.elapsed());
        }
    }
}
