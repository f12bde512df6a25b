//! Certificates that somebody else keeps in a folder.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pillion_manager::{Certificates, Config, ControllerName, Manager};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::time::sleep;

use crate::{Cluster, URL};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/pillion";

/// Writes a certificate of a new authority, as cert-manager does. Returns the authority.
fn write(folder: &Path) -> String {
    let key = KeyPair::generate().unwrap();
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = parameters.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(parameters, key);
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["pillion.invalid".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    for (name, text) in
        [("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem()), ("ca.crt", authority.clone())]
    {
        std::fs::write(folder.join(name), text).unwrap();
    }
    authority.trim().to_owned()
}

/// What API servers are to trust.
async fn bundle(cluster: &Cluster) -> String {
    let configuration = cluster.get(MUTATING).await;
    let bundle = configuration["webhooks"][0]["clientConfig"]["caBundle"].as_str().unwrap();
    String::from_utf8(STANDARD.decode(bundle).unwrap()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_new_authority_in_the_folder_is_trusted_before_it_is_needed_and_the_old_one_for_a_while() {
    let cluster = Cluster::new().await;
    cluster.namespace("pillion-system", serde_json::json!({})).await;
    let folder = tempfile::tempdir().unwrap();
    let first = write(folder.path());
    let certificates = Certificates::Folder(folder.path().to_owned());
    let manager = Manager::new(Config { certificates, parts: vec![ControllerName::Webhook], ..cluster.config() });
    cluster.server.register_webhook(URL, manager.webhooks());
    manager.start().await.unwrap();
    let running = tokio::spawn({
        let manager = manager.clone();
        async move { manager.run().await }
    });
    sleep(Duration::from_secs(30)).await;
    assert_eq!(bundle(&cluster).await.trim(), first);

    let second = write(folder.path());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(bundle(&cluster).await.trim(), format!("{first}\n{second}"), "other replicas still serve the first");
    // A file that cannot be used leaves everything as it is.
    std::fs::write(folder.path().join("tls.crt"), "nothing").unwrap();
    sleep(Duration::from_mins(1)).await;
    assert_eq!(bundle(&cluster).await.trim(), format!("{first}\n{second}"));

    let third = write(folder.path());
    sleep(Duration::from_mins(70)).await;
    assert_eq!(bundle(&cluster).await.trim(), third);
    running.abort();
}
