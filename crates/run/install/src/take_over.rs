//! From OpenKruise and the VerticalPodAutoscaler project to us, with the rights of whoever installs: the manager's account may not delete what
//! is not its own.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use pillion_manager::{Kruise, Peer, Standing};
use pillion_rightsizer::{PeerPart, admission_lease};

use crate::error::Error;
use crate::objects::{Place, Say};
use crate::options::Options;

/// Deletes the webhook configurations that a stopped OpenKruise has left, if it is to be taken over. While one runs, nothing is changed.
pub(crate) async fn kruise(client: &Client, options: &Options, say: Say<'_>) -> Result<(), Error> {
    let find = async || {
        let found = Kruise::find(client, &options.revisions_namespace).await;
        found.map_err(Error::api("read whether OpenKruise serves SidecarSets"))
    };
    let found = find().await?;
    if found.configurations.is_empty() && found.lease.is_none() {
        return Ok(());
    }
    // The clocks of two machines differ: whether it runs is seen by whether it renews its Lease.
    let mut standing = if found.configurations.is_empty() { Standing::Absent } else { Standing::Stopped };
    if let Some((renewed, duration)) = found.lease {
        say(&format!("waiting {} s to see whether OpenKruise runs", duration.as_secs()));
        tokio::time::sleep(duration).await;
        if find().await?.lease.is_some_and(|(again, _)| again != renewed) {
            standing = Standing::Serving;
        }
    }
    let may_take_over = options.takes_over(Peer::Kruise);
    if standing == Standing::Stopped && may_take_over {
        for (kind, name) in found.configurations {
            Place::new("admissionregistration.k8s.io/v1", kind, None, name).delete(client, say).await?;
        }
        return Ok(());
    }
    found.obstacle(standing, may_take_over).map_or(Ok(()), |why| Err(Error::InTheWay { why }))
}

/// A Lease of the VerticalPodAutoscaler project that somebody holds, or has held last.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    part: PeerPart,
    holder: String,
    renewed: Option<Timestamp>,
    /// After this long its holder must have renewed it.
    lasts: Duration,
}

/// How long we watch whether a Lease is renewed, whatever it says of itself: an admission controller renews its own every 10 seconds, and
/// calls it dead after a minute.
const SHORTEST: Duration = Duration::from_secs(15);
const LONGEST: Duration = Duration::from_mins(1);

/// Refuses to take a VerticalPodAutoscaler over while a component of it runs. Without the take-over each part of ours waits for its own.
pub(crate) async fn vpa_has_stopped(client: &Client, options: &Options, say: Say<'_>) -> Result<(), Error> {
    if !options.takes_over(Peer::Vpa) {
        return Ok(());
    }
    // Deployments first: at the end of time no Lease is valid.
    let found = pillion_rightsizer::Peer::find_all(client, Timestamp::MAX).await;
    let found = found.map_err(Error::api("read whether a VerticalPodAutoscaler runs"))?;
    if let Some(why) = found.iter().find_map(|peer| peer.obstacle(true)) {
        return Err(Error::InTheWay { why });
    }
    // One that was just stopped has left its Lease, and the clocks of two machines differ: whether it runs is seen by whether it renews it.
    let before = held(client).await?;
    let Some(lasts) = before.iter().map(|lease| lease.lasts).max() else { return Ok(()) };
    say(&format!("waiting {} s to see whether a VerticalPodAutoscaler runs", lasts.as_secs()));
    tokio::time::sleep(lasts).await;
    match held(client).await?.into_iter().find(|lease| !before.contains(lease)) {
        None => Ok(()),
        Some(Held { part, holder, .. }) => {
            let (part, lease) = (part.deployment(), part.lease());
            let why = format!(
                "{part} of the VerticalPodAutoscaler project still runs: {holder:?} renews Lease {}/{lease}, and no Deployment of it has \
                 replicas; try again when it has ended, or stop what runs it",
                admission_lease::NAMESPACE
            );
            Err(Error::InTheWay { why })
        }
    }
}

/// The Leases of the VerticalPodAutoscaler project that are not ours.
async fn held(client: &Client) -> Result<Vec<Held>, Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), admission_lease::NAMESPACE);
    let mut found = Vec::new();
    for part in PeerPart::ALL {
        let live = leases.get_opt(part.lease()).await;
        let live = live.map_err(Error::api(format!("read Lease {:?} of a VerticalPodAutoscaler", part.lease())))?;
        let Some(spec) = live.and_then(|live| live.spec) else { continue };
        let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else { continue };
        // Our webhooks hold that of the admission controller.
        if part == PeerPart::Admission && admission_lease::is_ours(&holder) {
            continue;
        }
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = seconds.map_or(SHORTEST, Duration::from_secs).clamp(SHORTEST, LONGEST);
        found.push(Held { part, holder, renewed: spec.renew_time.map(|time| time.0), lasts });
    }
    Ok(found)
}

/// Deletes the webhook configurations that a stopped VerticalPodAutoscaler has left, if it is taken over: pods would be sent to nobody. Charts
/// give them names of their own; the manager may not list them, whoever installs may.
pub(crate) async fn vpa(client: &Client, options: &Options, say: Say<'_>) -> Result<(), Error> {
    if !options.takes_over(Peer::Vpa) {
        return Ok(());
    }
    let place = |name: &str| Place::new("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration", None, name);
    let all = place("").api(client).list(&ListParams::default()).await;
    for live in all.map_err(Error::api("list mutatingwebhookconfigurations"))? {
        let mut webhooks = live.data["webhooks"].as_array().into_iter().flatten();
        let name = live.name_any();
        if name == PeerPart::CONFIGURATION || webhooks.any(|webhook| webhook["name"] == PeerPart::WEBHOOK) {
            place(&name).delete(client, say).await?;
        }
    }
    Ok(())
}
