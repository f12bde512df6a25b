//! The manager does nothing while an OpenKruise serves the same objects.

use std::time::Duration;

use tokio::time::Instant;

use crate::kruise::Kruise;
use crate::peer::Peer;
use crate::state::Inner;

/// How often it is looked for.
const LOOK: Duration = Duration::from_secs(5);
/// How often the log repeats what is waited for.
const REMIND: Duration = Duration::from_mins(5);

/// Returns when nobody else serves SidecarSets. Until then `/readyz` says what is waited for, and nothing is written to the cluster.
pub(crate) async fn until_alone(inner: &Inner) {
    let config = &inner.config;
    let may_take_over = config.take_over.contains(&Peer::Kruise);
    let mut logged: Option<(String, Instant)> = None;
    loop {
        let obstacle = match Kruise::find(&config.client, &config.revisions_namespace).await {
            Ok(kruise) => kruise.obstacle(kruise.standing((config.now)()), may_take_over),
            Err(error) => Some(format!("cannot read whether OpenKruise serves SidecarSets: {error}")),
        };
        let Some(obstacle) = obstacle else { break };
        if logged.as_ref().is_none_or(|(before, at)| *before != obstacle || at.elapsed() >= REMIND) {
            tracing::warn!("waiting: {obstacle}");
            logged = Some((obstacle.clone(), Instant::now()));
        }
        inner.waiting.send_replace(Some(obstacle));
        tokio::time::sleep(LOOK).await;
    }
    inner.waiting.send_replace(None);
    if logged.is_some() {
        tracing::info!("OpenKruise does not serve SidecarSets any more; going on");
    }
}
