//! One client for all servers: HTTP/1.1 over TLS, a connection each, kept alive.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, USER_AGENT};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::client::ConfigExt as _;
use kube::config::{KubeConfigOptions, Kubeconfig};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Where the load goes, and who sends it.
#[derive(Clone)]
pub struct Target {
    authority: String,
    server_name: ServerName<'static>,
    tls: TlsConnector,
    authorization: Option<HeaderValue>,
}

pub struct Connection {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

impl Target {
    /// The server and the credentials of a kubeconfig.
    pub async fn of(kubeconfig: &Path) -> anyhow::Result<Target> {
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let mut tls = config.rustls_client_config()?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let authority = config.cluster_url.authority().context("the server has an address")?;
        // Written out as a kubeconfig, a secret is a text.
        let authorization = match serde_json::to_value(&config.auth_info)?["token"].as_str() {
            Some(token) => Some(HeaderValue::try_from(format!("Bearer {token}"))?),
            None => None,
        };
        Ok(Target {
            server_name: ServerName::try_from(authority.host().to_owned())?,
            authority: authority.to_string(),
            tls: TlsConnector::from(Arc::new(tls)),
            authorization,
        })
    }

    /// A server on a port of loopback, whose certificate is signed by an authority that is given as PEM.
    pub fn on_loopback(port: u16, authority: &str) -> anyhow::Result<Target> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots.add(certificate?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Target {
            authority: format!("127.0.0.1:{port}"),
            server_name: ServerName::try_from("127.0.0.1")?,
            tls: TlsConnector::from(Arc::new(tls)),
            authorization: None,
        })
    }

    /// The same server, for somebody who has the credentials of the other.
    #[must_use]
    pub fn with_credentials_of(mut self, other: &Target) -> Target {
        self.authorization.clone_from(&other.authorization);
        self
    }

    /// The line of a request that says who sends it.
    pub fn authorization_line(&self) -> String {
        let value = self.authorization.as_ref().and_then(|value| value.to_str().ok());
        value.map_or_else(String::new, |value| format!("authorization: {value}\r\n"))
    }

    pub async fn connect(&self) -> anyhow::Result<Connection> {
        let stream = self.tls().await?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Connection { target: self.clone(), sender })
    }

    /// A connection without TLS.
    pub async fn tcp(&self) -> anyhow::Result<TcpStream> {
        Ok(TcpStream::connect(&self.authority).await?)
    }

    /// A connection without HTTP.
    pub async fn tls(&self) -> anyhow::Result<TlsStream<TcpStream>> {
        let stream = self.tcp().await?;
        stream.set_nodelay(true)?;
        Ok(self.tls.connect(self.server_name.clone(), stream).await?)
    }

    /// Several connections, all open.
    pub async fn connect_many(&self, count: usize) -> anyhow::Result<Vec<Connection>> {
        let mut connections = Vec::new();
        for _ in 0..count {
            connections.push(self.connect().await?);
        }
        Ok(connections)
    }
}

impl Connection {
    /// Sends a request and returns when its answer begins. One that the server is too busy for is sent again, when it says.
    pub async fn open(&mut self, method: &Method, path: &str, body: &Bytes) -> anyhow::Result<Response<Incoming>> {
        loop {
            let mut request = Request::new(Full::new(body.clone()));
            *request.method_mut() = method.clone();
            *request.uri_mut() = path.parse()?;
            let headers = request.headers_mut();
            headers.insert(HOST, HeaderValue::try_from(&self.target.authority)?);
            headers.insert(USER_AGENT, HeaderValue::from_static("pillion-engine-load"));
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            headers.extend(self.target.authorization.iter().map(|value| (AUTHORIZATION, value.clone())));
            self.sender.ready().await?;
            let response = self.sender.send_request(request).await?;
            if response.status() != StatusCode::TOO_MANY_REQUESTS {
                return Ok(response);
            }
            response.into_body().collect().await?;
            TURNED_AWAY.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }

    /// Sends a request and reads the whole answer, whatever it is.
    pub async fn ask(&mut self, method: &Method, path: &str, body: &Bytes) -> anyhow::Result<(StatusCode, Bytes)> {
        let response = self.open(method, path, body).await?;
        let status = response.status();
        Ok((status, response.into_body().collect().await?.to_bytes()))
    }

    /// Sends a request that must succeed.
    pub async fn must(&mut self, method: &Method, path: &str, body: &Bytes) -> anyhow::Result<Bytes> {
        match self.ask(method, path, body).await? {
            (status, answer) if status.is_success() => Ok(answer),
            (status, answer) => bail!("{method} {path}: {status}: {}", String::from_utf8_lossy(&answer)),
        }
    }
}

/// How often a server was too busy.
static TURNED_AWAY: AtomicUsize = AtomicUsize::new(0);

/// How often a server was too busy since the last time that this was asked.
pub fn turned_away() -> usize {
    TURNED_AWAY.swap(0, Ordering::Relaxed)
}

/// Posts `count` objects from as many clients as are given, each as fast as it is answered.
pub async fn post_all(
    target: &Target,
    clients: usize,
    path: &str,
    count: usize,
    body: impl Fn(usize) -> Bytes + Send + Sync + 'static,
) -> anyhow::Result<Duration> {
    let connections = target.connect_many(clients).await?;
    let (body, next, path) = (Arc::new(body), Arc::new(AtomicUsize::new(0)), Arc::<str>::from(path));
    let begin = Instant::now();
    let mut tasks = JoinSet::new();
    for mut connection in connections {
        let (body, next, path) = (body.clone(), next.clone(), path.clone());
        tasks.spawn(async move {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= count {
                    return anyhow::Ok(());
                }
                connection.must(&Method::POST, &path, &body(index)).await?;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(begin.elapsed())
}

/// The text between `start` and the next quote: enough to take a version or a token out of an answer without reading it all.
pub fn text_after<'a>(answer: &'a [u8], start: &str) -> Option<&'a str> {
    let at = answer.windows(start.len()).position(|window| window == start.as_bytes())? + start.len();
    let rest = answer.get(at..)?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_ends_with_the_next_quote() {
        let answer = br#"{"metadata":{"resourceVersion":"12","continue":"abc"}}"#;
        assert_eq!(text_after(answer, r#""resourceVersion":""#), Some("12"));
        assert_eq!(text_after(answer, r#""uid":""#), None);
    }
}
