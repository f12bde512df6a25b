//! What an election needs to know.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use tokio::runtime::Handle;

/// A candidate's settings.
#[derive(Clone)]
pub struct Config {
    /// The API server. A client that nothing else uses has connections of its own, so that requests do not wait behind large answers.
    pub client: Client,
    /// The runtime that sends the requests, where `client` was made in another runtime than that of the caller. With a thread of its own it
    /// renews the Lease even while work keeps every thread of the caller's runtime busy.
    pub runtime: Option<Handle>,
    /// The namespace of the Lease.
    pub namespace: String,
    /// The name of the Lease.
    pub name: String,
    /// Who this candidate is. It must differ from that of every other process, also from one that ran here before: a pod's name with a random
    /// suffix will do.
    pub identity: String,
    /// The time that is written into the Lease, for people to read.
    pub now: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// How long others wait after the last renewal before they take over; whole seconds.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The time between two renewals.
    pub renew_period: Duration,
    /// The time after which a renewal that failed is tried again, and the shortest time between two attempts to acquire.
    pub retry_period: Duration,
    /// The name of another Lease that this process holds for as long as it runs for this one. See [`Config::within`].
    pub(crate) within: Option<String>,
}

impl Config {
    /// The settings of Kubernetes' own components: a lease of 15 seconds, given up after 10, tried every 2. It is renewed every 4 seconds, which leaves
    /// time for two attempts after one that failed.
    pub fn new(
        client: Client,
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
        now: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Config {
        Config {
            client,
            runtime: None,
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            now: Arc::new(now),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            renew_period: Duration::from_secs(4),
            retry_period: Duration::from_secs(2),
            within: None,
        }
    }

    /// The same for a Lease of which this process also holds the Lease `other`, of the same namespace, whenever it runs for this one. It is renewed
    /// rarely, since `other` says whether its holder is alive: the next holder of `other` takes this one over without waiting. Everybody else waits
    /// until it expires.
    ///
    /// The work under this Lease has to end with the work under the other one.
    #[must_use]
    pub fn within(self, other: impl Into<String>) -> Config {
        Config {
            lease_duration: Duration::from_mins(3),
            renew_deadline: Duration::from_secs(150),
            renew_period: Duration::from_secs(90),
            within: Some(other.into()),
            ..self
        }
    }

    /// The holder that is written into the Lease: the identity, with the name of the other Lease if there is one.
    pub fn holder(&self) -> String {
        match &self.within {
            Some(other) => format!("{}{WITHIN}{other}", self.identity),
            None => self.identity.clone(),
        }
    }

    /// Whether a holder can only have worked while it held the Lease that this process holds now.
    pub(crate) fn succeeds(&self, holder: &str) -> bool {
        self.within.is_some() && held_within(holder).map(|(_, other)| other) == self.within.as_deref()
    }

    pub(crate) fn check(&self) -> Result<(), InvalidConfig> {
        if self.identity.is_empty() {
            return Err(InvalidConfig::NoIdentity);
        }
        if self.lease_seconds().is_none() {
            return Err(InvalidConfig::NotWholeSeconds { lease_duration: self.lease_duration });
        }
        if self.renew_deadline >= self.lease_duration {
            let (renew_deadline, lease_duration) = (self.renew_deadline, self.lease_duration);
            return Err(InvalidConfig::LateDeadline { renew_deadline, lease_duration });
        }
        if self.retry_period.is_zero() || self.retry_period.mul_f64(JITTER) >= self.renew_deadline {
            let (retry_period, renew_deadline) = (self.retry_period, self.renew_deadline);
            return Err(InvalidConfig::SlowRetry { retry_period, renew_deadline });
        }
        if self.renew_period.is_zero() || self.renew_period.saturating_add(self.retry_period) >= self.renew_deadline {
            let (renew_period, retry_period) = (self.renew_period, self.retry_period);
            return Err(InvalidConfig::SlowRenewal { renew_period, retry_period, renew_deadline: self.renew_deadline });
        }
        Ok(())
    }

    /// The lease duration as the Lease has it.
    pub(crate) fn lease_seconds(&self) -> Option<i32> {
        let seconds = i32::try_from(self.lease_duration.as_secs()).ok()?;
        (seconds > 0 && self.lease_duration.subsec_nanos() == 0).then_some(seconds)
    }

    /// A request that hangs leaves time for another one before the renew deadline.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.renew_deadline.saturating_sub(self.renew_period) / 2
    }

    /// The pause before the next attempt to acquire: no two candidates keep in step.
    pub(crate) fn jittered_retry(&self) -> Duration {
        self.retry_period.mul_f64(1.0 + JITTER * fastrand::f64())
    }
}

/// Between the identity of a holder and the other Lease that it holds.
const WITHIN: char = '@';

/// The identity and the other Lease of a holder whose Lease is held [within](Config::within) another one.
pub fn held_within(holder: &str) -> Option<(&str, &str)> {
    holder.rsplit_once(WITHIN)
}

/// The pause between attempts to acquire is longer than the retry period by at most this share of it, as in client-go.
const JITTER: f64 = 1.2;

/// Settings that could not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    /// The identity is empty.
    #[error("the identity is empty: a Lease without a holder is free")]
    NoIdentity,
    /// The lease duration cannot be written into a Lease.
    #[error(
        "the lease duration {lease_duration:?} is not a whole number of seconds, which is all that a Lease can hold"
    )]
    NotWholeSeconds { lease_duration: Duration },
    /// The leader would give up after others have taken over.
    #[error(
        "the renew deadline {renew_deadline:?} must be shorter than the lease duration {lease_duration:?}, or two could lead at once"
    )]
    LateDeadline { renew_deadline: Duration, lease_duration: Duration },
    /// The leader would give up before its second attempt.
    #[error(
        "the retry period {retry_period:?} must be above zero and, times 1.2, below the renew deadline {renew_deadline:?}"
    )]
    SlowRetry { retry_period: Duration, renew_deadline: Duration },
    /// One renewal that fails would be the end.
    #[error(
        "the renew period {renew_period:?} must be above zero and, with the retry period {retry_period:?}, below the renew deadline {renew_deadline:?}"
    )]
    SlowRenewal { renew_period: Duration, retry_period: Duration, renew_deadline: Duration },
}
