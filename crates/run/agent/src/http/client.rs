//! One request, one connection: the agent sends few.

use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONNECTION, CONTENT_TYPE, HOST, HeaderName, HeaderValue, USER_AGENT};
use hyper::{Method, Response};
use hyper_util::rt::TokioIo;
use pillion_assist::Url;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: Vec<(String, String)>,
    /// With its media type.
    pub(crate) body: Option<(&'static str, Bytes)>,
}

/// Makes connections.
#[derive(Clone)]
pub(crate) struct Connector {
    tls: TlsConnector,
    /// Refuses what a name of the network has been made to lead to: this machine, and what only its neighbours reach.
    public_only: bool,
}

impl Connector {
    pub(crate) fn new(tls: TlsConnector) -> Connector {
        Connector { tls, public_only: false }
    }

    /// For names that others have chosen.
    pub(crate) fn public_only(mut self, public_only: bool) -> Connector {
        self.public_only = public_only;
        self
    }

    /// Sends a request, and returns when the head of the answer is there.
    pub(crate) async fn send(&self, request: Request) -> Result<Response<Incoming>, String> {
        let url = request.url.clone();
        let stream = self.connect(&url).await.map_err(|error| format!("{}: {error}", url.authority()))?;
        if !url.https {
            return exchange(stream, request).await;
        }
        let name = ServerName::try_from(url.host.clone()).map_err(|error| error.to_string())?;
        let stream = self.tls.connect(name, stream).await.map_err(|error| format!("{}: {error}", url.authority()))?;
        exchange(stream, request).await
    }

    async fn connect(&self, url: &Url) -> Result<TcpStream, String> {
        let addresses =
            tokio::net::lookup_host((url.host.as_str(), url.port)).await.map_err(|error| error.to_string())?;
        // An address that was written as such was allowed as such.
        let written = url.host.parse::<IpAddr>().is_ok() || url.host == "localhost";
        let fine = |address: &SocketAddr| !self.public_only || written || !is_private(address.ip());
        let mut last = "the name leads nowhere".to_owned();
        for address in addresses {
            if !fine(&address) {
                last = format!("the name leads to {}, which only this machine and its neighbours reach", address.ip());
                continue;
            }
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = error.to_string(),
            }
        }
        Err(last)
    }
}

/// Loopback, link-local (where clouds keep credentials of machines) and unspecified addresses.
fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_loopback() || ip.is_link_local() || ip.is_unspecified(),
        IpAddr::V6(ip) => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unicast_link_local()
                || ip.to_ipv4_mapped().is_some_and(|ip| is_private(IpAddr::V4(ip)))
        }
    }
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request,
) -> Result<Response<Incoming>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    sender.send_request(message(request)?).await.map_err(|error| error.to_string())
}

fn message(request: Request) -> Result<hyper::Request<Full<Bytes>>, String> {
    let (media, body) = match request.body {
        Some((media, body)) => (Some(media), body),
        None => (None, Bytes::new()),
    };
    let builder = hyper::Request::builder().method(request.method).uri(request.url.path.as_str());
    let mut message = builder.body(Full::new(body)).map_err(|error| error.to_string())?;
    let headers = message.headers_mut();
    let text = |text: &str| HeaderValue::try_from(text).map_err(|error| error.to_string());
    for (name, value) in &request.headers {
        headers.append(HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?, text(value)?);
    }
    headers.entry(HOST).or_insert(text(&host(&request.url))?);
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(concat!("pillion-agent/", env!("CARGO_PKG_VERSION"))));
    if let Some(media) = media {
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    Ok(message)
}

/// `Host` without the port that the scheme implies: what signs a URL signs it so.
fn host(url: &Url) -> String {
    let authority = url.authority();
    let implied = if url.https { ":443" } else { ":80" };
    authority.strip_suffix(implied).unwrap_or(&authority).to_owned()
}

/// The next piece of a body; `None` at its end.
pub(crate) async fn read(body: &mut Incoming) -> Result<Option<Bytes>, String> {
    loop {
        match body.frame().await {
            None => return Ok(None),
            Some(Err(error)) => return Err(error.to_string()),
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Ok(Some(data));
                }
            }
        }
    }
}

/// A whole body, if it is not longer than this.
pub(crate) async fn collect(mut body: Incoming, longest: usize) -> Result<Bytes, String> {
    let mut whole = BytesMut::new();
    while let Some(data) = read(&mut body).await? {
        if whole.len() + data.len() > longest {
            return Err(format!("the body is longer than {longest} bytes"));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_has_a_port_only_if_it_is_not_the_schemes_own() {
        let table = [
            ("https://bucket.example.com/x?sig=y", "bucket.example.com"),
            ("https://bucket.example.com:443/x", "bucket.example.com"),
            ("http://example.com:80", "example.com"),
            ("http://example.com:443", "example.com:443"),
            ("http://example.com:8080", "example.com:8080"),
            ("http://[::1]/x", "[::1]"),
            ("http://[::80]:8080/x", "[::80]:8080"),
        ];
        for (url, expected) in table {
            let request =
                Request { method: Method::GET, url: Url::parse(url).unwrap(), headers: Vec::new(), body: None };
            assert_eq!(message(request).unwrap().headers()[HOST], expected, "{url}");
        }
    }

    #[test]
    fn addresses_that_only_neighbours_reach_are_known() {
        for text in ["127.0.0.1", "127.9.9.9", "169.254.169.254", "0.0.0.0", "::1", "::", "fe80::1", "::ffff:127.0.0.1"]
        {
            assert!(is_private(text.parse().unwrap()), "{text}");
        }
        for text in ["10.0.0.1", "93.184.216.34", "2606:4700::1"] {
            assert!(!is_private(text.parse().unwrap()), "{text}");
        }
    }
}
