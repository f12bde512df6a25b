//! Connections.

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;

use crate::outcome::Outcome;

pub(crate) async fn check(address: &str, timeout: Duration) -> Outcome {
    match tokio::time::timeout(timeout, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(dial_error(address, &error)),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}

/// A connection that could not be made, in the words of Go's net package.
pub(crate) fn dial_error(address: &str, error: &io::Error) -> String {
    let what = match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        _ => error.to_string(),
    };
    format!("dial tcp {address}: {what}")
}
