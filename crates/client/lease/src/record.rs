//! What a Lease says, and what a candidate makes of it.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use tokio::time::Instant;

use crate::config::Config;

/// A Lease, and when it was first seen to say what it says.
///
/// Whether it has expired is measured from there, by our own clock: the holder's timestamps may be of any clock.
#[derive(Clone, Debug)]
pub(crate) struct Observation {
    pub(crate) lease: Lease,
    since: Instant,
}

impl Observation {
    /// What is known after a Lease was seen. One that says the same as before is no renewal.
    pub(crate) fn after(before: Option<Observation>, lease: Lease, now: Instant) -> Observation {
        match before {
            Some(before) if before.lease.spec == lease.spec => Observation { lease, since: before.since },
            _ => Observation { lease, since: now },
        }
    }

    /// Who holds the lease.
    pub(crate) fn holder(&self) -> Option<&str> {
        holder(&self.lease)
    }

    /// From when on a candidate may take the lease. `None` if it may at once.
    pub(crate) fn taken_until(&self, config: &Config) -> Option<Instant> {
        if self.holder().is_none_or(|holder| holder == config.holder() || config.succeeds(holder)) {
            return None;
        }
        let seconds = self.lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds).unwrap_or_default();
        Some(self.since + Duration::from_secs(seconds.max(0).unsigned_abs().into()))
    }
}

/// Who holds the lease; an empty name is nobody's.
pub(crate) fn holder(lease: &Lease) -> Option<&str> {
    lease.spec.as_ref()?.holder_identity.as_deref().filter(|holder| !holder.is_empty())
}

/// The Lease as its holder writes it: a new one, or the next state of one that was read.
pub(crate) fn held(config: &Config, before: Option<&Lease>) -> Lease {
    let now = MicroTime((config.now)());
    let old = before.and_then(|lease| lease.spec.clone()).unwrap_or_default();
    let holder = config.holder();
    let is_renewal = old.holder_identity.as_deref() == Some(&holder);
    let transitions = old.lease_transitions.unwrap_or_default();
    let spec = LeaseSpec {
        holder_identity: Some(holder),
        lease_duration_seconds: config.lease_seconds(),
        acquire_time: if is_renewal { old.acquire_time } else { Some(now.clone()) },
        renew_time: Some(now),
        lease_transitions: Some(match before {
            Some(_) if !is_renewal => transitions.saturating_add(1),
            _ => transitions,
        }),
        ..old
    };
    let new = || ObjectMeta { name: Some(config.name.clone()), ..ObjectMeta::default() };
    Lease { metadata: before.map_or_else(new, |lease| lease.metadata.clone()), spec: Some(spec) }
}

/// The Lease as a holder writes it that gives it up.
pub(crate) fn released(lease: &Lease, now: Timestamp) -> Lease {
    let old = lease.spec.clone().unwrap_or_default();
    let spec = LeaseSpec { holder_identity: None, renew_time: Some(MicroTime(now)), ..old };
    Lease { metadata: lease.metadata.clone(), spec: Some(spec) }
}
