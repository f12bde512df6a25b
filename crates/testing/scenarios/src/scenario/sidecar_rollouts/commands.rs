//! `pillion rollout` over a real cluster.

use anyhow::ensure;
use pillion_cluster::image::{PAUSE, SHELL};
use serde_json::{Value, json};

use super::super::installation::commands::pillion_prints;
use super::super::managed::{home, managed};
use super::super::with;
use super::{condition_is, pods, rolled_out, set_image, sleeper, with_image};
use crate::Namespace;

/// Every command: what is reported is so, and what is asked for happens.
pub async fn the_command_line_follows_and_changes_a_rollout(namespace: &Namespace) -> anyhow::Result<()> {
    managed(namespace, async |namespace| {
        rolled_out(namespace, 2, json!({"updateStrategy": {"maxUnavailable": 1}})).await?;
        let (set, home) = (namespace.name(), home(namespace));
        let rollout = async |arguments: &[&str]| {
            pillion_prints(&[&["rollout"], arguments, &["--revisions-namespace", &home]].concat()).await
        };

        // A plan writes nothing.
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("new.yaml");
        let spec = json!({
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace.name()}},
            "selector": {"matchLabels": {"mesh": "on"}},
            "containers": [with(sleeper("proxy"), json!({"image": PAUSE}))],
        });
        let new = json!({"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": set}, "spec": spec});
        std::fs::write(&file, new.to_string())?;
        let plan = rollout(&["plan", "-f", &file.to_string_lossy(), "-o", "json"]).await?;
        ensure!(serde_json::from_str::<Value>(&plan)?[0]["podsToUpdate"] == 2, "the plan is {plan}");
        ensure!(with_image(namespace, SHELL).await? == 2, "the plan has changed pods");

        rollout(&["pause", set]).await?;
        set_image(namespace, PAUSE).await?;
        condition_is(namespace, "Blocked", "Paused").await?;
        let status: Value = serde_json::from_str(&rollout(&["status", set, "-o", "json"]).await?)?;
        ensure!(status.to_string().contains("Paused"), "the status is {status}");
        rollout(&["resume", set]).await?;
        rollout(&["status", set, "-w", "--timeout", "150"]).await?;
        ensure!(with_image(namespace, PAUSE).await? == 2, "the rollout is complete, and not every pod is updated");

        let history = rollout(&["history", set]).await?;
        ensure!(history.contains(SHELL) && history.contains(PAUSE), "the history does not say what changed: {history}");
        rollout(&["undo", set]).await?;
        rollout(&["status", set, "-w", "--timeout", "150"]).await?;
        ensure!(with_image(namespace, SHELL).await? == 2, "it was not undone");

        let uids = async || -> anyhow::Result<Vec<_>> {
            Ok(pods(namespace).await?.into_iter().filter_map(|pod| pod.metadata.uid).collect())
        };
        let before = uids().await?;
        rollout(&["restart", set, "--yes", "--timeout", "150"]).await?;
        let after = uids().await?;
        ensure!(!after.iter().any(|uid| before.contains(uid)), "{before:?} became {after:?}");
        Ok(())
    })
    .await
}
