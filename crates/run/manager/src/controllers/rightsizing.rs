//! The recommender and the updater, and the Lease of the admission controller.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use pillion_rightsizer::{PeerPart, admission_lease};
use tokio::sync::watch;

use crate::config::excluded_namespaces;
use crate::controller_name::ControllerName;
use crate::leader;
use crate::state::Inner;

/// Renews the Lease of the admission controller while new pods are sized.
pub(crate) async fn keep_lease(inner: &Inner) {
    let mut served = inner.rightsizing.subscribe();
    let (cluster, config) = (&inner.rightsizing.cluster, &inner.config);
    let lease = (&config.rightsizing.status_lease, config.rightsizing.status_lease_interval);
    // The sender is in `inner`: there is no error.
    while served.wait_for(|served| *served).await.is_ok() {
        tokio::select! {
            () = admission_lease::keep(cluster, &config.client, &*config.now, lease, config.identity.as_deref()) => {}
            _ = served.wait_for(|served| !*served) => {}
        }
    }
}

/// After its Lease was lost, the recommender has this long to store what it knows: nobody else may lead before the Lease has expired, five
/// seconds after this replica has given it up.
const STORING: Duration = Duration::from_secs(3);

/// The recommender, until the manager is to end. Dropped, because its Lease is lost, it first stores what it knows. One of upstream that
/// comes meanwhile has what was stored before, and goes on with that.
pub(crate) async fn recommend(inner: &Inner) {
    while let Some(config) = alone(inner, PeerPart::Recommender).await {
        // A task of its own outlives this future, whose end drops the sender.
        let (_dropped, is_dropped) = watch::channel(());
        let mut recommending = tokio::spawn(recommend_until_dropped(inner, config, is_dropped));
        tokio::select! {
            _ = &mut recommending => return,
            () = inner.rightsizing.not_alone(PeerPart::Recommender) => recommending.abort(),
        }
    }
}

fn recommend_until_dropped(
    inner: &Inner,
    config: pillion_rightsizer::Config,
    mut is_dropped: watch::Receiver<()>,
) -> impl Future<Output = ()> + use<> {
    let cluster = inner.rightsizing.cluster.clone();
    // Its own Lease, and the one within which it is held.
    let parts = [Some(ControllerName::Recommender), inner.config.first_part()];
    let leases: Vec<_> = parts.into_iter().flatten().filter_map(|part| leader::candidate(inner, part)).collect();
    let mut stopping = inner.stopping.subscribe();
    async move {
        let (lost, is_lost) = watch::channel(false);
        let mut ending = is_lost.clone();
        let ended = async move {
            tokio::select! {
                // The senders end together with what is waited for: no error is one.
                _ = stopping.wait_for(|stopping| *stopping) => {}
                _ = ending.wait_for(|lost| *lost) => {}
            }
        };
        let given_up = async {
            let _ = is_dropped.changed().await;
            let held = futures::future::join_all(leases.iter().map(is_held)).await;
            if !held.is_empty() && held.into_iter().all(|is_held| is_held) {
                lost.send_replace(true);
                tokio::time::sleep(STORING).await;
            }
        };
        tokio::select! {
            () = pillion_rightsizer::recommend(&cluster, &config, ended) => {}
            () = given_up => {}
        }
    }
}

/// Whether no other replica has the Lease of this candidate yet.
async fn is_held(candidate: &pillion_lease::Config) -> bool {
    let leases: Api<Lease> = Api::namespaced(candidate.client.clone(), &candidate.namespace);
    let read = tokio::time::timeout(STORING, leases.get_opt(&candidate.name)).await;
    let Ok(Ok(Some(lease))) = read else { return false };
    lease.spec.and_then(|spec| spec.holder_identity) == Some(candidate.holder())
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
    let (config, metrics) = (&inner.config, inner.config.metrics.clone());
    Some(pillion_rightsizer::Config {
        gates: config.gates.into(),
        metrics: config.metrics.rightsizing().clone(),
        observers: Arc::new(move |controller| metrics.controller(controller)),
        home: config.namespace.clone(),
        not_admitted: excluded_namespaces(&config.namespace).map(str::to_owned).into(),
        ..config.rightsizing.clone()
    })
}
