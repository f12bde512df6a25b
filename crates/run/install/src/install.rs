//! From manifests to a manager that answers.

use std::time::Duration;

use kube::Client;
use pillion_api::{names, probe_marker};
use pillion_manager::Peer;
use serde_json::Value;
use tokio::time::Instant;

use crate::error::Error;
use crate::manifests::manifests;
use crate::objects::{Manager, Place, Say, installed, manager_of};
use crate::options::Options;
use crate::{check, ready, take_over};

/// Installs Pillion, or brings an installation to these options, and returns when an admission has gone through the manager.
///
/// `say` gets a line for each step. Nothing is changed if an object is in the way that is not part of an installation.
///
/// # Errors
/// The API server refuses, an object is in the way, or the manager does not answer in time.
pub async fn install(client: &Client, options: &Options, timeout: Duration, say: Say<'_>) -> Result<(), Error> {
    let wanted = manifests(options);
    let used_as_they_are = check_what_is_there(client, options, &wanted).await?;
    // Whatever refuses comes before anything is deleted.
    take_over::vpa_has_stopped(client, options, say).await?;
    take_over::kruise(client, options, say).await?;
    take_over::vpa(client, options, say).await?;
    for manifest in &wanted {
        let place = Place::of(manifest);
        if !used_as_they_are.contains(&place) {
            place.apply(client, manifest, say).await?;
        }
    }
    prune(client, &wanted, say).await?;
    let deadline = Instant::now() + timeout;
    ready::wait(client, options, deadline, timeout, say).await?;
    check::admission(client, options, deadline, timeout, say).await
}

/// Refuses to go on if anything would be overwritten. Gives what somebody else manages and is used as it is: namespaces, and the definitions
/// of the VerticalPodAutoscaler project and of PodProbeMarker.
async fn check_what_is_there(client: &Client, options: &Options, wanted: &[Value]) -> Result<Vec<Place>, Error> {
    let (mut used, mut foreign, mut has_definition) = (Vec::new(), Vec::new(), false);
    for place in wanted.iter().map(Place::of) {
        let Some(live) = place.get(client).await? else { continue };
        let manager = match manager_of(&live) {
            Manager::Ours => continue,
            Manager::Helm(release) if place.is("Deployment") => return Err(Error::Helm { release }),
            _ if place.is("Namespace") || of_others(&place) => {
                used.push(place);
                continue;
            }
            _ if place.is("CustomResourceDefinition") && options.takes_over(Peer::Kruise) => continue,
            Manager::Helm(release) => format!("Helm release {release:?}"),
            Manager::Other(Some(name)) => format!("{name:?}"),
            Manager::Other(None) => "an unknown manager".to_owned(),
        };
        has_definition |= place.is("CustomResourceDefinition");
        foreign.push(format!("{place} (of {manager})"));
    }
    if !foreign.is_empty() {
        return Err(Error::Foreign { objects: foreign, has_definition });
    }
    elsewhere(client, options).await?;
    Ok(used)
}

/// Definitions that are as good as ours.
fn of_others(place: &Place) -> bool {
    place.name.ends_with(names::AUTOSCALING_GROUP) || place.name == probe_marker::DEFINITION
}

/// The webhook configurations and the roles of the cluster exist once.
async fn elsewhere(client: &Client, options: &Options) -> Result<(), Error> {
    let installed = installed(client).await?.into_iter().filter(|place| place.is("Deployment"));
    let mut namespaces = installed.filter_map(|place| place.namespace);
    match namespaces.find(|namespace| *namespace != options.namespace) {
        Some(namespace) => Err(Error::Elsewhere { namespace }),
        None => Ok(()),
    }
}

/// Deletes what an earlier installation had and this one has not. Namespaces and definitions hold what belongs to users.
async fn prune(client: &Client, wanted: &[Value], say: Say<'_>) -> Result<(), Error> {
    let wanted: Vec<Place> = wanted.iter().map(Place::of).collect();
    for place in installed(client).await? {
        let holds_others = place.is("Namespace") || place.is("CustomResourceDefinition");
        if !holds_others && !wanted.contains(&place) {
            place.delete(client, say).await?;
        }
    }
    Ok(())
}
