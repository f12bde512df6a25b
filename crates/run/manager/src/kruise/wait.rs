//! The manager does nothing about SidecarSets while an OpenKruise serves them.

use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::kruise::{Kruise, WatchedKruise};
use crate::peer::Peer;
use crate::state::Inner;

/// How often it is looked for while it is in the way.
const LOOK: Duration = Duration::from_secs(5);
/// How often what watches know of it is looked at while it is not.
const LOOK_ON: Duration = Duration::from_secs(15);
/// How often the log repeats what is waited for.
const REMIND: Duration = Duration::from_mins(5);

/// What is in the way, if something is.
async fn obstacle(inner: &Inner) -> Result<Option<String>, kube::Error> {
    let config = &inner.config;
    let kruise = Kruise::find(&config.client, &config.revisions_namespace).await?;
    let may_take_over = config.take_over.contains(&Peer::Kruise);
    Ok(kruise.obstacle(kruise.standing((config.now)()), may_take_over))
}

/// Returns when nobody else serves SidecarSets. Until then `/readyz` says what is waited for, and nothing is written to the cluster.
pub(crate) async fn until_alone(inner: &Inner) {
    let mut logged: Option<(String, Instant)> = None;
    loop {
        let obstacle = obstacle(inner)
            .await
            .unwrap_or_else(|error| Some(format!("cannot read whether OpenKruise serves SidecarSets: {error}")));
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

/// Looks for an OpenKruise that comes later, until dropped. While there is one this replica stands by.
pub(crate) async fn look_on(inner: &Inner) {
    let watched = WatchedKruise::new(&inner.config.revisions_namespace);
    tokio::select! {
        () = look_again_and_again(inner, &watched) => {}
        () = watched.run(&inner.config.client) => {}
    }
}

async fn look_again_and_again(inner: &Inner, watched: &WatchedKruise) {
    let mut failed: Option<Instant> = None;
    loop {
        tokio::time::sleep(LOOK_ON).await;
        if inner.is_alone() && watched.is_absent((inner.config.now)()) {
            continue;
        }
        let found = match obstacle(inner).await {
            Ok(found) => found,
            Err(error) => {
                if failed.is_none_or(|at| at.elapsed() >= REMIND) {
                    tracing::warn!(%error, "cannot read whether OpenKruise serves SidecarSets");
                    failed = Some(Instant::now());
                }
                continue;
            }
        };
        failed = None;
        match &found {
            Some(obstacle) if inner.waiting.borrow().as_ref() != Some(obstacle) => {
                tracing::warn!("standing by, and leaving SidecarSets and their pods alone: {obstacle}");
            }
            None if !inner.is_alone() => tracing::info!("OpenKruise does not serve SidecarSets any more; going on"),
            _ => {}
        }
        inner.waiting.send_if_modified(|waiting| {
            let is_new = *waiting != found;
            *waiting = found;
            is_new
        });
    }
}

/// Does some work whenever nobody else serves SidecarSets, until it has ended by itself.
pub(crate) async fn while_alone<'a>(inner: &'a Inner, work: impl Fn() -> BoxFuture<'a, ()>) {
    let mut waiting = inner.waiting.subscribe();
    // The sender is in `inner`: there is no error.
    while waiting.wait_for(Option::is_none).await.is_ok() {
        tokio::select! {
            () = work() => return,
            _ = waiting.wait_for(Option::is_some) => {}
        }
    }
}
