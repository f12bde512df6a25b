//! The recommender and the updater, and the Lease of the admission controller.

use pillion_rightsizer::{PeerPart, admission_lease};

use crate::state::Inner;

/// Renews the Lease of the admission controller while new pods are sized.
pub(crate) async fn keep_lease(inner: &Inner) {
    let mut served = inner.rightsizing.subscribe();
    let (cluster, config) = (&inner.rightsizing.cluster, &inner.config);
    // The sender is in `inner`: there is no error.
    while served.wait_for(|served| *served).await.is_ok() {
        tokio::select! {
            () = admission_lease::keep(cluster, &config.client, &config.now, config.identity.as_deref()) => {}
            _ = served.wait_for(|served| !*served) => {}
        }
    }
}

/// The recommender, until the manager is to end. One of upstream that comes meanwhile has what it has written, and goes on with that.
pub(crate) async fn recommend(inner: &Inner) {
    while let Some(config) = alone(inner, PeerPart::Recommender).await {
        tokio::select! {
            () = pillion_rightsizer::recommend(&inner.rightsizing.cluster, &config, inner.stopped()) => return,
            () = inner.rightsizing.not_alone(PeerPart::Recommender) => {}
        }
    }
}

/// The updater, until dropped.
pub(crate) async fn update(inner: &Inner) {
    while let Some(config) = alone(inner, PeerPart::Updater).await {
        tokio::select! {
            () = pillion_rightsizer::update(&inner.rightsizing.cluster, &config) => return,
            () = inner.rightsizing.not_alone(PeerPart::Updater) => {}
        }
    }
}

/// The settings of a part, when upstream's does not act any more. `None` if the manager is to end before.
async fn alone(inner: &Inner, part: PeerPart) -> Option<pillion_rightsizer::Config> {
    tokio::select! {
        () = inner.rightsizing.alone(part) => {}
        () = inner.stopped() => return None,
    }
    let config = &inner.config;
    Some(pillion_rightsizer::Config {
        gates: config.gates.into(),
        metrics: config.metrics.rightsizing().clone(),
        ..config.rightsizing.clone()
    })
}
