//! A server on a real port, and clients that do not behave.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::routing::{get, post};
use pillion_serve::{Bounds, Handle, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinHandle;

const GET: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
const GET_SLOW: &str = "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n";

/// A server whose `/slow` answers when `release` lets it.
struct Served {
    address: SocketAddr,
    handle: Handle,
    serving: JoinHandle<()>,
    asked: Arc<Semaphore>,
    release: Arc<Semaphore>,
}

fn serve(bounds: Bounds) -> Served {
    let (asked, release) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (reported, awaited) = (Arc::clone(&asked), Arc::clone(&release));
    let slow = async move || {
        reported.add_permits(1);
        awaited.acquire().await.unwrap().forget();
        "done"
    };
    let router = Router::new()
        .route("/healthz", get(async || "ok"))
        .route("/slow", get(slow))
        .route("/upload", post(async |body: Bytes| body.len().to_string()));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Server::new(listener, router).unwrap().with_bounds(bounds);
    let (address, handle) = (server.address().unwrap(), server.handle());
    Served { address, handle, serving: tokio::spawn(server.run()), asked, release }
}

impl Served {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    /// A connection that waits for the answer of `/slow`.
    async fn slow(&self) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(GET_SLOW.as_bytes()).await.unwrap();
        self.asked.acquire().await.unwrap().forget();
        stream
    }
}

async fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream.write_all(request.as_bytes()).await.unwrap();
    answer(stream).await
}

async fn answer(stream: &mut TcpStream) -> String {
    let mut buffer = vec![0; 4096];
    let length = stream.read(&mut buffer).await.unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

/// Returns when the server has closed the connection, whatever it sent before.
async fn closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A reset is an end as well.
    let _ = stream.read_to_end(&mut rest).await;
}

#[tokio::test]
async fn idle_connections_do_not_lock_others_out() {
    let served = serve(Bounds { connections: 4, ..Bounds::default() });
    let mut idle = Vec::new();
    for _ in 0..100 {
        idle.push(served.connect().await);
    }
    assert!(ask(&mut served.connect().await, GET).await.ends_with("ok"));
    for stream in &mut idle[..90] {
        closed(stream).await;
    }
}

#[tokio::test]
async fn a_connection_that_is_being_answered_is_not_closed_to_make_room() {
    let served = serve(Bounds { connections: 2, ..Bounds::default() });
    let mut slow = served.slow().await;
    for _ in 0..10 {
        assert!(ask(&mut served.connect().await, GET).await.ends_with("ok"));
    }
    served.release.add_permits(1);
    assert!(answer(&mut slow).await.ends_with("done"));
}

#[tokio::test]
async fn a_client_that_sends_no_whole_request_is_closed_in_time() {
    let served = serve(Bounds { request: Duration::from_millis(500), ..Bounds::default() });
    let starts = ["", "GET /healthz HTT", "POST /upload HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nabc"];
    for start in starts {
        let mut stream = served.connect().await;
        stream.write_all(start.as_bytes()).await.unwrap();
        closed(&mut stream).await;
    }
    let mut kept = served.connect().await;
    assert!(ask(&mut kept, GET).await.ends_with("ok"), "what answers is not closed");
}

#[tokio::test]
async fn a_connection_without_requests_is_closed_in_time() {
    let served = serve(Bounds { idle: Duration::from_millis(50), ..Bounds::default() });
    let mut stream = served.connect().await;
    assert!(ask(&mut stream, GET).await.ends_with("ok"));
    closed(&mut stream).await;
}

#[tokio::test]
async fn a_server_that_stops_answers_what_it_was_asked_and_accepts_no_more() {
    let served = serve(Bounds::default());
    let mut slow = served.slow().await;
    let mut idle = served.connect().await;
    assert!(ask(&mut idle, GET).await.ends_with("ok"));
    served.handle.stop(Duration::from_mins(1));
    closed(&mut idle).await;
    served.release.add_permits(1);
    assert!(answer(&mut slow).await.ends_with("done"));
    served.serving.await.unwrap();
    assert!(TcpStream::connect(served.address).await.is_err());
}

#[tokio::test]
async fn a_server_that_is_about_to_stop_says_with_each_answer_that_it_is_the_last() {
    let served = serve(Bounds::default());
    let mut stream = served.connect().await;
    assert!(!ask(&mut stream, GET).await.contains("connection: close"));
    served.handle.drain();
    let last = ask(&mut stream, GET).await;
    assert!(last.contains("connection: close") && last.ends_with("ok"), "{last}");
    closed(&mut stream).await;
    assert!(ask(&mut served.connect().await, GET).await.ends_with("ok"), "it still accepts");
}

#[tokio::test]
async fn a_connection_that_was_just_opened_is_answered_although_the_server_stops() {
    let served = serve(Bounds::default());
    // The server has accepted both when it answers the second one.
    let mut new = served.connect().await;
    assert!(ask(&mut served.connect().await, GET).await.ends_with("ok"));
    served.handle.stop(Duration::from_mins(1));
    tokio::task::yield_now().await;
    assert!(ask(&mut new, GET).await.ends_with("ok"));
    served.serving.await.unwrap();
}

#[tokio::test]
async fn requests_that_take_longer_than_the_grace_are_ended() {
    let served = serve(Bounds::default());
    let mut slow = served.slow().await;
    served.handle.stop(Duration::ZERO);
    served.serving.await.unwrap();
    closed(&mut slow).await;
}

/// A server with TLS, and the certificate to trust.
fn serve_tls(
    make: impl Fn(&str, &str) -> Result<Arc<rustls::ServerConfig>, pillion_serve::CertificateError>,
    bounds: Bounds,
) -> (SocketAddr, rustls::pki_types::CertificateDer<'static>) {
    let key = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let config = make(&key.cert.pem(), &key.signing_key.serialize_pem()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let router = Router::new().route("/healthz", get(async || "ok"));
    let server = Server::new(listener, router).unwrap().with_tls(watch::channel(config).1).with_bounds(bounds);
    let address = server.address().unwrap();
    tokio::spawn(server.run());
    (address, key.cert.der().clone())
}

/// Offers these protocols and sends this. Returns the protocol that was agreed on, and the start of the answer.
async fn offer(
    (address, certificate): &(SocketAddr, rustls::pki_types::CertificateDer<'static>),
    protocols: &[&str],
    request: &str,
) -> (Option<String>, String) {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut start = Vec::new();
    // A connection that is closed without an answer is an answer as well.
    let _ = (&mut stream).take(12).read_to_end(&mut start).await;
    let agreed = stream.get_ref().1.alpn_protocol().map(|protocol| String::from_utf8_lossy(protocol).into_owned());
    (agreed, String::from_utf8_lossy(&start).into_owned())
}

#[tokio::test]
async fn http_2_is_spoken_where_both_sides_agree_to_it() {
    const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let both = serve_tls(pillion_serve::tls, Bounds::default());
    let (agreed, start) = offer(&both, &["h2", "http/1.1"], PREFACE).await;
    assert_eq!(agreed.as_deref(), Some("h2"));
    assert!(start.starts_with("\0\0"), "a frame of HTTP/2, not {start:?}");
    let one = serve_tls(pillion_serve::tls_http1, Bounds::default());
    let (http1, ok) = (Some("http/1.1".to_owned()), "HTTP/1.1 200".to_owned());
    assert_eq!(offer(&both, &["http/1.1"], GET).await, (http1.clone(), ok.clone()));
    assert_eq!(offer(&one, &["h2", "http/1.1"], GET).await, (http1, ok.clone()));
    assert_eq!(offer(&one, &[], GET).await, (None, ok));
    for server in [&both, &one] {
        let (agreed, start) = offer(server, &[], PREFACE).await;
        assert_eq!((agreed, start.as_str()), (None, ""));
    }
}

#[tokio::test]
async fn what_is_not_tls_is_closed() {
    let bounds = Bounds { request: Duration::from_millis(50), ..Bounds::default() };
    let (address, _) = serve_tls(pillion_serve::tls, bounds);
    for bytes in [GET.as_bytes(), b"\x16\x03\x01\xff\xff", b""] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(bytes).await.unwrap();
        closed(&mut stream).await;
    }
}
