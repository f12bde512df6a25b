//! The embedded API server answers as kube-apiserver did when it was recorded, but for what known.yaml lists.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test that fails says why")]

use kube::Client;
use pillion_apiserver::{ApiServer, Config};
use pillion_differential::{Known, check, corpus, known_differences, own_corpus};

#[tokio::test]
async fn the_embedded_server_answers_as_the_real_one_was_recorded() -> anyhow::Result<()> {
    // The webhooks of the corpus are real servers on loopback.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let server = ApiServer::new(Config::in_memory());
    server.bootstrap().await?;
    let client = Client::new(server.router(), "default");
    let report = check(&client, &corpus(&own_corpus())?, &own_corpus(), &Known::list(&known_differences())?).await?;
    println!("{report}");
    assert!(report.is_good(), "{report}");
    Ok(())
}
