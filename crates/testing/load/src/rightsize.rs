//! What a pass of the recommender costs: processor time, memory and writes, over few and many containers, beside upstream's
//! recommender over the same objects; and what the updater writes.
//!
//! ```text
//!  an API server in memory with pods, ReplicaSets and autoscalers, and usage that is flat or noisy
//!      ◀─ HTTP ─▶ a recommender, ours or upstream's, as a process of its own ─▶ /proc, and what is written
//! ```

mod fleet;
pub(crate) mod recommender;
mod updates;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use clap::Args;
use comfy_table::{Table, presets::UTF8_HORIZONTAL_ONLY};
use jiff::{SignedDuration, Timestamp};

use self::fleet::Fleet;
use self::recommender::{Recommended, Whose};

/// How many containers.
#[derive(Args, Clone)]
pub(crate) struct Rightsize {
    /// Containers in all; a tenth of it is measured first, for the growth of the cost.
    #[arg(long, default_value_t = 100_000)]
    containers: usize,
    /// Without upstream's recommender, which is built from its Go module the first time.
    #[arg(long)]
    alone: bool,
}

/// What one size took.
struct Taken {
    fleet: Fleet,
    containers: usize,
    pass: Duration,
    memory: u64,
    writes: u64,
}

impl Taken {
    #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
    fn per_container(&self, amount: f64) -> f64 {
        amount / self.containers as f64
    }

    #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
    fn row(&self, whose: &str) -> [String; 7] {
        [
            whose.to_owned(),
            self.fleet.name().to_owned(),
            self.containers.to_string(),
            format!("{:.0} ms", self.pass.as_secs_f64() * 1e3),
            format!("{:.1} µs", self.per_container(self.pass.as_secs_f64()) * 1e6),
            format!("{:.2} KiB", self.per_container(self.memory as f64) / 1024.0),
            self.writes.to_string(),
        ]
    }
}

impl Rightsize {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let mut compared = None;
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "recommender",
            "fleet",
            "containers",
            "a pass, processor time",
            "of each container",
            "memory of each container",
            "writes of a pass",
        ]);
        let small = self.containers / 10;
        let start = Timestamp::from_second(Timestamp::now().as_second())? - SignedDuration::from_hours(1);
        let mut measure = |whose: &Whose, containers: usize, fleet: Fleet| -> anyhow::Result<(Taken, Recommended)> {
            let name = if matches!(whose, Whose::Ours) { "ours" } else { "upstream" };
            eprintln!("{containers} containers, {} usage, {name} …", fleet.name());
            // Each has a runtime and an API server of its own, which end with it.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            let (taken, recommended) = runtime.block_on(recommender::measure(whose, containers, fleet, start))?;
            table.add_row(taken.row(name));
            Ok((taken, recommended))
        };
        let (flat, _) = measure(&Whose::Ours, small, Fleet::Flat)?;
        let (large, _) = measure(&Whose::Ours, self.containers, Fleet::Flat)?;
        let (noisy, ours) = measure(&Whose::Ours, small, Fleet::Noisy)?;
        let mut beside = Vec::new();
        if !self.alone {
            let upstream = Whose::Upstream(pillion_cluster::vertical_pod_autoscaler()?.join("recommender"));
            beside.push((measure(&upstream, small, Fleet::Flat)?.0, &flat));
            let (taken, recommended) = measure(&upstream, small, Fleet::Noisy)?;
            beside.push((taken, &noisy));
            compared = Some(compare(&ours, &recommended));
        }
        println!("{table}");
        println!("a pass reads the usage of all containers; 2 containers a pod, one autoscaler for 10 pods");
        let growth = large.pass.as_secs_f64() / flat.pass.as_secs_f64();
        println!("growth of a pass over ten times as many containers: {growth:.1}; the goal is at most 11");
        #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
        let each = large.memory.saturating_sub(flat.memory) as f64 / (large.containers - flat.containers) as f64;
        println!("memory of each further container: {:.2} KiB; the goal is at most 2", each / 1024.0);
        println!("noisy usage: {} of {} autoscalers are written in a pass", noisy.writes, ours.len());
        for (upstream, ours) in beside {
            let less = upstream.pass.as_secs_f64() / ours.pass.as_secs_f64();
            println!(
                "a pass over {} containers, {} usage: upstream takes {less:.0} times our processor time; the goal is at least 20",
                ours.containers,
                ours.fleet.name()
            );
        }
        if let Some(compared) = compared {
            println!("{compared}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let (writes, resized) = runtime.block_on(updates::measure())?;
        println!("{writes} writes for {resized} pods resized in place; the goal is 2 for each at most");
        Ok(())
    }
}

/// How many containers have the same recommendation from both, and the first of the others.
fn compare(ours: &Recommended, upstream: &Recommended) -> String {
    let containers = |of: &Recommended| of.values().map(Vec::len).sum::<usize>();
    let (mut same, mut first) = (0, None);
    for (name, recommended) in ours {
        for ours in recommended {
            let others = upstream.get(name).into_iter().flatten();
            let other = others.into_iter().find(|it| it.container_name == ours.container_name);
            if other == Some(ours) {
                same += 1;
            } else {
                first.get_or_insert_with(|| format!("; {name}: ours is {ours:?}, upstream's {other:?}"));
            }
        }
    }
    format!(
        "the same reads: {same} of our {} recommendations are those of upstream, which has {}; the goal is all{}",
        containers(ours),
        containers(upstream),
        first.unwrap_or_default()
    )
}

/// Counts what is written through a router; Leases do not count.
fn counted(router: Router, writes: &Arc<AtomicU64>) -> Router {
    let writes = Arc::clone(writes);
    router.layer(middleware::from_fn(move |request: Request, next: Next| {
        if request.method() != axum::http::Method::GET && !request.uri().path().contains("/leases") {
            writes.fetch_add(1, Ordering::Relaxed);
        }
        next.run(request)
    }))
}
