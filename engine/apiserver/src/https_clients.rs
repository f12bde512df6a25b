//! Clients for webhooks over HTTPS, each with its connections: to make one for every call would cost a handshake each time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use pillion_clock::Clock;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::time_provider::TimeProvider;

/// So many are kept. A bundle that is changed again and again leaves its predecessors behind.
const CLIENTS: usize = 64;

/// Connections that are not used are closed after this time: before most servers do it.
const IDLE: Duration = Duration::from_secs(30);

pub(crate) type HttpsClient = Client<HttpsConnector<HttpConnector>, Body>;

/// The clients of an API server.
pub(crate) struct HttpsClients {
    clock: Clock,
    known: Mutex<HashMap<Trust, HttpsClient>>,
}

/// What connections have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Trust {
    /// The authority of the configuration, and no other.
    bundle: String,
    /// The name in the certificate, where that is not the host of the URL.
    service: Option<String>,
}

/// Certificates are checked against the clock of the cluster.
#[derive(Debug)]
struct ClusterTime(Clock);

impl TimeProvider for ClusterTime {
    fn current_time(&self) -> Option<UnixTime> {
        let seconds = u64::try_from(self.0.now().as_second()).ok()?;
        Some(UnixTime::since_unix_epoch(Duration::from_secs(seconds)))
    }
}

impl HttpsClients {
    pub(crate) fn new(clock: Clock) -> HttpsClients {
        HttpsClients { clock, known: Mutex::default() }
    }

    /// A client that trusts this `caBundle`, for a certificate of this Service, or of the host in the URL.
    pub(crate) fn client(&self, bundle: &str, service: Option<&str>) -> Result<HttpsClient, String> {
        let trust = Trust { bundle: bundle.to_owned(), service: service.map(str::to_owned) };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = known.get(&trust) {
            return Ok(client.clone());
        }
        let client = trust.client(self.clock)?;
        if known.len() >= CLIENTS {
            known.clear();
        }
        known.insert(trust, client.clone());
        Ok(client)
    }
}

impl Trust {
    fn client(&self, clock: Clock) -> Result<HttpsClient, String> {
        let mut builder = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(self.tls(clock)?).https_only();
        if let Some(service) = &self.service {
            let name = ServerName::try_from(service.clone()).map_err(|error| error.to_string())?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let mut http = HttpConnector::new();
        // A review that is larger than a segment is not held back until its first part has been acknowledged.
        http.set_nodelay(true);
        http.enforce_http(false);
        let connector = builder.enable_http1().wrap_connector(http);
        let mut client = Client::builder(TokioExecutor::new());
        Ok(client.pool_timer(TokioTimer::new()).pool_idle_timeout(IDLE).build(connector))
    }

    fn tls(&self, clock: Clock) -> Result<rustls::ClientConfig, String> {
        let mut roots = rustls::RootCertStore::empty();
        let pem = STANDARD.decode(&self.bundle).map_err(|error| error.to_string())?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_details(provider, Arc::new(ClusterTime(clock)))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        // Like kube-apiserver: a resumed session would not check the certificate again, which may have expired since.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use axum::{Json, Router};
    use serde_json::json;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::sync::watch;

    use crate::config::Config;
    use crate::credentials::Credentials;
    use crate::server::ApiServer;
    use crate::webhook_client::post;

    use super::*;

    /// Passes connections on to a port, and counts them.
    async fn counted(port: u16) -> (u16, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (own, count) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&count);
        tokio::spawn(async move {
            while let Ok((mut near, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::Relaxed);
                let mut far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
            }
        });
        (own, count)
    }

    #[tokio::test]
    async fn calls_of_one_webhook_share_a_connection_until_its_bundle_changes() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let credentials = Credentials::generate(address).unwrap();
        let tls = pillion_serve::tls(&credentials.certificate, &credentials.key).unwrap();
        let answer = async || Json(json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}));
        let webhook = pillion_serve::Server::new(listener, Router::new().fallback(answer)).unwrap();
        tokio::spawn(webhook.with_tls(watch::channel(tls).1).run());
        let (port, connections) = counted(address.port()).await;
        let server = ApiServer::new(Config::in_memory());
        let url = format!("https://127.0.0.1:{port}/mutate");
        for (bundle, expected) in [
            (credentials.authority.clone(), 1),
            (credentials.authority.clone(), 1),
            // As while an authority is succeeded.
            (format!("{0}{0}", credentials.authority), 2),
        ] {
            let config = json!({"url": url, "caBundle": STANDARD.encode(bundle)});
            let answered = post(&server.inner, &config, &json!({}), 10).await.unwrap();
            assert_eq!(answered["kind"], "AdmissionReview");
            assert_eq!(connections.load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn clients_are_not_kept_for_ever() {
        let clients = HttpsClients::new(Clock::system());
        for number in 0..CLIENTS * 3 {
            clients.client("", Some(&format!("s{number}.shop.svc"))).unwrap();
        }
        assert!(clients.known.lock().unwrap().len() <= CLIENTS);
    }
}
