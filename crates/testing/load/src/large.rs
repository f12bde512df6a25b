//! What it costs the manager to hold a large cluster, and what one more event costs in it.
//!
//! ```text
//!  serve (a child) ◀─ SidecarSets, revisions ─▶ manage (a child), until it has written what is missing
//!                  ◀─ pods                   ─▶ manage again: memory, processor time, events, validation
//! ```

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use hyper::Method;
use pillion_engine_load::client::{Target, post_all};
use pillion_engine_load::process::Usage;
use pillion_engine_load::server::Server;
use serde_json::json;

use crate::child::{Running, settle, start};
use crate::fill::{REVISIONS, fill, pods, prepared};

/// Events and reviews of each measure.
const EVENTS: usize = 4_000;
const REVIEWS: usize = 10_000;

/// What it costs to hold a large cluster.
#[derive(Args, Clone)]
pub(crate) struct Large {
    /// SidecarSets.
    #[arg(long, default_value_t = 50_000)]
    sets: usize,
    /// ControllerRevisions of each.
    #[arg(long, default_value_t = 5)]
    revisions: usize,
    /// How many of them are pinned.
    #[arg(long, default_value_t = 10)]
    pinned: usize,
    /// Pods.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    /// For how long the manager is watched while nothing changes, in seconds.
    #[arg(long, default_value_t = 60)]
    idle: u64,
}

/// What was measured with so many sets.
struct Measured {
    /// With nothing to hold.
    empty: Usage,
    with_sets: Usage,
    ready: Usage,
    with_pods: Usage,
    /// While nothing changed.
    writes: u64,
    idle: Duration,
    /// Processor time of one event and of one validation.
    event: f64,
    validation: f64,
}

impl Large {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let few = Large { sets: self.sets / 10, pods: self.pods / 10, idle: 0, ..self.clone() };
        let (few, many) = (few.measure().await?, self.measure().await?);
        let each = |all: Usage, before: Usage, count: usize| {
            let bytes = all.resident.saturating_sub(before.resident);
            format!("{:.2} KiB", kibibytes(bytes) / f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX)))
        };
        let seconds = |usage: Usage| format!("{:.1} s", usage.processor.as_secs_f64());
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["the manager", "seen", "goal"]);
        let Measured { empty, with_sets, ready, with_pods, .. } = many;
        for (what, seen, goal) in [
            ("memory of a SidecarSet with its revisions", each(with_sets, empty, self.sets), "at most 6 KiB"),
            ("memory of a pod", each(with_pods, with_sets, self.pods), "at most 1 KiB"),
            ("processor time until the webhooks are ready", seconds(ready), ""),
            (
                "processor time until everything is read and looked at, pods included",
                seconds(with_pods),
                "at most 10 s",
            ),
            ("writes while nothing changes", many.writes.to_string(), "0"),
        ] {
            table.add_row([what, &seen, goal]);
        }
        let idle = format!("processor time in {} s while nothing changes", self.idle);
        table.add_row([idle, format!("{:.2} s", many.idle.as_secs_f64()), String::new()]);
        for (what, few, many) in [
            ("a ControllerRevision that changes", few.event, many.event),
            ("validating one more SidecarSet", few.validation, many.validation),
        ] {
            let growth = format!("{:.0} µs, {:.2} × that among a tenth", many * 1e6, many / few);
            table.add_row([what, &growth, "flat"]);
        }
        println!("{table}");
        Ok(())
    }

    async fn measure(&self) -> anyhow::Result<Measured> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("empty"))?;
        // A server of its own: where webhooks are registered and gone, no SidecarSet can be written.
        let empty = {
            let server = Server::embedded("embedded", &folder.path().join("empty"), None)?;
            fill(&Target::of(&server.kubeconfig).await?, 0, 0, 0).await?;
            settle(&manage(&server.kubeconfig)?).await?
        };
        let server = Server::embedded("embedded", folder.path(), None)?;
        let target = Target::of(&server.kubeconfig).await?;
        eprintln!("{} SidecarSets with {} revisions each, {} pinned …", self.sets, self.revisions, self.pinned);
        fill(&target, self.sets, self.revisions.saturating_sub(1), self.pinned).await?;
        // The newest revisions and the statuses are written once; from then on nothing changes.
        settle(&manage(&server.kubeconfig)?).await?;
        let with_sets = settle(&manage(&server.kubeconfig)?).await?;
        eprintln!("{} pods …", self.pods);
        pods(&target, self.pods).await?;
        let manager = manage(&server.kubeconfig)?;
        let ready = manager.usage()?;
        // Pods are read by what leads, which begins when the webhooks are ready.
        let with_pods = settle(&manager).await?;
        let before = version(&target).await?;
        tokio::time::sleep(Duration::from_secs(self.idle)).await;
        let writes = version(&target).await?.saturating_sub(before);
        let idle = manager.usage()?.processor.saturating_sub(with_pods.processor);
        let event = self.event(&manager, &target).await?;
        let validation = self.validation(&manager).await?;
        Ok(Measured { empty, with_sets, ready, with_pods, writes, idle, event, validation })
    }

    /// Seconds of processor time for one ControllerRevision that changes.
    async fn event(&self, manager: &Running, target: &Target) -> anyhow::Result<f64> {
        let before = manager.usage()?.processor;
        let mut connection = target.connect().await?;
        let list = connection.must(&Method::GET, &format!("{REVISIONS}?limit={EVENTS}"), &Bytes::new()).await?;
        let list: serde_json::Value = serde_json::from_slice(&list)?;
        let mut count = 0_u32;
        for item in list["items"].as_array().into_iter().flatten() {
            let mut item = item.clone();
            item["metadata"]["annotations"]["load"] = json!("yes");
            let name = item["metadata"]["name"].as_str().unwrap_or_default();
            let path = format!("{REVISIONS}/{name}");
            connection.must(&Method::PUT, &path, &Bytes::from(item.to_string())).await?;
            count += 1;
        }
        let used = settle(manager).await?.processor.saturating_sub(before);
        Ok(used.as_secs_f64() / f64::from(count.max(1)))
    }

    /// Seconds of processor time for validating one more SidecarSet.
    async fn validation(&self, manager: &Running) -> anyhow::Result<f64> {
        let mut set = prepared(self.sets);
        set.metadata.name = Some("one-more".to_owned());
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "1", "operation": "CREATE", "name": "one-more", "dryRun": true, "object": set, "oldObject": null},
        });
        let body = Bytes::from(review.to_string());
        let target = manager.ready.target()?;
        let before = manager.usage()?.processor;
        post_all(&target, 4, "/validate-sidecarset", REVIEWS, move |_| body.clone()).await?;
        let used = manager.usage()?.processor.saturating_sub(before);
        Ok(used.as_secs_f64() / f64::from(u32::try_from(REVIEWS)?))
    }
}

fn manage(kubeconfig: &Path) -> anyhow::Result<Running> {
    start(&["manage".as_ref(), kubeconfig.as_os_str()])
}

/// The version of the whole store.
async fn version(target: &Target) -> anyhow::Result<u64> {
    let list = target.connect().await?.must(&Method::GET, "/api/v1/namespaces?limit=1", &Bytes::new()).await?;
    let text =
        pillion_engine_load::client::text_after(&list, r#""resourceVersion":""#).context("a list has a version")?;
    Ok(text.parse()?)
}

#[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
fn kibibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
