//! What a server on a port needs: a certificate for itself, a token for its owner, and the kubeconfig that holds both.

use std::io::Write as _;
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde_json::json;

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// The certificate could not be made.
    #[error("cannot make a certificate")]
    Certificate(#[from] rcgen::Error),
    /// The operating system gave no randomness.
    #[error("cannot make a token: the system gives no random bytes")]
    Random,
    /// A file could not be read or written.
    #[error("cannot read or write {path}", path = .0.display())]
    File(PathBuf, #[source] std::io::Error),
}

/// A server's certificate and its owner's token.
#[derive(Clone)]
pub struct Credentials {
    /// The authority that clients trust, as PEM.
    pub authority: String,
    /// The server's certificate, as PEM.
    pub certificate: String,
    /// The certificate's key, as PEM.
    pub key: String,
    /// Who has it owns the cluster.
    pub token: String,
}

impl Credentials {
    /// New ones, for a server at this address and at the names that pods know it by.
    pub fn generate(address: SocketAddr) -> Result<Credentials, CredentialsError> {
        let mut authority = CertificateParams::default();
        authority.distinguished_name.push(DnType::CommonName, "pillion");
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority_key = KeyPair::generate()?;
        let authority_pem = authority.self_signed(&authority_key)?.pem();
        let issuer = Issuer::new(authority, authority_key);

        let names =
            ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost", "127.0.0.1", "10.96.0.1"];
        let names: Vec<String> =
            names.iter().map(|name| (*name).to_owned()).chain([address.ip().to_string()]).collect();
        let mut server = CertificateParams::new(names)?;
        server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = server.signed_by(&key, &issuer)?.pem();

        let mut random = [0_u8; 32];
        SystemRandom::new().fill(&mut random).map_err(|_| CredentialsError::Random)?;
        Ok(Credentials {
            authority: authority_pem,
            certificate,
            key: key.serialize_pem(),
            token: URL_SAFE_NO_PAD.encode(random),
        })
    }

    /// A kubeconfig for the server at this address. JSON is YAML.
    pub fn kubeconfig(&self, address: SocketAddr) -> String {
        let name = "pillion";
        let kubeconfig = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {
                "server": format!("https://{address}"),
                "certificate-authority-data": STANDARD.encode(&self.authority),
            }}],
            "users": [{"name": name, "user": {"token": self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        });
        format!("{kubeconfig:#}\n")
    }

    /// Writes the kubeconfig so that only its owner can read it.
    pub fn write_kubeconfig(&self, path: &Path, address: SocketAddr) -> Result<(), CredentialsError> {
        let failed = |error| CredentialsError::File(path.to_owned(), error);
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(failed)?;
        file.write_all(self.kubeconfig(address).as_bytes()).map_err(failed)
    }
}
