//! Probes against real servers of this machine.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::http::{HeaderMap, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::{Action, Exec, ExecError, ExecOutput, HttpGet, NoCommands, Outcome, Probe, check};

/// Accepts connections until the test ends. Returns the port.
async fn listen<F: Future<Output = ()> + Send + 'static>(
    serve: impl Fn(TcpStream) -> F + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            tokio::spawn(serve(listener.accept().await.unwrap().0));
        }
    });
    port
}

/// Answers one request.
async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin, by: fn(&str) -> String) {
    let mut request = vec![0; 4096];
    let length = stream.read(&mut request).await.unwrap_or_default();
    let request = String::from_utf8_lossy(&request[..length]).into_owned();
    // A client that has seen enough hangs up.
    let _ = stream.write_all(by(&request).as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// A port on which nobody listens.
async fn closed() -> u16 {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
}

fn get(port: u16, path: &str) -> HttpGet {
    HttpGet {
        https: false,
        host: "127.0.0.1".into(),
        port,
        path: path.into(),
        headers: vec![("X-A".into(), "b".into())],
        user_agent: "kube-probe/1.35".into(),
    }
}

async fn probe(action: Action) -> Outcome {
    check(&Probe { action, timeout: Duration::from_secs(10) }, &NoCommands).await
}

fn by_path(request: &str) -> String {
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (status, more) = match path {
        "/ok" if request.contains("user-agent: kube-probe/1.35") && request.contains("x-a: b") => {
            ("204 No Content", "")
        }
        "/home" => ("302 Found", "location: /ok\r\n"),
        "/away" => ("302 Found", "location: http://example.com/\r\n"),
        "/round" => ("302 Found", "location: /round\r\n"),
        _ => ("503 Service Unavailable", ""),
    };
    format!("HTTP/1.1 {status}\r\n{more}content-length: 0\r\n\r\n")
}

#[tokio::test]
async fn http_is_judged_by_the_status_and_redirects_are_followed_on_the_same_host() {
    let port = listen(|stream| answer(stream, by_path)).await;
    let table = [
        ("/ok", Outcome::Success),
        ("/home", Outcome::Success),
        ("/away", Outcome::Warning("Probe terminated redirects, Response body: ".into())),
        ("/down", Outcome::Failure("HTTP probe failed with statuscode: 503".into())),
        ("/round", Outcome::Failure(format!("Get \"http://127.0.0.1:{port}/round\": stopped after 10 redirects"))),
    ];
    for (path, expected) in table {
        assert_eq!(probe(Action::Http(get(port, path))).await, expected, "{path}");
    }
    let plain = format!("Get \"https://127.0.0.1:{port}/ok\": http: server gave HTTP response to HTTPS client");
    assert_eq!(probe(Action::Http(HttpGet { https: true, ..get(port, "/ok") })).await, Outcome::Failure(plain));
}

#[tokio::test]
async fn https_is_spoken_with_any_certificate() {
    let pair = rcgen::generate_simple_self_signed(["nobody.example".to_owned()]).unwrap();
    let certificate = CertificateDer::from(pair.cert.der().to_vec());
    let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let port = listen(move |stream| {
        let acceptor = acceptor.clone();
        async move { answer(acceptor.accept(stream).await.unwrap(), by_path).await }
    })
    .await;
    assert_eq!(probe(Action::Http(HttpGet { https: true, ..get(port, "/home") })).await, Outcome::Success);
}

#[tokio::test]
async fn of_a_long_answer_only_the_beginning_is_read() {
    let port = listen(|stream| {
        answer(stream, |_| format!("HTTP/1.1 304 Not Modified\r\nlocation: x\r\n\r\n{}", "a".repeat(1 << 20)))
    })
    .await;
    // A 304 has no body.
    let empty = Outcome::Warning("Probe terminated redirects, Response body: ".into());
    assert_eq!(probe(Action::Http(get(port, "/"))).await, empty);
    let port = listen(|stream| {
        answer(stream, |_| format!("HTTP/1.1 302 Found\r\nlocation: http://a.example/\r\n\r\n{}", "a".repeat(1 << 20)))
    })
    .await;
    let long = Outcome::Warning(format!("Probe terminated redirects, Response body: {}", "a".repeat(10 * 1024)));
    assert_eq!(probe(Action::Http(get(port, "/"))).await, long);
}

#[tokio::test]
async fn as_much_of_an_answer_is_read_as_the_caller_asks_for() {
    for head in ["HTTP/1.1 200 OK\r\ncontent-length: 20000\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"] {
        let port = listen(move |mut stream| async move {
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(format!("{head}{}", "a".repeat(20_000)).as_bytes()).await;
        })
        .await;
        for (longest, read, is_cut) in [(1 << 20, 20_000, false), (20_001, 20_000, false), (19_999, 19_999, true)] {
            let answer = get(port, "/").send_as("GET", None, longest).await.unwrap();
            assert_eq!((answer.body.len(), answer.is_cut), (read, is_cut), "{longest} {head:?}");
        }
    }
}

#[tokio::test]
async fn a_query_may_hold_a_token_and_is_in_no_message() {
    let port = closed().await;
    let error = get(port, "/state?token=secret").send_as("POST", None, 1).await.unwrap_err();
    assert!(error.starts_with(&format!("Get \"http://127.0.0.1:{port}/state\": ")), "{error}");
}

#[test]
fn the_host_has_a_port_where_the_kubelet_names_it_and_where_it_is_not_the_schemes_own() {
    let table = [
        (false, "example.com", 80, "example.com:80", "example.com"),
        (false, "example.com", 8080, "example.com:8080", "example.com:8080"),
        (false, "example.com", 443, "example.com:443", "example.com:443"),
        (true, "::1", 443, "[::1]:443", "[::1]"),
    ];
    for (https, host, port, named, bare) in table {
        let get = HttpGet { https, host: host.into(), ..get(port, "/") };
        assert_eq!((get.host_header(true).as_str(), get.host_header(false).as_str()), (named, bare));
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_reported_in_the_words_of_go() {
    let port = closed().await;
    let host = || "127.0.0.1".to_owned();
    let refused = format!("dial tcp 127.0.0.1:{port}: connect: connection refused");
    assert_eq!(probe(Action::Tcp { host: host(), port }).await, Outcome::Failure(refused.clone()));
    let of_get = format!("Get \"http://127.0.0.1:{port}/\": {refused}");
    assert_eq!(probe(Action::Http(get(port, "/"))).await, Outcome::Failure(of_get));
    let of_grpc =
        format!("timeout: failed to connect service \"127.0.0.1:{port}\" within 10s: context deadline exceeded");
    assert_eq!(probe(Action::Grpc { host: host(), port, service: String::new() }).await, Outcome::Failure(of_grpc));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_in_time_has_failed() {
    let port = listen(|stream| async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
    .await;
    let silent = format!(
        "Get \"http://127.0.0.1:{port}/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    assert_eq!(probe(Action::Http(get(port, "/"))).await, Outcome::Failure(silent));
}

#[tokio::test]
async fn a_connection_is_enough_for_tcp() {
    let port = listen(|_| std::future::ready(())).await;
    assert_eq!(probe(Action::Tcp { host: "127.0.0.1".into(), port }).await, Outcome::Success);
}

/// A gRPC server that gives the status that the service's name asks for.
async fn health(stream: TcpStream) {
    let service = hyper::service::service_fn(|request: hyper::Request<hyper::body::Incoming>| async {
        let asked = request.into_body().collect().await.unwrap().to_bytes();
        let name = String::from_utf8_lossy(asked.get(7..).unwrap_or_default()).into_owned();
        let (message, code) = match name.as_str() {
            "down" => (vec![0x08, 2], "0"),
            "silent" => (vec![], "0"),
            "unknown" => (vec![], "12"),
            "long" => (vec![0; 1 << 16], "0"),
            _ => (vec![0x08, 1], "0"),
        };
        let mut body = BytesMut::new();
        body.put_u8(0);
        body.put_u32(u32::try_from(message.len()).unwrap());
        body.put_slice(&message);
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static(code));
        let body = Full::new(body.freeze()).with_trailers(std::future::ready(Some(Ok::<_, Infallible>(trailers))));
        Ok::<_, Infallible>(hyper::Response::new(body))
    });
    let _ = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[tokio::test]
async fn grpc_is_judged_by_the_health_protocol() {
    let port = listen(health).await;
    let table = [
        ("", Ok(())),
        ("up", Ok(())),
        ("down", Err("service unhealthy (responded with \"NOT_SERVING\")")),
        ("silent", Err("service unhealthy (responded with \"UNKNOWN\")")),
        ("unknown", Err("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): ")),
        ("long", Err("error: health rpc probe failed: length limit exceeded")),
    ];
    for (service, expected) in table {
        let action = Action::Grpc { host: "127.0.0.1".into(), port, service: service.into() };
        let expected = expected.map_or_else(|why| Outcome::Failure(why.to_owned()), |()| Outcome::Success);
        assert_eq!(probe(action).await, expected, "{service:?}");
    }
}

/// Commands that end as their first word says, and are counted.
#[derive(Default)]
struct Commands(std::sync::atomic::AtomicU32);

impl Exec for Commands {
    async fn exec(&self, command: &[String], timeout: Duration) -> Result<ExecOutput, ExecError> {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match command[0].as_str() {
            "true" => Ok(ExecOutput::default()),
            "false" => Ok(ExecOutput { code: 1, output: Bytes::from("x".repeat(20_000)) }),
            "slow" => Err(ExecError::TimedOut(format!("timed out after {}s", timeout.as_secs()))),
            _ => Err(ExecError::Failed("no such file".to_owned())),
        }
    }
}

#[tokio::test]
async fn commands_are_run_by_the_caller_and_errors_are_tried_again() {
    let table = [
        ("true", Outcome::Success, 1),
        ("false", Outcome::Failure("x".repeat(10 * 1024)), 1),
        ("slow", Outcome::Failure("timed out after 5s".to_owned()), 1),
        ("missing", Outcome::Error("no such file".to_owned()), 3),
    ];
    for (command, expected, times) in table {
        let commands = Commands::default();
        let probe = Probe { action: Action::Exec { command: vec![command.into()] }, timeout: Duration::from_secs(5) };
        assert_eq!(check(&probe, &commands).await, expected, "{command}");
        assert_eq!(commands.0.into_inner(), times, "{command}");
    }
}
