//! The certificate that a server shows.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// Why a certificate cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// The certificate or its key is missing, or is not PEM.
    #[error("the {what} is not PEM")]
    Pem {
        /// Which of the two.
        what: &'static str,
        /// What is wrong with it.
        source: pem::Error,
    },
    /// The certificate and its key cannot be used, or do not belong together.
    #[error("the certificate cannot be served with its key")]
    Unusable(#[source] rustls::Error),
}

/// A server's side of TLS with this certificate chain and key, both as PEM; HTTP/2 is preferred.
///
/// # Errors
/// They cannot be read, or do not belong together.
pub fn tls(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, CertificateError> {
    config(certificate, key, &["h2", "http/1.1"])
}

/// As [`tls`], without HTTP/2, so that a connection has at most one request under way.
///
/// # Errors
/// They cannot be read, or do not belong together.
pub fn tls_http1(certificate: &str, key: &str) -> Result<Arc<ServerConfig>, CertificateError> {
    config(certificate, key, &["http/1.1"])
}

fn config(certificate: &str, key: &str, protocols: &[&str]) -> Result<Arc<ServerConfig>, CertificateError> {
    let chain = CertificateDer::pem_slice_iter(certificate.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|source| CertificateError::Pem { what: "certificate", source })?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|source| CertificateError::Pem { what: "key", source })?;
    // The provider is named here, so that none has to be installed for the whole process.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(CertificateError::Unusable)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_with_another_key_is_refused() {
        let make = || rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (one, two) = (make(), make());
        let (certificate, key) = (one.cert.pem(), one.signing_key.serialize_pem());
        tls(&certificate, &key).unwrap();
        assert!(matches!(tls(&certificate, &two.signing_key.serialize_pem()), Err(CertificateError::Unusable(_))));
        assert!(matches!(tls(&certificate, "no key"), Err(CertificateError::Pem { what: "key", .. })));
        assert!(matches!(tls("", &key), Err(CertificateError::Unusable(_))));
    }
}
