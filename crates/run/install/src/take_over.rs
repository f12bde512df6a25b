//! From OpenKruise and the VerticalPodAutoscaler project to us, with the rights of whoever installs: the manager's account may not delete what
//! is not its own.

use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Client, ResourceExt as _};
use pillion_manager::{Kruise, Peer, Standing};
use pillion_rightsizer::PeerPart;

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

/// Refuses to take a VerticalPodAutoscaler over while a component of it runs. Without the take-over each part of ours waits for its own.
pub(crate) async fn vpa_has_stopped(client: &Client, options: &Options) -> Result<(), Error> {
    if !options.takes_over(Peer::Vpa) {
        return Ok(());
    }
    let found = pillion_rightsizer::Peer::find_all(client, Timestamp::now()).await;
    let found = found.map_err(Error::api("read whether a VerticalPodAutoscaler runs"))?;
    let obstacle = found.iter().find_map(|peer| peer.obstacle(true));
    obstacle.map_or(Ok(()), |why| Err(Error::InTheWay { why }))
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
