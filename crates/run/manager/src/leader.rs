//! What only one replica does at a time.
//!
//! ```text
//!  one part       its Lease, renewed every few seconds
//!  several parts  the Lease of the first ──▶ within it one Lease for each other part, renewed rarely
//! ```
//!
//! So a part always has the same Lease, whichever parts share a process: replicas of another version or with other parts never lead it at the same
//! time. Replicas with the same parts follow each other by the Lease of the first part, and then have all others at once.

use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, try_join, try_join_all};
use pillion_lease::{Config, Elector, InvalidConfig};

use crate::config::Leasing;
use crate::controller_name::ControllerName;
use crate::metrics::Metrics;
use crate::state::Inner;

/// After a Lease was lost, this replica does not run for it again at once.
const PAUSE: Duration = Duration::from_secs(2);

/// The recommender stores what it knows before it ends; not longer than this.
const STORING: Duration = Duration::from_secs(10);

/// Returns when the work of a part is to be given up.
async fn ended(inner: &Inner, part: ControllerName) {
    inner.stopped().await;
    if part == ControllerName::Recommender {
        tokio::time::sleep(STORING).await;
    }
}

/// Work of a part, until it is dropped.
pub(crate) type Work<'a> = &'a (dyn Fn(ControllerName) -> BoxFuture<'a, ()> + Sync);

/// Does the work of every part while this replica leads it, until the manager is to end; the Leases are given back then.
pub(crate) async fn lead<'a>(inner: &'a Inner, work: Work<'a>) -> Result<(), InvalidConfig> {
    let mut parts = inner.config.parts.clone();
    parts.sort_unstable();
    parts.dedup();
    let Some((first, others)) = parts.split_first() else {
        inner.stopped().await;
        return Ok(());
    };
    for part in &parts {
        inner.config.metrics.leads(part.name(), false);
    }
    lead_one(inner, *first, || {
        // Boxed, since it holds the futures of all parts.
        let others = others.iter().map(|part| lead_one(inner, *part, move || do_work(inner, *part, work).map(Ok)));
        try_join(do_work(inner, *first, work).map(Ok), try_join_all(others)).map(|led| led.map(drop)).boxed()
    })
    .await
}

/// The candidate for a part; `None` where no other replica can lead.
pub(crate) fn candidate(inner: &Inner, part: ControllerName) -> Option<Config> {
    let (config, now) = (&inner.config, inner.config.now.clone());
    let identity = config.identity.as_ref()?;
    let lease = config.lease(part);
    let (client, runtime) = match &config.leasing {
        Some(Leasing { client, runtime }) => (client.clone(), Some(runtime.clone())),
        None => (config.client.clone(), None),
    };
    let mut candidate = Config::new(client, &config.namespace, lease, identity, move || now());
    candidate.runtime = runtime;
    let first = config.first_part().filter(|first| *first != part);
    Some(match first {
        Some(first) => candidate.within(config.lease(first)),
        None => candidate,
    })
}

/// Does the work of a part, which this replica leads, until the manager is to end. Work that ends by itself is begun again.
async fn do_work<'a>(inner: &'a Inner, part: ControllerName, work: Work<'a>) {
    let _leads = Leads::begin(&inner.config.metrics, part);
    while !*inner.stopping.borrow() {
        tokio::select! {
            () = work(part) => {}
            () = ended(inner, part) => return,
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = inner.stopped() => {}
        }
    }
}

/// Does `work` whenever this replica has the Lease of `part`, until the manager is to end.
async fn lead_one<F>(inner: &Inner, part: ControllerName, work: impl Fn() -> F) -> Result<(), InvalidConfig>
where
    F: Future<Output = Result<(), InvalidConfig>>,
{
    let Some(candidate) = candidate(inner, part) else { return work().await };
    let elector = Elector::new(candidate)?;
    while !*inner.stopping.borrow() {
        let leadership = tokio::select! {
            leadership = elector.acquire() => leadership,
            () = inner.stopped() => break,
        };
        match leadership.hold(work()).await {
            Ok(worked) => worked?,
            Err(lost) => {
                tracing::warn!(controller = part.name(), %lost, "another replica may lead now");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
    Ok(())
}

/// Says in the metrics that this replica leads, until dropped.
struct Leads<'a> {
    metrics: &'a Metrics,
    part: ControllerName,
}

impl Leads<'_> {
    fn begin(metrics: &Metrics, part: ControllerName) -> Leads<'_> {
        metrics.leads(part.name(), true);
        Leads { metrics, part }
    }
}

impl Drop for Leads<'_> {
    fn drop(&mut self) {
        self.metrics.leads(self.part.name(), false);
    }
}
