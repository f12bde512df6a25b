//! kill -9 at every step of an update: after a restart the file is wholly old or wholly new, and the result says which.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::{Value, json};
use support::{Agent, Cluster, Site, eventually, sha256};

const OLD: &str = "the old file";
const NEW: &str = "the new file, which is longer";

/// One update that is killed.
#[derive(Clone, Copy, Debug)]
struct Case {
    /// The fault points at which the agents die, one after another; the last one lives.
    steps: &'static [&'static str],
    app: App,
    /// Whether the file is an archive, which is asked for without a checksum.
    archive: bool,
    /// Whether there is an old file.
    has_old: bool,
}

/// What the main process makes of the new file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum App {
    Works,
    /// The old file comes back.
    Fails,
    /// It has not been started yet when the agent comes back, and reads the file when it is.
    NotRunning,
}

const PLAIN: Case = Case { steps: &[], app: App::Works, archive: false, has_old: true };

impl Case {
    fn config(&self, site: &Site, files: &std::path::Path) -> String {
        format!(
            "listen: 127.0.0.1:0\nrequireChecksum: {}\nallowedHosts: ['{}']\nplugins:\n- name: hot_update\n  config:\n    fileDir: {}\n    unpack: true\n    loadPatchType: signal\n    signal: {{processName: 'nginx: master process nginx', signalName: SIGHUP}}\n    verify: {{url: '{}', withinSeconds: 1}}\n    storageConfig: {{type: InKube, inKube: {{annotationKey: result}}}}\n",
            !self.archive,
            site.host(),
            files.display(),
            site.url("/health")
        )
    }

    fn bytes(&self, content: &str) -> Vec<u8> {
        if !self.archive {
            return content.into();
        }
        let mut builder = tar::Builder::new(Vec::new());
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(content.len() as u64);
        builder.append_data(&mut header, "deep/app.conf", content.as_bytes()).unwrap();
        builder.into_inner().unwrap()
    }

    fn form(&self, site: &Site, version: &str, content: &str) -> String {
        let url = site.url(&format!("/{version}"));
        if self.archive {
            return format!("version={version}&url={url}&file=app.tar");
        }
        format!("version={version}&url={url}&file=app.conf&sha256={}", sha256(content.as_bytes()))
    }

    fn read(&self, agent: &Agent) -> Option<String> {
        let path = if self.archive { "app/deep/app.conf" } else { "app.conf" };
        std::fs::read_to_string(agent.files().join(path)).ok()
    }

    /// Makes the update, and returns the file and what the result says of it once the last agent has finished.
    async fn run(self) -> (Option<String>, Value) {
        let (cluster, site) = (Cluster::start().await, Site::start().await);
        site.set("/v1", 200, self.bytes(OLD));
        site.set("/v2", 200, self.bytes(NEW));
        site.set("/health", 200, "");
        let mut folder = tempfile::tempdir().unwrap();
        let config = self.config(&site, &folder.path().join("files"));
        let old = self.has_old.then_some(OLD);
        if self.has_old {
            let agent = Agent::start_in(folder, &cluster, &config, "");
            let (status, text) = agent.post(&self.form(&site, "v1", OLD)).await;
            assert_eq!(status, 200, "{self:?}: {text}");
            cluster.entry(|entry| entry["version"] == "v1").await;
            folder = agent.into_folder();
        }
        site.set("/health", if self.app == App::Works { 200 } else { 500 }, "");
        for (number, step) in self.steps.iter().enumerate() {
            // The first dies during the request, the others during the recovery, perhaps before they listen.
            let mut agent = if number == 0 {
                let agent = Agent::start_in(folder, &cluster, &config, step);
                let said = if self.has_old { "v1: Update success" } else { "" };
                agent.until(|status| status["plugins"][0]["message"] == said).await;
                agent.post(&self.form(&site, "v2", NEW)).await;
                agent
            } else {
                Agent::spawn(folder, &cluster, &config, step)
            };
            agent.ended().await;
            let now = self.read(&agent);
            assert!(now.as_deref() == old || now.as_deref() == Some(NEW), "{self:?} {step}: at its death: {now:?}");
            folder = agent.into_folder();
        }
        let hups = std::fs::read_to_string(folder.path().join("hups")).unwrap_or_default();
        if self.app == App::NotRunning {
            std::fs::write(folder.path().join("alone"), "").unwrap();
        }
        let agent = Agent::start_in(folder, &cluster, &config, "");
        let stays = self.app != App::Fails;
        let said = if stays { "v2: Update success" } else { "v2: Failed" };
        if stays || self.has_old {
            cluster.entry(|entry| entry["result"].as_str().is_some_and(|result| result.starts_with(said))).await;
        }
        agent
            .until(|status| status["plugins"][0]["message"].as_str().is_some_and(|message| message.starts_with(said)))
            .await;
        if !stays && self.has_old {
            // Whatever the neighbour has read before, it is asked for the old file last.
            agent.rereads(hups.lines().count(), OLD).await;
        }
        let left =
            eventually(async || (!agent.files().join(".pillion-agent/journal.json").exists()).then_some(())).await;
        left.expect("nothing is under way any more");
        let entry = cluster.get(support::RESULTS).await["data"]["web-0"].clone();
        (self.read(&agent), serde_json::from_str(entry.as_str().unwrap_or("null")).unwrap())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_update_is_finished_after_the_restart() {
    for steps in [
        &["journaled"][..],
        &["fetching"],
        &["fetched"],
        &["staged"],
        &["exchanged"],
        &["reloaded"],
        &["verified"],
        &["recorded"],
        &["done"],
        // Killed again while it recovers.
        &["staged", "exchanged", "verified"],
    ] {
        let (file, entry) = Case { steps, ..PLAIN }.run().await;
        assert_eq!((file.as_deref(), entry["version"].as_str()), (Some(NEW), Some("v2")), "{steps:?}");
        let expected = (json!(sha256(NEW.as_bytes())), json!(NEW.len()));
        assert_eq!((&entry["sha256"], &entry["size"]), (&expected.0, &expected.1), "{steps:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_update_of_an_archive_or_of_the_first_file_is_finished_after_the_restart() {
    for (steps, archive, has_old) in
        [(&["unpacked"][..], true, true), (&["exchanged"], true, true), (&["exchanged"], false, false)]
    {
        let case = Case { steps, archive, has_old, ..PLAIN };
        let (file, entry) = case.run().await;
        assert_eq!(file.as_deref(), Some(NEW), "{case:?}");
        let bytes = case.bytes(NEW);
        assert_eq!((&entry["sha256"], &entry["size"]), (&json!(sha256(&bytes)), &json!(bytes.len())), "{case:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_update_that_does_not_work_is_rolled_back_after_the_restart() {
    for steps in [&["staged"][..], &["exchanged"], &["reloaded"]] {
        let (file, entry) = Case { steps, app: App::Fails, ..PLAIN }.run().await;
        assert_eq!((file.as_deref(), entry["version"].as_str()), (Some(OLD), Some("v1")), "{steps:?}");
    }
    let (file, entry) = Case { steps: &["exchanged"], app: App::NotRunning, ..PLAIN }.run().await;
    assert_eq!((file.as_deref(), entry["version"].as_str()), (Some(NEW), Some("v2")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_rollback_is_finished_after_the_restart() {
    for steps in [&["failed"][..], &["rolled-back"], &["failed", "rolled-back"]] {
        let (file, entry) = Case { steps, app: App::Fails, ..PLAIN }.run().await;
        assert_eq!((file.as_deref(), entry["version"].as_str()), (Some(OLD), Some("v1")), "{steps:?}");
    }
    let (file, entry) = Case { steps: &["failed"], app: App::Fails, has_old: false, ..PLAIN }.run().await;
    assert_eq!((file, entry), (None, Value::Null), "there was no file before");
}
