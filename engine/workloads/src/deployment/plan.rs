//! What a Deployment does next.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DeploymentStatus;
use kube::ResourceExt as _;
use serde_json::{Value, json};

use super::annotations::{self, Annotations};
use super::rollout::{self, wanted};
use super::set::{POD_TEMPLATE_HASH, Set, same_template};
use super::status;
use crate::hash::revision_hash;
use crate::kinds::{Deployment, ReplicaSet};
use crate::write::controller_reference;

/// The next step.
#[derive(Debug)]
pub(super) struct Plan {
    /// The ReplicaSet to create.
    pub(super) create: Option<NewSet>,
    /// What to change, of each ReplicaSet that is changed.
    pub(super) changes: Vec<SetChange>,
    /// The name of each ReplicaSet to delete.
    pub(super) delete: Vec<String>,
    pub(super) status: DeploymentStatus,
    /// The revision to write on the Deployment, if it is known.
    pub(super) revision: Option<String>,
    /// When to look again, if nothing happens.
    pub(super) check_again: Option<Duration>,
}

/// A ReplicaSet that does not exist yet.
#[derive(Debug)]
pub(super) struct NewSet {
    pub(super) name: String,
    pub(super) replicas: i32,
    pub(super) object: Value,
}

/// How a ReplicaSet is changed.
#[derive(Debug)]
pub(super) struct SetChange {
    pub(super) name: String,
    pub(super) resource_version: Option<String>,
    pub(super) from: i32,
    pub(super) to: i32,
    pub(super) min_ready_seconds: i32,
    pub(super) annotations: Annotations,
}

/// How the status is made.
#[derive(PartialEq)]
enum Saying {
    /// The numbers only.
    Numbers,
    /// How the rollout goes on, too.
    Progress,
}

/// The next step of a Deployment. `has_live_pods` says whether a ReplicaSet, by uid, has pods that have not ended.
pub(super) fn plan(
    deployment: &Deployment,
    sets: &[Arc<ReplicaSet>],
    has_live_pods: impl Fn(&str) -> bool,
    now: Timestamp,
) -> Plan {
    let mut working = Working::new(deployment, sets, now);
    let saying = if deployment.metadata.deletion_timestamp.is_some() {
        working.sync_new();
        Saying::Numbers
    } else {
        status::paused(deployment, &mut working.status, now);
        working.sync_new();
        if deployment.spec.paused || working.is_resized() {
            let actual = deployment.status.replicas.unwrap_or(0);
            rollout::scale(deployment, working.new.as_mut(), &mut working.old, actual);
            if deployment.spec.paused {
                working.clean_up();
            }
            Saying::Numbers
        } else {
            if rollout::is_rolling(&deployment.spec.strategy) {
                working.roll();
            } else {
                working.recreate(has_live_pods);
            }
            Saying::Progress
        }
    };
    working.finish(&saying)
}

/// The Deployment while it is decided upon.
struct Working<'a> {
    deployment: &'a Deployment,
    now: Timestamp,
    new: Option<Set>,
    old: Vec<Set>,
    /// The status with the conditions that were decided so far.
    status: DeploymentStatus,
    revision: Option<String>,
    delete: Vec<String>,
}

impl Working<'_> {
    fn new<'a>(deployment: &'a Deployment, sets: &[Arc<ReplicaSet>], now: Timestamp) -> Working<'a> {
        let mut sets: Vec<&Arc<ReplicaSet>> = sets.iter().collect();
        sets.sort_by_key(|set| (set.metadata.creation_timestamp.as_ref().map(|time| time.0), set.name_any()));
        // If several have the template, it is the oldest.
        let new = sets.iter().position(|set| same_template(&set.spec.template, &deployment.spec.template));
        let new = new.map(|new| Set::of(sets.remove(new)));
        let old = sets.into_iter().map(Set::of).collect();
        let status = deployment.status.clone();
        Working { deployment, now, new, old, status, revision: None, delete: Vec::new() }
    }

    /// One more than that of all old sets.
    fn next_revision(&self) -> i64 {
        let revisions = self.old.iter().filter_map(|set| annotations::revision(&set.annotations));
        revisions.max().unwrap_or(0).max(0) + 1
    }

    /// Brings the existing new set up to the Deployment.
    fn sync_new(&mut self) {
        let revision = self.next_revision();
        let Some(new) = &mut self.new else { return };
        annotations::inherit(&mut new.annotations, self.deployment.annotations(), revision);
        new.min_ready_seconds = self.deployment.spec.min_ready_seconds;
        self.revision = new.annotations.get(annotations::REVISION).cloned();
        if status::progressing(&self.status).is_none() {
            let message = format!("Found new replica set \"{}\"", new.name);
            let reason = status::FOUND_NEW_REPLICA_SET;
            status::progresses(self.deployment, &mut self.status, reason, message, self.now);
        }
    }

    /// A new set for the template, as large as it may be at once.
    fn create_new(&mut self) {
        let deployment = self.deployment;
        let hash = revision_hash(&deployment.spec.template, self.status.collision_count);
        let name = replica_set_name(&deployment.name_any(), &hash);
        let revision = self.next_revision();
        let mut annotations = Annotations::new();
        annotations::inherit(&mut annotations, deployment.annotations(), revision);
        let all = self.old.iter().map(|set| set.replicas).sum();
        let mut new = Set {
            name,
            replicas: rollout::new_size(deployment, 0, all),
            min_ready_seconds: deployment.spec.min_ready_seconds,
            annotations,
            status: k8s_openapi::api::apps::v1::ReplicaSetStatus::default(),
            origin: None,
        };
        rollout::note_size(&mut new, deployment);
        let message = format!("Created new replica set \"{}\"", new.name);
        let reason = status::NEW_REPLICA_SET_CREATED;
        status::progresses(deployment, &mut self.status, reason, message, self.now);
        self.revision = Some(revision.to_string());
        self.new = Some(new);
    }

    /// Whether an active set was sized for another size of the Deployment.
    fn is_resized(&self) -> bool {
        let wanted = wanted(self.deployment);
        let active = self.old.iter().chain(&self.new).filter(|set| set.is_active());
        active.filter_map(|set| annotations::desired_replicas(&set.annotations)).any(|desired| desired != wanted)
    }

    fn roll(&mut self) {
        if self.new.is_none() {
            self.create_new();
        }
        let all = self.old.iter().chain(&self.new).map(|set| set.replicas).sum();
        let Some(new) = &mut self.new else { return };
        let wanted = wanted(self.deployment);
        let size = if new.replicas > wanted { wanted } else { rollout::new_size(self.deployment, new.replicas, all) };
        if size != new.replicas {
            new.replicas = size;
            rollout::note_size(new, self.deployment);
            return;
        }
        let before: i32 = self.old.iter().map(|set| set.replicas).sum();
        rollout::shrink_old(self.deployment, new, &mut self.old);
        if before == self.old.iter().map(|set| set.replicas).sum::<i32>() {
            self.clean_up_if_complete();
        }
    }

    fn recreate(&mut self, has_live_pods: impl Fn(&str) -> bool) {
        let active = self.old.iter_mut().filter(|set| set.is_active());
        let stopped = active.map(|set| set.replicas = 0).count();
        if stopped > 0 || self.old.iter().any(|set| set.status.replicas > 0) {
            return;
        }
        let uids = self.old.iter().filter_map(|set| set.origin.as_ref()?.metadata.uid.as_deref());
        if uids.into_iter().any(has_live_pods) {
            return;
        }
        match &mut self.new {
            None => self.create_new(),
            Some(new) if new.replicas != wanted(self.deployment) => {
                new.replicas = wanted(self.deployment);
                rollout::note_size(new, self.deployment);
            }
            Some(_) => {}
        }
        self.clean_up_if_complete();
    }

    fn clean_up_if_complete(&mut self) {
        if status::is_complete(self.deployment, &self.deployment.status) {
            self.clean_up();
        }
    }

    /// Forgets the oldest revisions, where more are kept than wanted.
    fn clean_up(&mut self) {
        let limit = self.deployment.spec.revision_history_limit.filter(|limit| *limit != i32::MAX);
        let Some(limit) = limit.and_then(|limit| usize::try_from(limit).ok()) else { return };
        let mut kept: Vec<&Set> = self.old.iter().filter(|set| !set.is_going()).collect();
        kept.sort_by_key(|set| (annotations::revision(&set.annotations).unwrap_or(0), set.age()));
        let surplus = kept.len().saturating_sub(limit);
        let spent = kept.into_iter().take(surplus).filter(|set| set.is_spent());
        self.delete = spent.map(|set| set.name.clone()).collect();
    }

    fn finish(self, saying: &Saying) -> Plan {
        let Working { deployment, now, new, mut old, status, revision, delete } = self;
        for set in &mut old {
            if set.origin.as_ref().is_some_and(|origin| origin.spec.replicas != Some(set.replicas)) {
                rollout::note_size(set, deployment);
            }
        }
        let numbers = status::numbers(deployment, &status, new.as_ref(), &old, now);
        let says = match saying {
            Saying::Numbers => numbers,
            Saying::Progress => status::rollout(deployment, &status, numbers, new.as_ref(), &old, now),
        };
        Plan {
            changes: new.iter().chain(&old).filter_map(change).collect(),
            create: new.filter(|new| new.origin.is_none()).map(|new| new_set(deployment, new)),
            delete,
            check_again: (*saying == Saying::Progress).then(|| status::check_again(deployment, &says, now)).flatten(),
            status: says,
            revision,
        }
    }
}

fn change(set: &Set) -> Option<SetChange> {
    let origin = set.origin.as_ref()?;
    let from = origin.spec.replicas.unwrap_or(1);
    let same = set.replicas == from
        && set.min_ready_seconds == origin.spec.min_ready_seconds
        && set.annotations == *origin.annotations();
    (!same).then(|| SetChange {
        name: set.name.clone(),
        resource_version: origin.resource_version(),
        from,
        to: set.replicas,
        min_ready_seconds: set.min_ready_seconds,
        annotations: set.annotations.clone(),
    })
}

fn new_set(deployment: &Deployment, new: Set) -> NewSet {
    let hash = new.name.rsplit('-').next().unwrap_or_default();
    let mut template = deployment.spec.template.clone();
    template["metadata"]["labels"][POD_TEMPLATE_HASH] = hash.into();
    let mut selector = deployment.spec.selector.clone();
    selector.match_labels.get_or_insert_default().insert(POD_TEMPLATE_HASH.to_owned(), hash.to_owned());
    let object = json!({
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": new.name,
            "labels": template["metadata"]["labels"],
            "annotations": new.annotations,
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": new.replicas,
            "minReadySeconds": new.min_ready_seconds,
            "selector": selector,
            "template": template,
        },
    });
    NewSet { name: new.name, replicas: new.replicas, object }
}

/// The name of the Deployment, cut if need be, and the hash of the template.
fn replica_set_name(deployment: &str, hash: &str) -> String {
    const LONGEST: usize = 253;
    let room = LONGEST.saturating_sub(hash.len() + 1);
    format!("{}-{hash}", deployment.get(..room).unwrap_or(deployment))
}

#[cfg(test)]
mod tests;
