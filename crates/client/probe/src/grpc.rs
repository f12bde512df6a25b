//! The gRPC health protocol, as much of it as a probe needs.

use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::client::conn::http2;
use hyper::http::HeaderMap;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

use crate::outcome::{LONGEST_OUTPUT, Outcome};

/// Between attempts to connect.
const PAUSE: Duration = Duration::from_millis(100);

/// `UNIMPLEMENTED`
const UNIMPLEMENTED: u32 = 12;

/// The names of `HealthCheckResponse.ServingStatus`, by number.
const STATUSES: [&str; 4] = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"];

/// Asks a server whether a service is healthy.
pub(crate) async fn check(address: &str, service: &str, timeout: Duration) -> Outcome {
    let deadline = tokio::time::Instant::now() + timeout;
    let seconds = timeout.as_secs();
    let Ok(stream) = tokio::time::timeout_at(deadline, connect(address)).await else {
        return Outcome::Failure(format!(
            "timeout: failed to connect service \"{address}\" within {seconds}s: context deadline exceeded"
        ));
    };
    match tokio::time::timeout_at(deadline, ask(stream, address, service)).await {
        Ok(outcome) => outcome,
        Err(_) => Outcome::Failure(format!("timeout: health rpc did not complete within {seconds}s")),
    }
}

/// Tries until there is a connection; the deadline ends it.
async fn connect(address: &str) -> TcpStream {
    loop {
        match TcpStream::connect(address).await {
            Ok(stream) => return stream,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

async fn ask(stream: TcpStream, address: &str, service: &str) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| Outcome::Failure(format!("error: health rpc probe failed: {error}"));
    let request = hyper::Request::post(format!("http://{address}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.35")
        .body(Full::new(message(service)));
    let request = match request {
        Ok(request) => request,
        Err(error) => return failed(&error),
    };
    let (mut sender, connection) = match http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await {
        Ok(pair) => pair,
        Err(error) => return failed(&error),
    };
    let exchange = async {
        let response = sender.send_request(request).await?;
        let headers = response.headers().clone();
        let body = Limited::new(response.into_body(), LONGEST_OUTPUT).collect().await?;
        let trailers = body.trailers().cloned().unwrap_or(headers);
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((trailers, body.to_bytes()))
    };
    tokio::pin!(exchange);
    let answer = tokio::select! {
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    };
    match answer {
        Ok((trailers, body)) => judge(&trailers, &body),
        Err(error) => failed(&error),
    }
}

fn judge(trailers: &HeaderMap, body: &[u8]) -> Outcome {
    let text = |name: &str| trailers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (code, said) = (text("grpc-status").parse().unwrap_or(0u32), text("grpc-message"));
    match code {
        0 => {}
        UNIMPLEMENTED => {
            return Outcome::Failure(format!(
                "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): {said}"
            ));
        }
        _ => {
            return Outcome::Failure(format!("error: health rpc probe failed: rpc error: code = {code} desc = {said}"));
        }
    }
    // Five bytes frame the message: field 1 is a number; a message without it says 0.
    let status = match body.get(5..) {
        Some([0x08, number, ..]) => usize::from(*number),
        _ => 0,
    };
    match STATUSES.get(status) {
        Some(&"SERVING") => Outcome::Success,
        Some(name) => Outcome::Failure(format!("service unhealthy (responded with \"{name}\")")),
        None => Outcome::Failure(format!("service unhealthy (responded with \"{status}\")")),
    }
}

/// `HealthCheckRequest { service }`, framed.
fn message(service: &str) -> Bytes {
    let mut inner = BytesMut::new();
    if !service.is_empty() {
        inner.put_u8(0x0a);
        let mut length = service.len();
        while length >= 0x80 {
            inner.put_u8(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
            length >>= 7;
        }
        inner.put_u8(u8::try_from(length).unwrap_or_default());
        inner.put_slice(service.as_bytes());
    }
    let mut framed = BytesMut::with_capacity(inner.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(inner.len()).unwrap_or_default());
    framed.put(inner);
    framed.freeze()
}
