//! The Lease by which updaters know that an admission controller is alive: without one, an evicted pod would come back as it was.
//!
//! It has upstream's name and place, so that their updater respects our webhook, and our updater theirs.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::lease_name::{LeaseName, VALID};

pub use crate::lease_name::NAMESPACE;

/// Our holders begin with this.
const OURS: &str = "pillion";

/// Whether a holder of the Lease is one of our managers.
pub fn is_ours(holder: &str) -> bool {
    holder.starts_with(OURS)
}

/// Renews a Lease for ever, while there is an autoscaler.
pub async fn keep(
    cluster: &Cluster,
    client: &Client,
    now: &(dyn Fn() -> Timestamp + Send + Sync),
    (lease, pause): (&LeaseName, Duration),
    identity: Option<&str>,
) {
    let holder = identity.map_or_else(|| OURS.to_owned(), |identity| format!("{OURS}_{identity}"));
    loop {
        cluster.any_autoscaler().await;
        if let Err(error) = renew(client, lease, now(), &holder).await {
            let (name, namespace) = (&lease.name, &lease.namespace);
            tracing::warn!(%error, lease = name, namespace, "the Lease of the admission controller is not renewed");
        }
        tokio::time::sleep(pause).await;
    }
}

/// Whether somebody else than us has renewed the Lease lately.
pub(crate) fn is_held_by_others(lease: &Lease, now: Timestamp) -> bool {
    is_of_others(lease) && is_valid(lease, now, VALID)
}

fn is_of_others(lease: &Lease) -> bool {
    let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default();
    !holder.is_empty() && !is_ours(holder)
}

/// Whose admission controller it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Admission {
    /// One of our managers.
    #[default]
    Ours,
    /// Upstream's.
    Others,
}

/// The admission controller that is alive, if one is.
///
/// # Errors
/// The API server cannot be reached or refuses.
pub(crate) async fn alive(
    client: &Client,
    lease: &LeaseName,
    timeout: SignedDuration,
    now: Timestamp,
) -> Result<Option<Admission>, kube::Error> {
    let found = lease.api(client).get_opt(&lease.name).await?;
    let valid = found.filter(|lease| is_valid(lease, now, timeout));
    Ok(valid.map(|lease| if is_of_others(&lease) { Admission::Others } else { Admission::Ours }))
}

fn is_valid(lease: &Lease, now: Timestamp, timeout: SignedDuration) -> bool {
    let renewed = lease.spec.as_ref().and_then(|spec| spec.renew_time.as_ref()).map(|time| time.0);
    let created = lease.metadata.creation_timestamp.as_ref().map(|time| time.0);
    renewed.max(created).is_some_and(|at| now.duration_since(at) < timeout)
}

async fn renew(client: &Client, lease: &LeaseName, now: Timestamp, holder: &str) -> Result<(), kube::Error> {
    let (leases, name) = (lease.api(client), &lease.name);
    let renew_time = k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime(now);
    let spec = json!({"holderIdentity": holder, "renewTime": renew_time});
    let renewed = leases.patch(name, &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await;
    match renewed {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            let new = json!({"metadata": {"name": name}, "spec": spec});
            let new: Lease = serde_json::from_value(new).map_err(kube::Error::SerdeError)?;
            match leases.create(&PostParams::default(), &new).await {
                Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
                created => created.map(drop),
            }
        }
        renewed => renewed.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lease_name::RENEW;

    fn lease(created: &str, renewed: &str, holder: &str) -> Lease {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"holderIdentity": holder, "renewTime": renewed}
        }))
        .unwrap()
    }

    /// Upstream's `pkg/utils/status/status_object_test.go`: created or renewed within the timeout.
    #[test]
    fn a_lease_is_good_for_a_minute_after_it_was_created_or_renewed() {
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let (old, new) = ("2026-01-01T00:00:00.000000Z", "2026-01-01T00:59:30.000000Z");
        assert!(is_valid(&lease(new, old, "a"), now, VALID));
        assert!(is_valid(&lease(old, new, "a"), now, VALID));
        assert!(!is_valid(&lease(old, old, "a"), now, VALID));
        assert!(is_valid(&lease(old, old, "a"), now, SignedDuration::from_hours(2)));
    }

    #[test]
    fn ours_is_not_that_of_others() {
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        let of = |holder: &str| {
            is_held_by_others(&lease("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z", holder), now)
        };
        assert!(of("vpa-admission-controller-6f"));
        assert!(!of("pillion") && !of("pillion_host_1") && !of(""));
    }

    #[tokio::test(start_paused = true)]
    async fn the_lease_is_created_and_renewed() {
        let clock = pillion_clock::Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
        let in_memory = pillion_apiserver::Config::in_memory();
        let server = pillion_apiserver::ApiServer::new(pillion_apiserver::Config { clock, ..in_memory });
        server.bootstrap().await.unwrap();
        let client = Client::new(server.router(), "default");
        for lease in [LeaseName::default(), LeaseName { namespace: "default".into(), name: "other".into() }] {
            keeps(&client, clock, lease).await;
        }
    }

    async fn keeps(client: &Client, clock: pillion_clock::Clock, lease: LeaseName) {
        let alive = async || alive(client, &lease, VALID, clock.now()).await.unwrap();
        assert_eq!(alive().await, None);
        let keeping = tokio::spawn({
            let (client, lease) = (client.clone(), lease.clone());
            async move {
                let cluster = Cluster::new(client.clone());
                let metadata = json!({"name": "web", "namespace": "default", "uid": "1", "resourceVersion": "1"});
                let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
                let autoscaler = json!({"metadata": metadata, "spec": {"targetRef": target}});
                cluster.autoscalers().written(serde_json::from_value(autoscaler).unwrap());
                keep(&cluster, &client, &move || clock.now(), (&lease, RENEW), None).await;
            }
        });
        tokio::time::sleep(Duration::from_mins(5)).await;
        assert_eq!(alive().await, Some(Admission::Ours));
        keeping.abort();
        tokio::time::sleep(Duration::from_mins(2)).await;
        assert_eq!(alive().await, None);
    }
}
