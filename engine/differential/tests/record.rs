//! What is recorded is what kube-apiserver answers.

use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ListParams};
use pillion_differential::{check, connect, corpus, own_corpus};

#[tokio::test]
async fn the_record_is_what_the_real_server_says() -> anyhow::Result<()> {
    let client = connect(None).await?;
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
    assert!(
        nodes.items.is_empty(),
        "controllers and nodes write too: run this with `cargo xtask cluster run --control-plane-only -- …`"
    );
    let report = check(&client, &corpus(&own_corpus())?, &own_corpus(), &[]).await?;
    assert!(report.is_good() && report.unmet.is_empty(), "{report}\n{:?}", report.unmet);
    Ok(())
}
