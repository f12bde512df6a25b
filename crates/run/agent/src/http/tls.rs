//! Whom the agent trusts on the network.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;

/// Where distributions keep the roots of the public web.
const ROOTS: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
];

/// Trusts the roots of this file alone.
pub(crate) fn trusting(file: &Path) -> Result<TlsConnector, String> {
    let read = CertificateDer::pem_file_iter(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(connector_with(read.filter_map(Result::ok)))
}

/// Trusts the roots of the system: those of `SSL_CERT_FILE`, or of where distributions keep them. Without any, nobody is trusted.
pub(crate) fn connector() -> TlsConnector {
    let own = std::env::var_os("SSL_CERT_FILE");
    let mut files = own.iter().map(Path::new).chain(ROOTS.iter().map(Path::new));
    let roots = files.find_map(|file| CertificateDer::pem_file_iter(file).ok());
    connector_with(roots.into_iter().flatten().filter_map(Result::ok))
}

fn connector_with(roots: impl Iterator<Item = CertificateDer<'static>>) -> TlsConnector {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(roots);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = match ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions() {
        Ok(builder) => builder.with_root_certificates(store).with_no_client_auth(),
        // The default versions are those of the default provider.
        Err(error) => unreachable!("{error}"),
    };
    TlsConnector::from(Arc::new(config))
}
