//! The manager under load: what one admission costs, among few and many SidecarSets.
//!
//! ```text
//!  serve (a child) ◀─ SidecarSets, revisions, pods
//!     ▲
//!     └─ manage (a child) ◀─ reviews over HTTPS ─┐
//!        decode (a child) ◀─ the same reviews ───┴─ processor time of each, by /proc
//! ```

use anyhow::Context as _;
use bytes::Bytes;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use hyper::Method;

use crate::child::{Running, settle, start};
use crate::client::{Target, post_all};
use crate::fill::fill;
use crate::manage;
use crate::server::Server;

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
            fill(&Target::of(&server.kubeconfig).await?, *sets, 0, 0).await?;
            let manager = start(&["manage".as_ref(), server.kubeconfig.as_os_str()])?;
            let target = Target::webhook(&manager.ready)?;
            // What it does with new SidecarSets is not what an admission costs.
            settle(&manager).await?;
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

/// The answer to one review.
pub(crate) async fn one(target: &Target) -> anyhow::Result<Bytes> {
    let body = Bytes::from(manage::review().to_string());
    target.connect().await?.must(&Method::POST, "/mutate-pod", &body).await
}

fn microseconds(seconds: f64) -> String {
    format!("{:.0} µs", seconds * 1e6)
}
