//! The cluster's certificate authority, and a certificate for everybody who talks to the API server or is talked to.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};
use serde_json::json;

use crate::components::{KUBERNETES_USERS, NODE_NAME};
use crate::folder::{self, Folder};
use crate::network::{KUBERNETES_SERVICE, NODE_ADDRESS};

/// Makes the authority, all certificates, the key that service account tokens are signed with, and the kubeconfigs.
pub(crate) fn create(folder: &Folder, server: (Ipv4Addr, u16)) -> anyhow::Result<()> {
    let authority = authority(folder, "ca", "kubernetes")?;
    let front_proxy = self::authority(folder, "front-proxy-ca", "front-proxy")?;
    let service_account = KeyPair::generate()?;
    write_private(&folder.pki("service-account.key"), &service_account.serialize_pem())?;
    write_private(&folder.pki("service-account.pub"), &service_account.public_key_pem())?;

    let names: Vec<String> = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
        .into_iter()
        .map(str::to_owned)
        .chain([server.0, KUBERNETES_SERVICE, Ipv4Addr::LOCALHOST].iter().map(ToString::to_string))
        .collect();
    server_certificate(folder, &authority, "kube-apiserver", &names)?;
    server_certificate(folder, &authority, "kubelet-server", &[NODE_NAME.to_owned(), NODE_ADDRESS.to_string()])?;
    client_certificate(folder, &front_proxy, "front-proxy-client", "front-proxy-client", None)?;
    for (name, user, group) in KUBERNETES_USERS {
        client_certificate(folder, &authority, name, user, group)?;
        let path = if name == "admin" { folder.kubeconfig() } else { folder.kubeconfig_of(name) };
        write_private(&path, &kubeconfig(folder, name, server))?;
    }
    Ok(())
}

fn authority(folder: &Folder, file: &str, name: &str) -> anyhow::Result<Issuer<'static, KeyPair>> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    write(folder, file, &parameters.self_signed(&key)?, &key)?;
    Ok(Issuer::new(parameters, key))
}

fn server_certificate(
    folder: &Folder,
    authority: &Issuer<'_, KeyPair>,
    file: &str,
    names: &[String],
) -> anyhow::Result<()> {
    let mut parameters = CertificateParams::new(names)?;
    parameters.distinguished_name.push(DnType::CommonName, file);
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    signed(folder, authority, file, parameters)
}

/// Kubernetes takes the common name as the user and the organization as the group.
fn client_certificate(
    folder: &Folder,
    authority: &Issuer<'_, KeyPair>,
    file: &str,
    user: &str,
    group: Option<&str>,
) -> anyhow::Result<()> {
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name.push(DnType::CommonName, user);
    if let Some(group) = group {
        parameters.distinguished_name.push(DnType::OrganizationName, group);
    }
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    signed(folder, authority, file, parameters)
}

fn signed(
    folder: &Folder,
    authority: &Issuer<'_, KeyPair>,
    file: &str,
    mut parameters: CertificateParams,
) -> anyhow::Result<()> {
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    write(folder, file, &parameters.signed_by(&key, authority)?, &key)
}

fn write(folder: &Folder, file: &str, certificate: &rcgen::Certificate, key: &KeyPair) -> anyhow::Result<()> {
    let path = folder.pki(&format!("{file}.crt"));
    folder::write(&path, certificate.pem())?;
    write_private(&folder.pki(&format!("{file}.key")), &key.serialize_pem())
}

fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// JSON is YAML, so this is a kubeconfig.
fn kubeconfig(folder: &Folder, name: &str, server: (Ipv4Addr, u16)) -> String {
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": "pillion-test", "cluster": {
            "server": format!("https://{}:{}", server.0, server.1),
            "certificate-authority": folder.pki("ca.crt"),
        }}],
        "users": [{ "name": name, "user": {
            "client-certificate": folder.pki(&format!("{name}.crt")),
            "client-key": folder.pki(&format!("{name}.key")),
        }}],
        "contexts": [{ "name": "pillion-test", "context": { "cluster": "pillion-test", "user": name }}],
        "current-context": "pillion-test",
    });
    format!("{kubeconfig:#}\n")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn everybody_has_a_certificate_and_nobody_else_can_read_a_key() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = Folder::at(temporary.path().join("cluster")).unwrap();
        folder.create().unwrap();
        create(&folder, (Ipv4Addr::LOCALHOST, 6443)).unwrap();
        let kubeconfig: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(folder.kubeconfig()).unwrap()).unwrap();
        assert_eq!(kubeconfig["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
        for (name, ..) in KUBERNETES_USERS {
            let certificate = fs::read_to_string(folder.pki(&format!("{name}.crt"))).unwrap();
            assert!(certificate.starts_with("-----BEGIN CERTIFICATE-----"));
        }
        let keys = fs::read_dir(folder.path().join("pki")).unwrap().map(|entry| entry.unwrap().path());
        let keys: Vec<_> = keys.filter(|path| path.extension().is_some_and(|extension| extension == "key")).collect();
        assert_eq!(keys.len(), KUBERNETES_USERS.len() + 6);
        for key in keys {
            assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", key.display());
        }
    }
}
