//! What a pass of the recommender costs: processor time, memory and writes, over few and many containers, beside upstream's
//! recommender over the same objects; and what the updater writes.
//!
//! ```text
//!  an API server in memory with pods, ReplicaSets and autoscalers, and usage that is never the same
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

use self::recommender::Whose;

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
    fn row(&self, whose: &str) -> [String; 6] {
        [
            whose.to_owned(),
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
        let mut table = Table::new();
        table.load_style(UTF8_HORIZONTAL_ONLY).set_header([
            "recommender",
            "containers",
            "a pass at rest, processor time",
            "of each container",
            "memory of each container",
            "writes of a pass at rest",
        ]);
        let small = self.containers / 10;
        let mut work = vec![(Whose::Ours, small), (Whose::Ours, self.containers)];
        if !self.alone {
            work.push((Whose::Upstream(pillion_cluster::vertical_pod_autoscaler()?.join("recommender")), small));
        }
        let mut taken = Vec::new();
        for (whose, containers) in work {
            let name = if matches!(whose, Whose::Ours) { "ours" } else { "upstream" };
            eprintln!("{containers} containers, {name} …");
            // Each has a runtime and an API server of its own, which end with it.
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            taken.push(runtime.block_on(recommender::measure(&whose, containers))?);
            table.add_row(taken[taken.len() - 1].row(name));
        }
        println!("{table}");
        println!("a pass reads the usage of all containers; 2 containers a pod, one autoscaler for 10 pods");
        let [small, large, rest @ ..] = taken.as_slice() else { return Ok(()) };
        let growth = large.pass.as_secs_f64() / small.pass.as_secs_f64();
        println!("growth of a pass over ten times as many containers: {growth:.1}; the goal is at most 11");
        #[expect(clippy::cast_precision_loss, reason = "no size here comes near 2⁵²")]
        let each = large.memory.saturating_sub(small.memory) as f64 / (large.containers - small.containers) as f64;
        println!("memory of each further container: {:.2} KiB; the goal is at most 2", each / 1024.0);
        for upstream in rest {
            let less = upstream.pass.as_secs_f64() / small.pass.as_secs_f64();
            println!(
                "a pass over {} containers: upstream takes {less:.0} times our processor time; the goal is at least 20",
                small.containers
            );
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
        let (writes, resized) = runtime.block_on(updates::measure())?;
        println!("{writes} writes for {resized} pods resized in place; the goal is 2 for each at most");
        Ok(())
    }
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
