//! The manager under load: what one admission costs, among few and many SidecarSets; and what it costs to hold a large cluster.
//!
//! ```text
//!  serve (a child) ◀─ SidecarSets, revisions, pods
//!     ▲
//!     └─ manage (a child) ◀─ reviews over HTTPS ─┐
//!        decode (a child) ◀─ the same reviews ───┴─ processor time of each, by /proc
//! ```

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use hyper::Method;
use pillion_api::sidecarset::crd::{self, Conversion};
use pillion_api::sidecarset::{self, revision};
use serde_json::json;

use crate::client::{Target, post_all};
use crate::manage::{self, Ready};
use crate::process::{self, Usage};
use crate::server::Server;

const SIDECARSETS: &str = "/apis/apps.kruise.io/v1beta1/sidecarsets";
const REVISIONS: &str = "/apis/apps/v1/namespaces/kruise-system/controllerrevisions";
/// Connections of an API server to a webhook.
const CONNECTIONS: usize = 16;

/// What one admission costs.
#[derive(Args, Clone)]
pub(crate) struct Webhook {
    /// Reviews of each round.
    #[arg(long, default_value_t = 20_000)]
    reviews: usize,
    /// Numbers of SidecarSets.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 50_000])]
    sets: Vec<usize>,
    /// Rounds; the least processor time counts.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

impl Webhook {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut rows = Vec::new();
        let mut answer = None;
        for sets in &self.sets {
            eprintln!("{sets} SidecarSets …");
            let server = Server::embedded("embedded", folder.path(), None)?;
            fill(&Target::of(&server.kubeconfig).await?, *sets, 0).await?;
            let manager = start(&["manage".as_ref(), server.kubeconfig.as_os_str()])?;
            let target = Target::webhook(&manager.ready)?;
            answer.get_or_insert(one(&target).await?);
            rows.push((format!("{sets} SidecarSets"), self.cost(&manager, &target).await?));
        }
        let ready_made = folder.path().join("answer");
        std::fs::write(&ready_made, answer.context("there is a number of SidecarSets")?)?;
        let decoder = start(&["decode".as_ref(), ready_made.as_os_str()])?;
        let plain = self.cost(&decoder, &Target::webhook(&decoder.ready)?).await?;
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "one admission over HTTPS",
            "processor time",
            "against decoding alone",
        ]);
        table.add_row(["decoding, and a ready-made answer".to_owned(), microseconds(plain), "1.00".to_owned()]);
        for (name, cost) in &rows {
            table.add_row([name.clone(), microseconds(*cost), format!("{:.2}", cost / plain)]);
        }
        println!("{table}");
        if let (Some((few, first)), Some((many, last))) = (rows.first(), rows.last()) {
            println!("{many} / {few}: {:.2} (goal: at most 1.2); against decoding alone: at most 1.5", last / first);
        }
        Ok(())
    }

    /// Seconds of processor time of one review.
    async fn cost(&self, server: &Running, target: &Target) -> anyhow::Result<f64> {
        let body = Bytes::from(manage::review().to_string());
        let mut least = f64::MAX;
        for _ in 0..=self.rounds {
            let before = server.usage()?.processor;
            let sent = body.clone();
            post_all(target, CONNECTIONS, "/mutate-pod", self.reviews, move |_| sent.clone()).await?;
            let used = server.usage()?.processor.saturating_sub(before);
            least = least.min(used.as_secs_f64() / f64::from(u32::try_from(self.reviews)?));
        }
        Ok(least)
    }
}

/// What it costs to hold a large cluster.
#[derive(Args, Clone)]
pub(crate) struct Large {
    /// SidecarSets.
    #[arg(long, default_value_t = 50_000)]
    sets: usize,
    /// ControllerRevisions of each.
    #[arg(long, default_value_t = 5)]
    revisions: usize,
    /// Pods.
    #[arg(long, default_value_t = 100_000)]
    pods: usize,
    /// For how long the manager is watched while nothing changes, in seconds.
    #[arg(long, default_value_t = 60)]
    idle: u64,
}

impl Large {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("empty"))?;
        let server = Server::embedded("embedded", folder.path(), None)?;
        let target = Target::of(&server.kubeconfig).await?;
        let kubeconfig = server.kubeconfig.as_os_str();
        // A server of its own: where webhooks are registered and gone, no SidecarSet can be written.
        let empty = {
            let server = Server::embedded("embedded", &folder.path().join("empty"), None)?;
            fill(&Target::of(&server.kubeconfig).await?, 0, 0).await?;
            start(&["manage".as_ref(), server.kubeconfig.as_os_str()])?.usage()?
        };
        eprintln!("{} SidecarSets with {} revisions each …", self.sets, self.revisions);
        fill(&target, self.sets, self.revisions).await?;
        let with_sets = start(&["manage".as_ref(), kubeconfig])?.usage()?;
        eprintln!("{} pods …", self.pods);
        pods(&target, self.pods).await?;
        let manager = start(&["manage".as_ref(), kubeconfig])?;
        let ready = manager.usage()?;
        // Pods are read by what leads, which begins when the webhooks are ready.
        let settled = settle(&manager).await?;
        let version = version(&target).await?;
        tokio::time::sleep(Duration::from_secs(self.idle)).await;
        let writes = self::version(&target).await?.saturating_sub(version);
        let idle = manager.usage()?.processor.saturating_sub(settled.processor);
        let each = |all: u64, before: u64, count: usize| {
            format!(
                "{:.2} KiB",
                kibibytes(all.saturating_sub(before)) / f64::from(u32::try_from(count.max(1)).unwrap_or(u32::MAX))
            )
        };
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header(["the manager", "seen", "goal"]);
        table.add_row([
            "memory of a SidecarSet with its revisions".to_owned(),
            each(with_sets.resident, empty.resident, self.sets),
            "at most 6 KiB".to_owned(),
        ]);
        table.add_row([
            "memory of a pod".to_owned(),
            each(settled.resident, with_sets.resident, self.pods),
            "at most 1 KiB".to_owned(),
        ]);
        table.add_row([
            "processor time until the webhooks are ready".to_owned(),
            format!("{:.1} s", ready.processor.as_secs_f64()),
            String::new(),
        ]);
        table.add_row([
            "processor time until everything is read".to_owned(),
            format!("{:.1} s", settled.processor.as_secs_f64()),
            "at most 10 s".to_owned(),
        ]);
        table.add_row(["writes while nothing changes".to_owned(), writes.to_string(), "0".to_owned()]);
        table.add_row([
            format!("processor time in {} s while nothing changes", self.idle),
            format!("{:.2} s", idle.as_secs_f64()),
            String::new(),
        ]);
        println!("{table}");
        Ok(())
    }
}

/// A child that has said that it is ready. It ends with this value.
struct Running {
    child: Child,
    ready: Ready,
}

impl Running {
    fn usage(&self) -> anyhow::Result<Usage> {
        process::usage(self.child.id())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again.
fn start(arguments: &[&OsStr]) -> anyhow::Result<Running> {
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.args(arguments).stdout(Stdio::piped()).spawn().context("cannot start a child")?;
    let mut said = String::new();
    BufReader::new(child.stdout.take().context("stdout is a pipe")?).read_line(&mut said)?;
    let ready = serde_json::from_str(&said).context("a child ended before it was ready")?;
    Ok(Running { child, ready })
}

/// The answer to one review.
async fn one(target: &Target) -> anyhow::Result<Bytes> {
    let body = Bytes::from(manage::review().to_string());
    target.connect().await?.must(&Method::POST, "/mutate-pod", &body).await
}

/// Puts SidecarSets and their revisions into a server, as they would be there when a manager starts.
async fn fill(target: &Target, sets: usize, revisions: usize) -> anyhow::Result<()> {
    let mut connection = target.connect().await?;
    let definition = Bytes::from(crd::sidecarset(&Conversion::None).to_string());
    connection.ask(&Method::POST, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).await?;
    let namespace = Bytes::from(json!({"metadata": {"name": "kruise-system"}}).to_string());
    connection.ask(&Method::POST, "/api/v1/namespaces", &namespace).await?;
    // A new definition is served a moment later.
    while !connection.ask(&Method::GET, SIDECARSETS, &Bytes::new()).await?.0.is_success() {
        tokio::task::yield_now().await;
    }
    let prepared = |i: usize| {
        let mut set = sidecarset::decode(manage::sidecarset(i)).unwrap_or_default();
        sidecarset::prepare(&mut set);
        set
    };
    post_all(target, CONNECTIONS, SIDECARSETS, sets, move |i| {
        Bytes::from(serde_json::to_vec(&prepared(i)).unwrap_or_default())
    })
    .await?;
    post_all(target, CONNECTIONS, REVISIONS, sets * revisions, move |i| {
        let mut set = prepared(i / revisions.max(1));
        set.metadata.uid = Some(format!("uid-{}", i / revisions.max(1)));
        let number = i % revisions.max(1);
        if let Some(container) = set.spec.containers.first_mut() {
            container.container.insert("image".to_owned(), json!(format!("sidecar:{number}")));
        }
        let revision = revision::new(&set, i64::try_from(number + 1).unwrap_or(1), "kruise-system");
        Bytes::from(revision.to_string())
    })
    .await?;
    Ok(())
}

/// Puts pods into a server: ten of each app, with a sidecar each.
async fn pods(target: &Target, count: usize) -> anyhow::Result<()> {
    let account = Bytes::from(json!({"metadata": {"name": "default"}}).to_string());
    let mut connection = target.connect().await?;
    connection.ask(&Method::POST, "/api/v1/namespaces/default/serviceaccounts", &account).await?;
    post_all(target, CONNECTIONS, "/api/v1/namespaces/default/pods", count, |i| {
        let app = format!("none-{}", i / 10);
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": true});
        let pod = json!({
            "metadata": {"name": format!("{app}-{i}"), "labels": {"app": app}, "ownerReferences": [owner]},
            "spec": {"containers": [{"name": "app", "image": "web:1"}, {"name": "proxy", "image": "proxy:1"}]},
        });
        Bytes::from(pod.to_string())
    })
    .await?;
    Ok(())
}

/// The usage when the process has come to rest.
async fn settle(manager: &Running) -> anyhow::Result<Usage> {
    let mut usage = manager.usage()?;
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let next = manager.usage()?;
        if next.processor.saturating_sub(usage.processor) < Duration::from_millis(50) {
            return Ok(next);
        }
        usage = next;
    }
}

/// The version of the whole store.
async fn version(target: &Target) -> anyhow::Result<u64> {
    let list = target.connect().await?.must(&Method::GET, "/api/v1/namespaces?limit=1", &Bytes::new()).await?;
    let text = crate::client::text_after(&list, r#""resourceVersion":""#).context("a list has a version")?;
    Ok(text.parse()?)
}

fn microseconds(seconds: f64) -> String {
    format!("{:.0} µs", seconds * 1e6)
}

#[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
fn kibibytes(bytes: u64) -> f64 {
    bytes as f64 / 1024.0
}
