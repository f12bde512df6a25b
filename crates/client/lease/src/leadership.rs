//! The time during which a candidate leads.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::PostParams;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::candidate::Candidate;
use crate::record;

/// The lease was lost: it could not be renewed in time, or somebody else holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the lease was lost: this process no longer leads")]
pub struct Lost;

/// This process leads, until the lease runs out or [`Leadership::hold`] returns.
///
/// Dropped without `hold`, the lease is not released, and others wait until it has expired.
#[must_use = "the lease is renewed only while it is held"]
pub struct Leadership {
    candidate: Arc<Candidate>,
    lease: Lease,
    /// When the request was sent that acquired the lease.
    renewed: Instant,
}

impl Leadership {
    pub(crate) fn new(candidate: Arc<Candidate>, lease: Lease, renewed: Instant) -> Leadership {
        Leadership { candidate, lease, renewed }
    }

    /// Does the work of a leader: renews the lease while `work` runs, and releases it when `work` ends, so that another takes over at once.
    ///
    /// For a graceful shutdown let the work end. If the future that this returns is dropped instead, the lease stays until it expires.
    ///
    /// # Errors
    /// The lease was lost. The work was dropped, in time before anybody else may lead.
    pub async fn hold<T>(self, work: impl Future<Output = T>) -> Result<T, Lost> {
        let Leadership { candidate, lease, renewed } = self;
        let (stop, stopped) = oneshot::channel();
        let (renewed, last_renewed) = watch::channel(renewed);
        // A task of its own, so that work that is slow to yield does not delay it.
        let mut renewals = candidate.start(renew(Arc::clone(&candidate), lease, renewed, stopped));
        let lasts = candidate.config.renew_deadline;
        let outcome = {
            let mut work = std::pin::pin!(work);
            // After a pause of the whole machine the work may be woken before the renewals have noticed.
            let work = poll_fn(|context| {
                let is_late = Instant::now() >= *last_renewed.borrow() + lasts;
                if is_late { Poll::Pending } else { work.as_mut().poll(context) }
            });
            tokio::select! {
                biased;
                _ = renewals.join_next() => None,
                value = work => Some(value),
            }
        };
        let Some(value) = outcome else {
            let config = &candidate.config;
            tracing::warn!(lease = config.name, identity = config.identity, "the lease was lost");
            candidate.report(None);
            return Err(Lost);
        };
        drop(stop);
        if let Some(Ok(Some(lease))) = renewals.join_next().await {
            let releasing = Arc::clone(&candidate);
            candidate.start(async move { releasing.release(&lease).await }).join_next().await;
        }
        candidate.report(None);
        Ok(value)
    }
}

/// Renews the lease until `stop` is dropped, and returns it then. Returns `None` when the lease is lost.
async fn renew(
    candidate: Arc<Candidate>,
    mut lease: Lease,
    renewed: watch::Sender<Instant>,
    mut stop: oneshot::Receiver<()>,
) -> Option<Lease> {
    let config = &candidate.config;
    let mut next = *renewed.borrow() + config.renew_period;
    loop {
        let deadline = *renewed.borrow() + config.renew_deadline;
        tokio::select! {
            biased;
            _ = &mut stop => return Some(lease),
            () = tokio::time::sleep_until(deadline.min(next)) => {}
        }
        let attempted = Instant::now();
        if attempted >= deadline {
            return None;
        }
        next = attempted + config.retry_period;
        let answered_by = deadline.min(attempted + config.request_timeout());
        match tokio::time::timeout_at(answered_by, candidate.renew(&lease)).await {
            Ok(Ok(Some(held))) => {
                lease = held;
                renewed.send_replace(attempted);
                next = attempted + config.renew_period;
            }
            Ok(Ok(None)) => return None,
            Ok(Err(error)) => tracing::warn!(lease = config.name, %error, "the lease could not be renewed"),
            Err(_) => tracing::warn!(lease = config.name, "the lease could not be renewed: no answer in time"),
        }
    }
}

impl Candidate {
    /// Renews the lease that was held last. `None` if somebody else holds it.
    async fn renew(&self, lease: &Lease) -> kube::Result<Option<Lease>> {
        let (name, options) = (&self.config.name, PostParams::default());
        match self.leases.replace(name, &options, &record::held(&self.config, Some(lease))).await {
            Ok(held) => return Ok(Some(held)),
            // Somebody has written or deleted it; or we have, and the answer was lost.
            Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
            Err(error) => return Err(error),
        }
        let Some(found) = self.leases.get_opt(name).await? else {
            return self.leases.create(&options, &record::held(&self.config, None)).await.map(Some);
        };
        if record::holder(&found) != Some(&self.config.holder()) {
            return Ok(None);
        }
        self.leases.replace(name, &options, &record::held(&self.config, Some(&found))).await.map(Some)
    }

    /// Gives the lease up. If that fails, it expires.
    async fn release(&self, lease: &Lease) {
        let released = record::released(lease, (self.config.now)());
        let (name, options) = (&self.config.name, PostParams::default());
        let release = self.leases.replace(name, &options, &released);
        match tokio::time::timeout(self.config.request_timeout(), release).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!(lease = name, %error, "the lease could not be released and will expire"),
            Err(_) => {
                tracing::warn!(lease = name, "the lease could not be released and will expire: no answer in time");
            }
        }
    }
}
