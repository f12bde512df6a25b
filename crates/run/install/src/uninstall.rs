//! Taking an installation away.
//!
//! ```text
//!  configurations ─▶ SidecarSets in one stored version ─▶ manager ─▶ conversion ─▶ the rest ─▶ (all: users' objects, definitions)
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_api::names;
use pillion_manager::ControllerName;
use pillion_rightsizer::{PeerPart, admission_lease};
use serde_json::json;
use tokio::time::Instant;

use crate::error::Error;
use crate::manifests::{CERTIFICATE_SECRET, CONFIGURATION, MANAGER};
use crate::objects::{FIELD_MANAGER, Manager, Place, Say, TICK, installed, manager_of};
use crate::{agents_left, check, migrate, namespaces, ready};

const LEASES: &str = "coordination.k8s.io/v1";
const ADMISSION: &str = "admissionregistration.k8s.io/v1";
const CONFIGURATIONS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

/// Removes an installation. With `all`, SidecarSets and VerticalPodAutoscalers, their revisions, checkpoints and definitions go too; otherwise
/// they stay, readable and editable without the manager. Definitions of somebody else stay with what they define, and namespaces with what
/// somebody else has in them. Objects of in-pod agents, which users have applied, stay and are named.
///
/// What is not there needs no removal: an uninstallation that was interrupted is completed by the next one.
///
/// # Errors
/// The API server refuses, Helm has installed Pillion, or something does not go away in time.
pub async fn uninstall(client: &Client, all: bool, timeout: Duration, say: Say<'_>) -> Result<(), Error> {
    refuse_a_release_of_helm(client).await?;
    let installed = installed(client).await?;
    let definition = migrate::definition(client).await?;
    // First of all nobody waits for the manager any more.
    for place in installed.iter().filter(|place| is_configuration(place)) {
        place.delete(client, say).await?;
    }
    if let Some(definition) = &definition {
        check::clean_up(client).await?;
        if !all {
            migrate::to_storage_version(client, definition, say).await?;
        }
    }
    for deployment in installed.iter().filter(|place| place.is("Deployment")) {
        deployment.delete(client, say).await?;
    }
    let accounts = installed.iter().filter(|place| place.is("ServiceAccount"));
    let homes: BTreeSet<&str> = accounts.filter_map(|account| account.namespace.as_deref()).collect();
    for home in homes {
        stopped(client, home, timeout, async || Ok(())).await?;
        // The manager made these itself.
        Place::new("v1", "Secret", Some(home), CERTIFICATE_SECRET).delete(client, say).await?;
        for controller in ControllerName::ALL {
            Place::new(LEASES, "Lease", Some(home), controller.lease()).delete(client, say).await?;
        }
        for places in places_of_partitions(client, home).await? {
            places.delete(client, say).await?;
        }
    }
    give_back_admission_lease(client, say).await?;
    if let Some(definition) = &definition {
        migrate::without_webhook(client, definition, say).await?;
    }
    let (mut kept, mut last) = (Vec::new(), Vec::new());
    // The account that says where the manager was goes after what is found by it, and namespaces go when they are empty.
    for place in installed.iter().rev() {
        if place.is("CustomResourceDefinition") {
            kept.push(place);
        } else if place.is("Namespace") {
            last.push(place);
        } else {
            place.delete(client, say).await?;
        }
    }
    let mut going = Vec::new();
    for namespace in last {
        if namespaces::holds_revisions(client, namespace).await? {
            if !all {
                say(&format!("{namespace} stays, with the revisions of SidecarSets"));
            }
            kept.push(namespace);
        } else if namespaces::delete_or_leave(client, namespace, say).await? {
            going.push(namespace);
        }
    }
    for namespace in going {
        namespace.is_gone(client, timeout).await?;
    }
    if all {
        remove_what_users_have(client, &kept, timeout, say).await?;
    }
    Ok(())
}

/// What must happen before a Helm release is deleted: nothing is sent to the manager's webhooks any more, SidecarSets are stored in one version,
/// the manager is stopped, and conversion needs no webhook.
///
/// # Errors
/// The API server refuses, or the manager does not stop in time.
pub async fn prepare(client: &Client, namespace: &str, timeout: Duration, say: Say<'_>) -> Result<(), Error> {
    // First of all nobody waits for the manager any more. As long as it leads it registers itself again, so that this is done until it is gone.
    unregister(client).await?;
    let definition = migrate::definition(client).await?;
    if let Some(definition) = &definition {
        migrate::to_storage_version(client, definition, say).await?;
    }
    let manager = Place::new("apps/v1", "Deployment", Some(namespace), MANAGER);
    if manager.get(client).await?.is_some() {
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        let what = Error::api(format!("stop {manager}"));
        manager.api(client).patch_scale(MANAGER, &PatchParams::default(), &none).await.map_err(what)?;
        stopped(client, namespace, timeout, async || unregister(client).await).await?;
        say("the manager is stopped");
    }
    unregister(client).await?;
    say("no webhook of the manager is registered");
    match &definition {
        Some(definition) => migrate::without_webhook(client, definition, say).await,
        None => Ok(()),
    }
}

/// Takes the manager's webhooks out of its configurations, which are Helm's to delete.
async fn unregister(client: &Client) -> Result<(), Error> {
    for kind in CONFIGURATIONS {
        let place = Place::new(ADMISSION, kind, None, CONFIGURATION);
        let Some(live) = place.get(client).await? else { continue };
        if live.data["webhooks"].as_array().is_none_or(Vec::is_empty) {
            continue;
        }
        let merge = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patched = place.api(client).patch(&place.name, &merge, &Patch::Merge(json!({"webhooks": []}))).await;
        patched.map_err(Error::api(format!("take the webhooks out of {place}")))?;
    }
    Ok(())
}

fn is_configuration(place: &Place) -> bool {
    CONFIGURATIONS.iter().any(|kind| place.is(kind))
}

/// Helm keeps a record of what it has installed.
async fn refuse_a_release_of_helm(client: &Client) -> Result<(), Error> {
    let configuration = Place::new(ADMISSION, CONFIGURATIONS[0], None, CONFIGURATION);
    match configuration.get(client).await?.as_ref().map(manager_of) {
        Some(Manager::Helm(release)) => Err(Error::Helm { release }),
        _ => Ok(()),
    }
}

/// Waits until no replica of the manager runs: one that does sets the conversion webhook again. Until then `meanwhile` is done again and again.
async fn stopped(
    client: &Client,
    namespace: &str,
    timeout: Duration,
    meanwhile: impl AsyncFn() -> Result<(), Error>,
) -> Result<(), Error> {
    let deadline = Instant::now() + timeout;
    loop {
        meanwhile().await?;
        let pods = ready::pods(client, namespace).await?;
        let Some(pod) = pods.first() else { return Ok(()) };
        if Instant::now() >= deadline {
            let what = format!("pod {}", pod.metadata.name.as_deref().unwrap_or_default());
            return Err(Error::NotGone { what, seconds: timeout.as_secs() });
        }
        tokio::time::sleep(TICK).await;
    }
}

/// The ConfigMaps in which the places of partitions are counted. In a namespace that is not ours they do not go with it.
async fn places_of_partitions(client: &Client, home: &str) -> Result<Vec<Place>, Error> {
    let place = |name: &str| Place::new("v1", "ConfigMap", Some(home), name);
    let of_sets = ListParams::default().labels(names::REVISION_OWNER);
    let found = place("").api(client).list_metadata(&of_sets).await;
    let found = found.map_err(Error::api("list the ConfigMaps with places of partitions"))?.items;
    Ok(found.iter().filter_map(|map| map.metadata.name.as_deref()).map(place).collect())
}

/// The Lease by which updaters know that an admission controller is alive. It has upstream's name, and may be upstream's.
async fn give_back_admission_lease(client: &Client, say: Say<'_>) -> Result<(), Error> {
    let lease = Place::new(LEASES, "Lease", Some(admission_lease::NAMESPACE), PeerPart::Admission.lease());
    let live = lease.get(client).await?;
    let holder = live.as_ref().and_then(|live| live.data["spec"]["holderIdentity"].as_str()).unwrap_or_default();
    if admission_lease::is_ours(holder) {
        lease.delete(client, say).await?;
    }
    Ok(())
}

/// The VerticalPodAutoscalers, or the checkpoints, that go with their definition.
async fn say_what_goes_with(client: &Client, definition: &Place, say: Say<'_>) -> Result<(), Error> {
    let Some(live) = definition.get(client).await? else { return Ok(()) };
    let kind = live.data["spec"]["names"]["kind"].as_str().unwrap_or_default();
    let all = Place::new(&format!("{}/v1", names::AUTOSCALING_GROUP), kind, None, "").api(client);
    let found = all.list_metadata(&ListParams::default()).await.map_err(Error::api(format!("list every {kind}")))?;
    say(&format!("{} deleted", counted(found.items.len(), kind)));
    Ok(())
}

/// The configurations that were mirrored for in-pod agents. Pods that run have read them.
async fn delete_mirrors(client: &Client, say: Say<'_>) -> Result<(), Error> {
    let labels = ListParams::default().labels(&format!("{}=config", names::agent::LABEL));
    let all = Place::new("v1", "ConfigMap", None, "").api(client);
    let found = all.list_metadata(&labels).await.map_err(Error::api("list the configurations of agents"))?;
    for map in found.items.iter().filter(|map| map.annotations().contains_key(names::agent::MIRROR_OF)) {
        Place::new("v1", "ConfigMap", map.namespace().as_deref(), &map.name_any()).delete(client, say).await?;
    }
    Ok(())
}

fn counted(count: usize, kind: &str) -> String {
    format!("{count} {kind}{}", if count == 1 { "" } else { "s" })
}

/// SidecarSets, VerticalPodAutoscalers, their revisions and checkpoints, their definitions, the namespace of the revisions, and the
/// configurations that were mirrored for agents. A definition of somebody else stays, with what it defines.
async fn remove_what_users_have(
    client: &Client,
    kept: &[&Place],
    timeout: Duration,
    say: Say<'_>,
) -> Result<(), Error> {
    delete_mirrors(client, say).await?;
    let definitions = || kept.iter().filter(|place| place.is("CustomResourceDefinition"));
    let of_sets = |place: &&&Place| place.name == migrate::definition_name();
    for place in definitions() {
        if of_sets(&place)
            && let Some(definition) = migrate::definition(client).await?
        {
            let deleted = migrate::delete_all(client, &definition).await?;
            say(&format!("{} deleted", counted(deleted, "SidecarSet")));
        }
        if place.name.ends_with(names::AUTOSCALING_GROUP) {
            say_what_goes_with(client, place, say).await?;
        }
        place.delete(client, say).await?;
        place.is_gone(client, timeout).await?;
    }
    if definitions().any(|place| of_sets(&place)) {
        delete_revisions(client, say).await?;
    } else if migrate::definition(client).await?.is_some() {
        say("the definition of SidecarSet is not part of the installation: it stays, and its SidecarSets with it");
    }
    for place in kept.iter().filter(|place| place.is("Namespace")) {
        if namespaces::delete_or_leave(client, place, say).await? {
            place.is_gone(client, timeout).await?;
        }
    }
    agents_left::say_what_stays(client, say).await
}

async fn delete_revisions(client: &Client, say: Say<'_>) -> Result<(), Error> {
    let all: Api<ControllerRevision> = Api::all(client.clone());
    let of_sets = ListParams::default().labels(names::REVISION_OWNER);
    let found = all.list(&of_sets).await.map_err(Error::api("list the revisions of SidecarSets"))?;
    for revision in &found.items {
        let (namespace, name) = (&revision.metadata.namespace, revision.metadata.name.as_deref().unwrap_or_default());
        let revisions: Api<ControllerRevision> =
            Api::namespaced(client.clone(), namespace.as_deref().unwrap_or_default());
        match revisions.delete(name, &DeleteParams::background()).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            Err(error) => return Err(Error::api(format!("delete ControllerRevision {name:?}"))(error)),
        }
    }
    if !found.items.is_empty() {
        say(&format!("{} of SidecarSets deleted", counted(found.items.len(), "revision")));
    }
    Ok(())
}
