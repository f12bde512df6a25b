//! HTTP requests.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Empty};
use hyper::Method;
use hyper::body::Body as _;
use hyper::client::conn::http1;
use hyper::header::{ACCEPT, CONNECTION, HOST, HeaderName, HeaderValue, LOCATION, USER_AGENT};
use hyper_util::rt::TokioIo;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::action::{HttpGet, address};
use crate::outcome::LONGEST_OUTPUT;
use crate::tcp::dial_error;

/// What a server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The beginning of the body.
    pub body: Bytes,
    /// Whether the body goes on after that.
    pub is_cut: bool,
    location: Option<String>,
}

/// No more redirects are followed.
const REDIRECTS: usize = 10;

/// How a request is sent.
struct Manner {
    method: Method,
    /// No more of a body is read.
    longest: usize,
    /// Whether `Host` has the port also if it is the scheme's own.
    names_port: bool,
}

impl HttpGet {
    /// Sends the request as the kubelet does. Redirects on the same host are followed, others are the answer.
    ///
    /// # Errors
    /// There is no answer within `timeout`; in the words of Go's client.
    pub async fn send(&self, timeout: Option<Duration>) -> Result<Answer, String> {
        self.send_in(Manner { method: Method::GET, longest: LONGEST_OUTPUT, names_port: true }, timeout).await
    }

    /// Sends the request as a URL is asked: with another method, and without a body. No more than `longest` bytes of the answer are read. Only
    /// redirects of GET and HEAD are followed.
    ///
    /// # Errors
    /// There is no answer within `timeout`, or this is no method.
    pub async fn send_as(&self, method: &str, timeout: Option<Duration>, longest: usize) -> Result<Answer, String> {
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| error.to_string())?;
        self.send_in(Manner { method, longest, names_port: false }, timeout).await
    }

    async fn send_in(&self, manner: Manner, timeout: Option<Duration>) -> Result<Answer, String> {
        let answer = follow(self.clone(), &manner);
        let answer = match timeout {
            None => answer.await,
            Some(timeout) => tokio::time::timeout(timeout, answer).await.unwrap_or_else(|_| {
                Err("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned())
            }),
        };
        answer.map_err(|error| format!("Get \"{}\": {error}", self.url()))
    }

    /// For messages, which others read: without the query, which may hold a token.
    fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        let path = self.path.split('?').next().unwrap_or_default();
        format!("{scheme}://{}{path}", address(&self.host, self.port))
    }

    pub(crate) fn host_header(&self, names_port: bool) -> String {
        let address = address(&self.host, self.port);
        let implied = if self.https { ":443" } else { ":80" };
        match address.strip_suffix(implied) {
            Some(host) if !names_port => host.to_owned(),
            _ => address,
        }
    }

    /// The request that a redirect asks for, if it stays on the same host.
    fn redirected(&self, location: &str) -> Option<HttpGet> {
        let mut next = self.clone();
        if let Some(rest) = location.strip_prefix("http://").or_else(|| location.strip_prefix("https://")) {
            next.https = location.starts_with("https://");
            let (authority, path) = rest.find('/').map_or((rest, "/"), |at| rest.split_at(at));
            let uri: hyper::http::uri::Authority = authority.parse().ok()?;
            next.port = uri.port_u16().unwrap_or(if next.https { 443 } else { 80 });
            path.clone_into(&mut next.path);
            (uri.host().trim_matches(['[', ']']) == self.host).then_some(next)
        } else if location.starts_with('/') && !location.starts_with("//") {
            location.clone_into(&mut next.path);
            Some(next)
        } else {
            None
        }
    }
}

async fn follow(mut request: HttpGet, manner: &Manner) -> Result<Answer, String> {
    for _ in 0..REDIRECTS {
        let answer = once(&request, manner).await?;
        let followed = (300..400).contains(&answer.status) && manner.method.is_safe();
        let next = answer.location.as_deref().filter(|_| followed);
        match next.and_then(|location| request.redirected(location)) {
            Some(next) => request = next,
            None => return Ok(answer),
        }
    }
    Err(format!("stopped after {REDIRECTS} redirects"))
}

async fn once(request: &HttpGet, manner: &Manner) -> Result<Answer, String> {
    let address = address(&request.host, request.port);
    let stream = TcpStream::connect(&address).await.map_err(|error| dial_error(&address, &error))?;
    if !request.https {
        return exchange(stream, request, manner).await;
    }
    let name = ServerName::try_from(request.host.clone()).map_err(|error| error.to_string())?;
    let stream = TLS.connect(name, stream).await.map_err(|error| {
        // What comes back from a server without TLS is no TLS record.
        let plain = error.to_string().contains("InvalidMessage") || error.to_string().contains("corrupt message");
        if plain { "http: server gave HTTP response to HTTPS client".to_owned() } else { error.to_string() }
    })?;
    exchange(stream, request, manner).await
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: &HttpGet,
    manner: &Manner,
) -> Result<Answer, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let exchange = async {
        let response = sender.send_request(message(request, manner)?).await.map_err(|error| sentence(&error))?;
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (status, mut body) = (response.status().as_u16(), response.into_body());
        let (mut read, mut is_cut) = (BytesMut::new(), false);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| sentence(&error))?;
            let Some(data) = frame.data_ref() else { continue };
            let room = manner.longest - read.len();
            read.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() >= room {
                is_cut = data.len() > room || !body.is_end_stream();
                break;
            }
        }
        Ok(Answer { status, body: read.freeze(), is_cut, location })
    };
    tokio::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        // The connection has ended, and with it the exchange is about to.
        _ = connection => exchange.await,
    }
}

fn message(request: &HttpGet, manner: &Manner) -> Result<hyper::Request<Empty<Bytes>>, String> {
    let message = hyper::Request::builder().method(manner.method.clone()).uri(request.path.as_str());
    let mut message = message.body(Empty::new()).map_err(|error| error.to_string())?;
    let headers = message.headers_mut();
    for (name, value) in &request.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?;
        let value = HeaderValue::try_from(value.as_str()).map_err(|error| error.to_string())?;
        headers.append(name, value);
    }
    let text = |text: &str| HeaderValue::try_from(text).map_err(|error| error.to_string());
    if !headers.contains_key(HOST) {
        headers.insert(HOST, text(&request.host_header(manner.names_port))?);
    }
    if !headers.contains_key(USER_AGENT) {
        headers.insert(USER_AGENT, text(&request.user_agent)?);
    }
    match headers.get(ACCEPT) {
        None => drop(headers.insert(ACCEPT, HeaderValue::from_static("*/*"))),
        Some(value) if value.is_empty() => drop(headers.remove(ACCEPT)),
        Some(_) => {}
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(message)
}

fn sentence(error: &hyper::Error) -> String {
    if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() }
}

static TLS: LazyLock<TlsConnector> = LazyLock::new(|| {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
    let versions = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = match versions {
        Ok(builder) => builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth(),
        // The default versions are those of the default provider.
        Err(error) => unreachable!("{error}"),
    };
    TlsConnector::from(Arc::new(config))
});

/// Takes every certificate: a probe asks whether a server answers, not who it is.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
