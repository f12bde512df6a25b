//! The webhooks on a TLS port.

use std::net::TcpListener;
use std::sync::Arc;

use axum::Router;
use axum_server::tls_rustls::RustlsConfig;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::watch;

use crate::certificate::Pair;
use crate::error::Error;
use crate::secret;

/// Serves `router` with the certificate that `served` holds, as soon as it holds one. A new one is taken for new connections.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    mut served: watch::Receiver<Option<Arc<Pair>>>,
    namespace: &str,
) -> Result<(), Error> {
    let unusable = |source| Error::Tls { secret: format!("{namespace}/{}", secret::NAME), source };
    // The sender lives as long as the manager, who is being asked.
    let Ok(first) = served.wait_for(Option::is_some).await.map(|first| first.clone()) else { return Ok(()) };
    let Some(first) = first else { return Ok(()) };
    let tls = RustlsConfig::from_config(tls(&first).map_err(unusable)?);
    listener.set_nonblocking(true).map_err(Error::Port)?;
    let server =
        axum_server::from_tcp_rustls(listener, tls.clone()).map_err(Error::Port)?.serve(router.into_make_service());
    let reload = async {
        while served.changed().await.is_ok() {
            let Some(pair) = served.borrow_and_update().clone() else { continue };
            match self::tls(&pair).map_err(unusable) {
                Ok(new) => tls.reload_from_config(new),
                Err(error) => tracing::error!(%error, "the certificate before stays in use"),
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = server => ended.map_err(Error::Port),
        never = reload => never,
    }
}

/// The provider is named here, so that none has to be installed for the whole process.
fn tls(pair: &Pair) -> Result<Arc<ServerConfig>, Box<dyn std::error::Error + Send + Sync>> {
    let certificates = CertificateDer::pem_slice_iter(pair.certificate.as_bytes()).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut config = builder.with_no_client_auth().with_single_cert(certificates, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
