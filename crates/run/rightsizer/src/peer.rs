//! Upstream's VerticalPodAutoscaler: whether it serves the same objects, and what has to happen before we do.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use pillion_api::names::VPA_ADMISSION_LEASE;
use tokio::time::Instant;

use crate::admission_lease::{self, NAMESPACE};
use crate::config::Now;

/// How often it is looked for while it is in the way.
const LOOK: Duration = Duration::from_secs(10);
/// How often it is looked for while it is not.
const LOOK_ON: Duration = Duration::from_secs(15);
/// How often the log repeats what is waited for.
const REMIND: Duration = Duration::from_mins(5);
/// How long a Lease is valid that does not say so.
const LEASE_SECONDS: i32 = 15;

/// A part of upstream's autoscaler. Each of ours waits for its own only, so that parts can be mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerPart {
    /// The recommender.
    Recommender,
    /// The updater.
    Updater,
    /// The admission controller.
    Admission,
}

impl PeerPart {
    /// All of them.
    pub const ALL: [PeerPart; 3] = [PeerPart::Recommender, PeerPart::Updater, PeerPart::Admission];

    /// What its manifests and its chart name the Deployment.
    pub fn deployment(self) -> &'static str {
        match self {
            PeerPart::Recommender => "vpa-recommender",
            PeerPart::Updater => "vpa-updater",
            PeerPart::Admission => "vpa-admission-controller",
        }
    }

    /// The Lease that it holds.
    pub fn lease(self) -> &'static str {
        match self {
            PeerPart::Recommender => "vpa-recommender-lease",
            PeerPart::Updater => "vpa-updater",
            PeerPart::Admission => VPA_ADMISSION_LEASE,
        }
    }

    /// The webhook configuration by which objects are sent to the admission controller.
    pub const CONFIGURATION: &'static str = "vpa-webhook-config";
}

/// How a part of upstream's autoscaler stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is none.
    Absent,
    /// It is installed, and does not run.
    Stopped,
    /// It runs.
    Serving,
}

/// A part of upstream's autoscaler as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Which part.
    pub part: PeerPart,
    /// How it stands.
    pub standing: Standing,
}

impl Peer {
    /// Looks for it.
    ///
    /// # Errors
    /// The API server cannot be reached or refuses.
    pub async fn find(client: &Client, part: PeerPart, now: Timestamp) -> Result<Peer, kube::Error> {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), NAMESPACE);
        let deployment = deployments.get_opt(part.deployment()).await?;
        let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
        let lease = leases.get_opt(part.lease()).await?;
        let is_registered = part == PeerPart::Admission && {
            let all: Api<PartialObjectMeta<MutatingWebhookConfiguration>> = Api::all(client.clone());
            all.get_metadata_opt(PeerPart::CONFIGURATION).await?.is_some()
        };
        let wants_replicas =
            |deployment: &Deployment| deployment.spec.as_ref().is_none_or(|spec| spec.replicas.unwrap_or(1) > 0);
        let is_held = lease.is_some_and(|lease| match part {
            PeerPart::Admission => admission_lease::is_held_by_others(&lease, now),
            PeerPart::Recommender | PeerPart::Updater => is_held(&lease, now),
        });
        let standing = if deployment.as_ref().is_some_and(wants_replicas) || is_held {
            Standing::Serving
        } else if deployment.is_some() || is_registered {
            Standing::Stopped
        } else {
            Standing::Absent
        };
        Ok(Peer { part, standing })
    }

    /// Why our part must not act while it stands so, and what to do about it.
    pub fn obstacle(self, may_take_over: bool) -> Option<String> {
        self.obstacle_and_remedy(may_take_over).map(|(obstacle, remedy)| format!("{obstacle}; {remedy}"))
    }

    /// The same, apart.
    pub fn obstacle_and_remedy(self, may_take_over: bool) -> Option<(String, String)> {
        let name = self.part.deployment();
        let upstream = format!("{name} of the VerticalPodAutoscaler project");
        let stop = format!("kubectl --namespace={NAMESPACE} scale deployment {name} --replicas=0");
        match (self.standing, may_take_over) {
            (Standing::Absent, _) | (Standing::Stopped, true) => None,
            (Standing::Serving, false) => {
                Some((format!("{upstream} runs"), format!("stop it (`{stop}`), then start with --take-over=vpa")))
            }
            (Standing::Serving, true) => Some((format!("{upstream} still runs"), format!("stop it: `{stop}`"))),
            (Standing::Stopped, false) => Some((
                format!("{upstream} is installed, but does not run"),
                "delete it, or start with --take-over=vpa".to_owned(),
            )),
        }
    }
}

fn is_held(lease: &Lease, now: Timestamp) -> bool {
    let Some(spec) = &lease.spec else { return false };
    let is_named = spec.holder_identity.as_ref().is_some_and(|holder| !holder.is_empty());
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(LEASE_SECONDS)).unwrap_or_default();
    let renewed = spec.renew_time.as_ref().map(|time| time.0);
    is_named && renewed.is_some_and(|renewed| now < renewed + Duration::from_secs(seconds))
}

/// Returns when upstream's part, which did not act so far, is there.
pub async fn until_there(client: &Client, now: &Now, part: PeerPart, may_take_over: bool) {
    loop {
        tokio::time::sleep(LOOK_ON).await;
        match Peer::find(client, part, now()).await.map(|peer| peer.obstacle(may_take_over)) {
            Ok(None) => {}
            Ok(Some(obstacle)) => {
                tracing::warn!("standing by in the place of {}: {obstacle}", part.deployment());
                return;
            }
            Err(error) => tracing::debug!(%error, part = part.deployment(), "cannot read whether it runs"),
        }
    }
}

/// Returns when upstream's part does not act any more. Until then the log says what is waited for.
pub async fn until_alone(client: &Client, now: &Now, part: PeerPart, may_take_over: bool) {
    let mut logged: Option<(String, Instant)> = None;
    loop {
        let obstacle = match Peer::find(client, part, now()).await {
            Ok(peer) => peer.obstacle(may_take_over),
            Err(error) => Some(format!("cannot read whether {} runs: {error}", part.deployment())),
        };
        let Some(obstacle) = obstacle else { break };
        if logged.as_ref().is_none_or(|(before, at)| *before != obstacle || at.elapsed() >= REMIND) {
            tracing::warn!("waiting: {obstacle}");
            logged = Some((obstacle, Instant::now()));
        }
        tokio::time::sleep(LOOK).await;
    }
    if logged.is_some() {
        tracing::info!("{} does not run any more; going on", part.deployment());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_is_in_the_way_and_what_is_left_over_only_without_take_over() {
        let obstacle = |standing, may| Peer { part: PeerPart::Updater, standing }.obstacle(may);
        assert_eq!(obstacle(Standing::Absent, false), None);
        assert_eq!(obstacle(Standing::Stopped, true), None);
        assert!(obstacle(Standing::Stopped, false).unwrap().contains("--take-over=vpa"));
        let stop = "kubectl --namespace=kube-system scale deployment vpa-updater --replicas=0";
        assert!(obstacle(Standing::Serving, true).unwrap().contains(stop));
        assert!(obstacle(Standing::Serving, false).unwrap().contains(stop));
    }

    #[test]
    fn a_lease_counts_while_it_is_renewed() {
        let lease = |holder: &str| -> Lease {
            serde_json::from_value(serde_json::json!({"metadata": {}, "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"
            }}))
            .unwrap()
        };
        let at = |text: &str| text.parse().unwrap();
        assert!(is_held(&lease("a"), at("2026-01-01T00:00:14Z")));
        assert!(!is_held(&lease("a"), at("2026-01-01T00:00:15Z")));
        assert!(!is_held(&lease(""), at("2026-01-01T00:00:14Z")));
    }
}
