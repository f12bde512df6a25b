//! What a probe asks. Names of ports and default hosts are resolved already.

use std::time::Duration;

/// A question, and how long its answer may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// What is asked.
    pub action: Action,
    /// `timeoutSeconds`.
    pub timeout: Duration,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A command succeeds inside the container.
    Exec {
        /// The command and its arguments.
        command: Vec<String>,
    },
    /// A server answers an HTTP request with a status of 200 to 399.
    Http(HttpGet),
    /// A connection can be made.
    Tcp {
        /// A name or an address.
        host: String,
        port: u16,
    },
    /// A server says by `grpc.health.v1.Health` that a service is serving.
    Grpc {
        /// A name or an address.
        host: String,
        port: u16,
        /// The name of the service; may be empty.
        service: String,
    },
}

/// A GET request. Certificates are not verified, and no connection is kept open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpGet {
    /// Whether TLS is spoken.
    pub https: bool,
    /// A name or an address.
    pub host: String,
    pub port: u16,
    /// The path with its query; begins with `/`.
    pub path: String,
    /// Further headers, in order.
    pub headers: Vec<(String, String)>,
    /// `User-Agent`, unless the headers have one.
    pub user_agent: String,
}

/// Host and port as in a URL.
pub(crate) fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}
