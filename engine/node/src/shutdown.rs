//! The end of a node: every container is stopped, and nothing is reported.

use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use tokio::time::Instant;

use crate::runtime::{ContainerId, Runtime, Signal};
use crate::state::Inner;
use crate::worker;

/// What was killed is gone within this.
const LAST: Duration = Duration::from_secs(2);

/// A container that has not ended yet.
struct Left {
    id: ContainerId,
    /// When its time is over.
    deadline: Instant,
    killed: bool,
}

/// Ends all pods in their order; then stops whatever is left: TERM, and KILL for those whose time is over. Logs and volumes stay.
pub(crate) async fn stop_all<R: Runtime>(inner: &Arc<Inner<R>>, within: Duration) {
    let began = Instant::now();
    // One that takes longer is among what is left.
    let _ = tokio::time::timeout(within + LAST, worker::end_all(inner, within)).await;
    let mut exits = inner.exits.lock().await;
    let mut left = running(inner, within.saturating_sub(began.elapsed()), Instant::now());
    join_all(left.iter().map(|one| inner.runtime.signal(&one.id, Signal::Term))).await;
    while let Some(deadline) = left.iter().map(|one| one.deadline).min() {
        match tokio::time::timeout_at(deadline, exits.recv()).await {
            Ok(Some(exit)) => left.retain(|one| one.id != exit.id),
            Ok(None) => break,
            Err(_) => kill_overdue(inner, &mut left).await,
        }
    }
    // Of a container that was just being started nobody knows whether it runs; its pod ends with it.
    let uids = inner.pods().uids();
    join_all(uids.iter().map(|uid| inner.runtime.release(uid))).await;
}

/// Kills those whose time is over, and gives up on those that were killed before.
async fn kill_overdue<R: Runtime>(inner: &Inner<R>, left: &mut Vec<Left>) {
    let now = Instant::now();
    left.retain(|one| one.deadline > now || !one.killed);
    let mut kills = Vec::new();
    for one in left.iter_mut().filter(|one| one.deadline <= now) {
        (one.deadline, one.killed) = (now + LAST, true);
        kills.push(inner.runtime.signal(&one.id, Signal::Kill));
    }
    join_all(kills).await;
}

/// All containers that run, each with the moment at which its time is over.
fn running<R: Runtime>(inner: &Inner<R>, within: Duration, began: Instant) -> Vec<Left> {
    let pods = inner.pods();
    let containers = pods.iter().flat_map(|(uid, record)| {
        let grace = record.pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds).unwrap_or(30);
        let grace = Duration::from_secs(grace.max(0).unsigned_abs()).min(within);
        record.running(uid).map(move |id| Left { id, deadline: began + grace, killed: false })
    });
    containers.collect()
}
