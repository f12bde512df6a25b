//! kill -9 at every step of an update: after a restart the file is wholly old or wholly new, and the result says which.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use support::{Agent, Cluster, Site, sha256};

const OLD: &str = "the old file";
const NEW: &str = "the new file, which is longer";

fn config(site: &Site, files: &std::path::Path) -> String {
    format!(
        "listen: 127.0.0.1:0\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    loadPatchType: signal\n    signal: {{processName: 'nginx: master process nginx', signalName: SIGHUP}}\n    verify: {{url: '{}', withinSeconds: 1}}\n    storageConfig: {{type: InKube, inKube: {{annotationKey: result}}}}\n",
        site.host(),
        files.display(),
        site.url("/health")
    )
}

fn form(site: &Site, version: &str, content: &str) -> String {
    format!(
        "version={version}&url={}&file=app.conf&sha256={}",
        site.url(&format!("/{version}")),
        sha256(content.as_bytes())
    )
}

async fn killed_at(step: &str, works: bool) -> (String, serde_json::Value) {
    let (cluster, site) = (Cluster::start().await, Site::start().await);
    site.set("/v1", 200, OLD);
    site.set("/v2", 200, NEW);
    site.set("/health", 200, "");
    let folder = tempfile::tempdir().unwrap();
    let config = config(&site, &folder.path().join("files"));
    let agent = Agent::start_in(folder, &cluster, &config, "");
    let (status, text) = agent.post(&form(&site, "v1", OLD)).await;
    assert_eq!(status, 200, "{step}: {text}");
    cluster.entry(|entry| entry["version"] == "v1").await;

    site.set("/health", if works { 200 } else { 500 }, "");
    let mut agent = Agent::start_in(agent.into_folder(), &cluster, &config, step);
    agent.until(|status| status["plugins"][0]["message"] == "v1: Update success").await;
    agent.post(&form(&site, "v2", NEW)).await;
    agent.ended().await;
    let now = std::fs::read_to_string(agent.files().join("app.conf")).unwrap();
    assert!(now == OLD || now == NEW, "{step}: at the moment of its death: {now:?}");

    let agent = Agent::start_in(agent.into_folder(), &cluster, &config, "");
    let said = if works { "v2: Update success" } else { "v2: Failed" };
    let entry = cluster.entry(|entry| entry["result"].as_str().is_some_and(|result| result.starts_with(said))).await;
    let file = std::fs::read_to_string(agent.files().join("app.conf")).unwrap();
    (file, entry)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_update_is_finished_after_the_restart() {
    for step in ["journaled", "fetching", "fetched", "staged", "exchanged", "reloaded", "verified", "recorded", "done"]
    {
        let (file, entry) = killed_at(step, true).await;
        assert_eq!((file.as_str(), entry["version"].as_str()), (NEW, Some("v2")), "{step}");
        assert_eq!(entry["sha256"], sha256(NEW.as_bytes()), "{step}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_rollback_is_finished_after_the_restart() {
    for step in ["failed", "rolled-back"] {
        let (file, entry) = killed_at(step, false).await;
        assert_eq!((file.as_str(), entry["version"].as_str()), (OLD, Some("v1")), "{step}");
    }
}
