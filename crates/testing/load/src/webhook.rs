//! The manager under load: what one admission costs, among few and many SidecarSets.
//!
//! ```text
//!  serve (a child) ◀─ SidecarSets, revisions, pods
//!     ▲
//!     └─ manage (a child) ◀─ reviews over HTTPS ─┐
//!        decode (a child) ◀─ the same reviews ───┴─ processor time of each, by /proc
//! ```

use std::path::Path;

use bytes::Bytes;
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use hyper::Method;
use pillion_engine_load::client::{Target, post_all};
use pillion_engine_load::measure::median;
use pillion_engine_load::server::Server;

use crate::child::{Running, settle, start};
use crate::fill::fill;
use crate::manage;

/// Connections of an API server to a webhook.
const CONNECTIONS: usize = 16;

/// What one admission costs.
#[derive(Args, Clone)]
pub(crate) struct Webhook {
    /// Reviews of each round. Both servers take turns of this many, since a machine is not equally fast all the time.
    #[arg(long, default_value_t = 4_000)]
    reviews: usize,
    /// Numbers of SidecarSets.
    #[arg(long, value_delimiter = ',', default_values_t = [100, 1_000, 50_000])]
    sets: Vec<usize>,
    /// Rounds; the median ratio counts.
    #[arg(long, default_value_t = 40)]
    rounds: usize,
}

impl Webhook {
    pub(crate) async fn run(&self) -> anyhow::Result<()> {
        let folder = tempfile::tempdir()?;
        let mut decoder = None;
        let mut rows = Vec::new();
        for sets in &self.sets {
            eprintln!("{sets} SidecarSets …");
            let server = Server::embedded("embedded", folder.path(), None)?;
            fill(&Target::of(&server.kubeconfig).await?, *sets, 0, 0).await?;
            let manager = start(&["manage".as_ref(), server.kubeconfig.as_os_str()])?;
            let target = manager.ready.target()?;
            // What it does with new SidecarSets is not what an admission costs.
            settle(&manager).await?;
            let decoder = match &decoder {
                Some(decoder) => decoder,
                None => decoder.insert(start_decoder(folder.path(), &one(&target).await?)?),
            };
            rows.push((
                format!("{sets} SidecarSets"),
                self.compare((&manager, &target), (decoder, &decoder.ready.target()?)).await?,
            ));
        }
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "one admission over HTTPS",
            "processor time",
            "decoding, and a ready-made answer",
            "ratio",
        ]);
        for (name, Compared { admission, decoding, ratio }) in &rows {
            table.add_row([name.clone(), microseconds(*admission), microseconds(*decoding), format!("{ratio:.2}")]);
        }
        println!("{table}");
        if let (Some((few, first)), Some((many, last))) = (rows.first(), rows.last()) {
            // Both were compared with the same server at the time.
            let ratio = last.ratio / first.ratio;
            println!("{many} / {few}: {ratio:.2} (goal: at most 1.2); against decoding alone: at most 1.5");
        }
        Ok(())
    }

    /// What one review costs both servers.
    async fn compare(&self, manager: (&Running, &Target), decoder: (&Running, &Target)) -> anyhow::Result<Compared> {
        // In the first round there are connections to be opened and memory to be taken.
        self.cost(manager).await?;
        self.cost(decoder).await?;
        let mut rounds = Vec::new();
        for _ in 0..self.rounds.max(1) {
            rounds.push((self.cost(manager).await?, self.cost(decoder).await?));
        }
        Ok(Compared {
            admission: median(rounds.iter().map(|(admission, _)| *admission).collect()),
            decoding: median(rounds.iter().map(|(_, decoding)| *decoding).collect()),
            ratio: median(rounds.iter().map(|(admission, decoding)| admission / decoding).collect()),
        })
    }

    /// Seconds of processor time of one review.
    async fn cost(&self, (server, target): (&Running, &Target)) -> anyhow::Result<f64> {
        let body = Bytes::from(manage::review().to_string());
        let before = server.usage()?.processor;
        post_all(target, CONNECTIONS, "/mutate-pod", self.reviews, move |_| body.clone()).await?;
        let used = server.usage()?.processor.saturating_sub(before);
        Ok(used.as_secs_f64() / f64::from(u32::try_from(self.reviews)?))
    }
}

/// Seconds of processor time of one review, and how they compare: the medians of all rounds.
struct Compared {
    admission: f64,
    decoding: f64,
    ratio: f64,
}

fn start_decoder(folder: &Path, answer: &[u8]) -> anyhow::Result<Running> {
    let ready_made = folder.join("answer");
    std::fs::write(&ready_made, answer)?;
    start(&["decode".as_ref(), ready_made.as_os_str()])
}

/// The answer to one review.
pub(crate) async fn one(target: &Target) -> anyhow::Result<Bytes> {
    let body = Bytes::from(manage::review().to_string());
    target.connect().await?.must(&Method::POST, "/mutate-pod", &body).await
}

fn microseconds(seconds: f64) -> String {
    format!("{:.0} µs", seconds * 1e6)
}
