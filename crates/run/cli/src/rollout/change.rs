//! Changes of a SidecarSet: paused, resumed, undone.

use kube::api::{Api, DynamicObject, Patch, PatchParams};
use pillion_api::names;
use pillion_api::sidecarset::{SidecarSet, revision};
use serde::Serialize;
use serde_json::{Value, json};

use super::found::{Found, again};
use super::history::{Entry, place};
use crate::cluster::read::Reader;
use crate::{Failure, chain};

/// Who owns the fields that are written.
const MANAGER: &str = "pillion-rollout";
/// How often an undo is tried again after somebody else has changed something else.
const ATTEMPTS: usize = 5;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Done {
    pub(crate) sidecar_set: String,
    /// `paused`, `resumed`, `rolled back to mesh-5986d5886`.
    pub(crate) result: String,
    /// What the user should know.
    #[serde(skip)]
    pub(crate) warnings: Vec<String>,
}

impl Done {
    pub(crate) fn new(set: &SidecarSet, result: impl Into<String>) -> Done {
        Done { sidecar_set: set.name().to_owned(), result: result.into(), warnings: Vec::new() }
    }
}

/// `updateStrategy.paused` becomes true.
pub(crate) async fn pause(reader: &Reader, found: &Found) -> Result<Done, Failure> {
    let set = &found.set;
    if set.spec.update_strategy.paused {
        return Err(Failure::no(format!("SidecarSet {:?} is already paused", set.name())));
    }
    patch(reader, found, &json!({"spec": {"updateStrategy": {"paused": true}}}))
        .await
        .map_err(|error| refused(set, &error))?;
    let mut done = Done::new(set, "paused");
    if !set.spec.update_strategy.updates_running_pods() {
        done.warnings.push("updateStrategy.type is NotUpdate: running pods are not updated anyway".to_owned());
    }
    Ok(done)
}

/// `updateStrategy.paused` becomes false, and the revision that the rollout has stopped at is to go on.
pub(crate) async fn resume(reader: &Reader, found: &Found) -> Result<Done, Failure> {
    let set = &found.set;
    let stopped_at = set.status.as_ref().and_then(|status| status.paused_revision.as_deref());
    let stopped_at = stopped_at.filter(|stopped| *stopped == revision::current_name(set));
    let stopped_at = stopped_at.filter(|stopped| set.annotation(names::RESUME) != Some(stopped));
    let is_paused = set.spec.update_strategy.paused;
    if !is_paused && stopped_at.is_none() {
        return Err(Failure::no(format!("SidecarSet {:?} is not paused", set.name())));
    }
    let mut body = json!({});
    if is_paused {
        body["spec"]["updateStrategy"]["paused"] = json!(false);
    }
    if let Some(revision) = stopped_at {
        body["metadata"]["annotations"][names::RESUME] = json!(revision);
    }
    patch(reader, found, &body).await.map_err(|error| refused(set, &error))?;
    Ok(Done::new(set, "resumed"))
}

/// What the earlier revision injects is written back. Writes of others in between are kept, and an undo that would overwrite another
/// revision than the one that the user has seen is refused.
pub(crate) async fn undo(
    reader: &Reader,
    found: &Found,
    revisions: &[Value],
    entries: &[Entry],
    to: Option<&str>,
) -> Result<Done, Failure> {
    let set = &found.set;
    let latest = revision::current_name(set);
    let chosen = match to {
        Some(wanted) => place(set, entries, wanted)?,
        None => entries
            .iter()
            .rposition(|entry| entry.name != latest)
            .ok_or_else(|| Failure::no(format!("SidecarSet {:?} has no revision before {latest}", set.name())))?,
    };
    let (Some(entry), Some(object)) = (entries.get(chosen), revisions.get(chosen)) else {
        return Err(Failure::no("the revisions have changed"));
    };
    if entry.name == latest {
        return Err(Failure::no(format!("SidecarSet {:?} has revision {latest} already", set.name())));
    }
    let mut body = revision::undo_patch(object).map_err(|error| Failure::no(error.to_string()))?;
    // v1alpha1 has a label in its place.
    if found.resource.version == "v1alpha1"
        && let Some(version) = body["spec"].as_object_mut().and_then(|spec| spec.shift_remove("customVersion"))
    {
        body["metadata"]["labels"][names::CUSTOM_VERSION] = version;
    }
    let mut current = found.clone();
    for _ in 0..ATTEMPTS {
        body["metadata"]["resourceVersion"] = json!(current.set.metadata.resource_version);
        match patch(reader, &current, &body).await {
            Ok(()) => return Ok(undone(&current.set, &entry.name)),
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => return Err(refused(set, &error)),
        }
        // The status is written all the time; only another revision is somebody else's change of what is undone.
        current = again(reader, &current).await?;
        let now = revision::current_name(&current.set);
        if now != latest {
            return Err(Failure::no(format!(
                "SidecarSet {:?} was changed meanwhile, from revision {latest} to {now}: nothing was undone",
                set.name()
            )));
        }
    }
    Err(Failure::no(format!("SidecarSet {:?} is changed too often: nothing was undone; try again", set.name())))
}

fn undone(set: &SidecarSet, revision: &str) -> Done {
    let mut done = Done::new(set, format!("rolled back to {revision}"));
    let strategy = &set.spec.update_strategy;
    if !strategy.updates_running_pods() {
        let message = "updateStrategy.type is NotUpdate: running pods keep what they have until they are recreated";
        done.warnings.push(message.to_owned());
    } else if strategy.paused {
        let message = format!("it is paused: `pillion rollout resume {}` updates running pods", set.name());
        done.warnings.push(message);
    }
    let pinned = set.spec.pinned_revision().and_then(|pinned| pinned.revision_name);
    if let Some(pinned) = pinned.filter(|pinned| pinned != revision) {
        done.warnings.push(format!("injectionStrategy.revision still gives new pods revision {pinned}"));
    }
    done
}

async fn patch(reader: &Reader, found: &Found, body: &Value) -> Result<(), kube::Error> {
    let sets: Api<DynamicObject> = Api::all_with(reader.client(), &found.resource);
    let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    sets.patch(found.set.name(), &params, &Patch::Merge(body)).await.map(drop)
}

fn refused(set: &SidecarSet, error: &kube::Error) -> Failure {
    let reason = match error {
        kube::Error::Api(status) => status.message.clone(),
        error => chain(error),
    };
    Failure::no(format!("cannot change SidecarSet {:?}: {reason}", set.name()))
}
