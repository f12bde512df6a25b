//! The end of a node: every container is stopped, and nobody is told.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::node::Inner;
use crate::runtime::{ContainerId, Runtime, Signal};

/// Stops all containers: TERM, and KILL for those whose time is over.
pub(crate) async fn stop_all<R: Runtime>(inner: &Inner<R>, within: Duration) {
    // Whoever ran the node lets go of the exits when it closes.
    let mut exits = inner.exits.lock().await;
    let began = Instant::now();
    let mut left: Vec<(Instant, ContainerId)> = running(inner, within, began);
    let uids = inner.pods().uids();
    let signal_all = async |ids: Vec<&ContainerId>, signal| {
        join_all(ids.into_iter().map(|id| inner.runtime.signal(id, signal))).await;
    };
    signal_all(left.iter().map(|(_, id)| id).collect(), Signal::Term).await;
    left.sort();
    let mut ended = BTreeSet::new();
    while let Some((deadline, _)) = left.first() {
        match tokio::time::timeout_at(*deadline, exits.recv()).await {
            Ok(Some(exit)) => {
                ended.insert(exit.id);
                left.retain(|(_, id)| !ended.contains(id));
            }
            Ok(None) => break,
            Err(_) => {
                let now = Instant::now();
                let overdue: Vec<&ContainerId> = left.iter().filter(|(at, _)| *at <= now).map(|(_, id)| id).collect();
                signal_all(overdue, Signal::Kill).await;
                left.retain(|(at, _)| *at > now);
            }
        }
    }
    join_all(uids.iter().map(|uid| inner.runtime.tear_down(uid))).await;
}

/// All containers that run, each with the moment at which its time is over.
fn running<R: Runtime>(inner: &Inner<R>, within: Duration, began: Instant) -> Vec<(Instant, ContainerId)> {
    let pods = inner.pods();
    let containers = pods.iter().flat_map(|(uid, record)| {
        let grace = record.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let grace = Duration::from_secs(grace.max(0).unsigned_abs()).min(within);
        record.running(uid).map(move |id| (began + grace, id))
    });
    containers.collect()
}
