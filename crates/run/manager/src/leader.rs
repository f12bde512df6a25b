//! What only one replica does at a time.

use std::time::Duration;

use futures::future::BoxFuture;
use pillion_lease::{Elector, InvalidConfig};

use crate::part::Part;
use crate::state::Inner;

/// After a Lease was lost, this replica does not run for it again at once.
const PAUSE: Duration = Duration::from_secs(2);

/// The recommender stores what it knows before it ends; not longer than this.
const STORING: Duration = Duration::from_secs(10);

/// Returns when the work of a part is to be given up.
async fn ended(inner: &Inner, part: Part) {
    inner.stopped().await;
    if part == Part::Recommender {
        tokio::time::sleep(STORING).await;
    }
}

/// Does the work of a part while this replica leads it, until the manager is to end; the Lease is given back then.
pub(crate) async fn lead<'a>(
    inner: &'a Inner,
    part: Part,
    work: impl Fn() -> BoxFuture<'a, ()>,
) -> Result<(), InvalidConfig> {
    let metrics = &inner.config.metrics;
    let until_stopped = || {
        let work = work();
        async move {
            tokio::select! {
                () = work => {}
                () = ended(inner, part) => {}
            }
        }
    };
    let Some(identity) = &inner.config.identity else {
        metrics.leads(part.name(), true);
        until_stopped().await;
        return Ok(());
    };
    let now = inner.config.now.clone();
    let lease = pillion_lease::Config::new(
        inner.config.client.clone(),
        &inner.config.namespace,
        inner.config.lease(part),
        identity,
        move || now(),
    );
    let elector = Elector::new(lease)?;
    while !*inner.stopping.borrow() {
        metrics.leads(part.name(), false);
        let leadership = tokio::select! {
            leadership = elector.acquire() => leadership,
            () = inner.stopped() => break,
        };
        metrics.leads(part.name(), true);
        if let Err(lost) = leadership.hold(until_stopped()).await {
            tracing::warn!(controller = part.name(), %lost, "another replica may lead now");
            tokio::time::sleep(PAUSE).await;
        }
    }
    metrics.leads(part.name(), false);
    Ok(())
}
