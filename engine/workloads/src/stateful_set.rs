//! StatefulSet: pods with names and volumes of their own.

mod claims;
mod identity;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::ControllerRevision;
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use pillion_informer::Controller;
use serde_json::{Value, json};

use crate::claim;
use crate::context::Context;
use crate::error::Error;
use crate::hash::revision_hash;
use crate::history;
use crate::kinds::{Cached, Selecting as _, StatefulSet};
use crate::pod::{self, PodView};
use crate::pod_control::{PodControl, slow_start};
use crate::triggers;
use crate::write::{self, controller_reference, reference};

use plan::{Action, Revisions};

/// Runs the controller until dropped.
pub(crate) async fn run(context: Context) {
    let control = PodControl::new(&context, "statefulset-controller");
    let triggers = triggers::parents(context.stateful_sets.clone(), &context.pods);
    let sets = context.stateful_sets.clone();
    let reconcile = move |set| reconcile(context.clone(), control.clone(), set);
    Controller::new(&sets).reconcile_on(triggers).run(reconcile).await;
}

async fn reconcile(context: Context, control: PodControl, set: Arc<StatefulSet>) -> Result<Option<Duration>, Error> {
    let selects = set.selects();
    let is_member = |pod: &PodView| identity::parent(&pod.name_any()) == Some(set.name_any().as_str());
    let pods = claim::children(
        &context.client,
        set.as_ref(),
        &context.pods,
        |_| true,
        |pod| selects(&pod.metadata) && is_member(pod),
    )
    .await?;
    let mut revisions = claim::children(
        &context.client,
        set.as_ref(),
        &context.revisions,
        |_| true,
        |revision| selects(&revision.metadata),
    )
    .await?;
    history::sort(&mut revisions);
    let mut collisions = set.status.collision_count.unwrap_or(0);
    let update = update_revision(&context, &set, &revisions, &mut collisions).await?;
    let current = revisions.iter().find(|revision| Some(revision.name_any()) == set.status.current_revision);
    let current = Arc::clone(current.unwrap_or(&update));
    let named = Revisions { current: current.name_any(), update: update.name_any() };

    let now = context.clock.now();
    let plan = plan::plan(&set, &pods, &named, collisions, now);
    let worker = Worker { context: &context, control: &control, set: &set, current: &current, update: &update };
    let outcome = slow_start(plan.actions.iter().map(|action| worker.act(action)).collect()).await;
    if plan.status != set.status {
        let changed = StatefulSet { status: plan.status, ..StatefulSet::clone(&set) };
        context.stateful_sets.written(write::replace_status(&context.client, &changed).await?);
    }
    outcome?;
    history::forget(&context.client, &plan::forgotten(&set, &revisions, &pods, &named)).await?;
    Ok(pod::next_available(pods.iter().map(AsRef::as_ref), set.spec.min_ready_seconds, now))
}

/// The revision of the template as it is, made if need be.
async fn update_revision(
    context: &Context,
    set: &StatefulSet,
    revisions: &[Arc<ControllerRevision>],
    collisions: &mut i32,
) -> Result<Arc<ControllerRevision>, Error> {
    let data = history::data(&set.spec.template);
    let number = match history::newest(context, revisions, &data).await? {
        Ok(revision) => return Ok(revision),
        Err(number) => number,
    };
    let namespace = set.namespace().unwrap_or_default();
    loop {
        let new = new_revision(set, &data, number, *collisions);
        if let Some(revision) = history::add(context, &namespace, &new).await? {
            return Ok(revision);
        }
        *collisions += 1;
    }
}

fn new_revision(set: &StatefulSet, data: &Value, number: i64, collisions: i32) -> Value {
    let hash = revision_hash(data, Some(collisions));
    let mut labels = set.spec.template["metadata"]["labels"].clone();
    labels["controller.kubernetes.io/hash"] = hash.as_str().into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": history::name(&set.name_any(), &hash),
            "labels": labels,
            "annotations": set.annotations(),
            "ownerReferences": [controller_reference(set)],
        },
        "data": data,
        "revision": number,
    })
}

/// Carries out actions for one set.
struct Worker<'a> {
    context: &'a Context,
    control: &'a PodControl,
    set: &'a StatefulSet,
    current: &'a ControllerRevision,
    update: &'a ControllerRevision,
}

impl Worker<'_> {
    async fn act(&self, action: &Action) -> Result<(), Error> {
        let set = self.set;
        match action {
            Action::Create { ordinal, current } => {
                let revision = if *current { self.current } else { self.update };
                let pod = identity::pod(set, &history::template(revision), &revision.name_any(), *ordinal);
                self.create(*ordinal, &pod).await
            }
            Action::Delete(pod) => {
                let outcome = self.control.delete_quietly(pod).await;
                self.record("Delete", &pod.name_any(), outcome.as_ref().err());
                outcome.or_else(|error| if error.is_not_found() { Ok(()) } else { Err(error) })
            }
            Action::Identify(pod) => {
                let labels = identity::labels(&pod.name_any(), identity::ordinal(&pod.name_any()).unwrap_or(0));
                let api = pods(self.context, set);
                let patch = Patch::Merge(json!({"metadata": {"labels": labels}}));
                let outcome = api.patch(&pod.name_any(), &PatchParams::default(), &patch).await.map_err(Error::from);
                self.record("Update", &pod.name_any(), outcome.as_ref().err());
                self.context.pods.written(outcome?);
                Ok(())
            }
            Action::EnsureClaims(ordinal) => self.ensure_claims(*ordinal).await,
            Action::RetainClaims { pod, condemned } => {
                claims::retain(&self.context.client, &self.control.recorder, set, pod, *condemned).await
            }
        }
    }

    async fn create(&self, ordinal: i32, pod: &Value) -> Result<(), Error> {
        let namespace = self.set.namespace().unwrap_or_default();
        let name = identity::pod_name(self.set, ordinal);
        if let Err(error) = self.ensure_claims(ordinal).await {
            self.record("Create", &name, Some(&error));
            return Err(error);
        }
        let outcome = self.control.create_quietly(&namespace, pod).await;
        match &outcome {
            // Another's pod is in the way; it is no news each time.
            Err(Error::Api(kube::Error::Api(refusal))) if refusal.is_already_exists() => {}
            outcome => self.record("Create", &name, outcome.as_ref().err()),
        }
        outcome.map(drop)
    }

    async fn ensure_claims(&self, ordinal: i32) -> Result<(), Error> {
        claims::ensure(&self.context.client, &self.control.recorder, self.set, ordinal).await
    }

    fn record(&self, verb: &str, pod: &str, error: Option<&Error>) {
        let about = reference(self.set);
        let words = format!("{verb} Pod {pod} in StatefulSet {}", self.set.name_any());
        match error {
            None => self.control.recorder.normal(&about, &format!("Successful{verb}"), format!("{words} successful")),
            Some(error) => {
                let message = format!("{words} failed error: {}", error.message());
                self.control.recorder.warning(&about, &format!("Failed{verb}"), message);
            }
        }
    }
}

fn pods<K: Cached>(context: &Context, owner: &K) -> Api<PodView> {
    Api::namespaced(context.client.clone(), &owner.namespace().unwrap_or_default())
}

#[cfg(test)]
mod tests;
