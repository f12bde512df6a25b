//! Deployment: one ReplicaSet takes the place of another.

mod annotations;
mod plan;
mod rollout;
mod set;
mod status;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use pillion_events::Recorder;
use pillion_informer::{Change, Controller, NamespacedName, controller_of};
use serde_json::json;

use crate::claim::{self, controller_name};
use crate::context::Context;
use crate::error::Error;
use crate::kinds::{Deployment, ReplicaSet, Selecting as _};
use crate::pod::PodView;
use crate::triggers;
use crate::write::{self, NAMESPACE_TERMINATING, reference};

use plan::{NewSet, Plan, SetChange};

/// Runs the controller until dropped.
pub(crate) async fn run(context: Context) {
    let recorder = context.recorder("deployment-controller");
    let sets = triggers::parents(context.deployments.clone(), &context.replica_sets);
    let of_pods = context.clone();
    let pods = context.pods.changes().filter_map(move |change| std::future::ready(waiting(&of_pods, &change)));
    let deployments = context.deployments.clone();
    let reconcile = move |deployment| reconcile(context.clone(), recorder.clone(), deployment);
    Controller::new(&deployments).reconcile_on(stream::select(sets, pods)).run(reconcile).await;
}

/// The Deployment that waits for a pod to go before it starts new ones.
fn waiting(context: &Context, change: &Change<PodView>) -> Option<NamespacedName> {
    let gone = change.new.as_ref().is_none_or(|pod| pod.is_terminal());
    let pod = change.old.as_deref().filter(|_| gone)?;
    let namespace = pod.namespace().unwrap_or_default();
    let set = context.replica_sets.get(&namespace, &controller_name::<ReplicaSet, _>(pod)?)?;
    let deployment = context.deployments.get(&namespace, &controller_name::<Deployment, _>(set.as_ref())?)?;
    (deployment.spec.strategy.type_.as_deref() == Some("Recreate")).then(|| NamespacedName::of(deployment.as_ref()))
}

async fn reconcile(
    context: Context,
    recorder: Recorder,
    deployment: Arc<Deployment>,
) -> Result<Option<Duration>, Error> {
    let selects = deployment.selects();
    let sets = claim::children(
        &context.client,
        deployment.as_ref(),
        &context.replica_sets,
        |_| true,
        |set| selects(&set.metadata),
    )
    .await?;
    let has_live_pods = |set: &str| context.pods.owned_by(set).iter().any(|pod| !pod.is_terminal());
    let plan = plan::plan(&deployment, &sets, has_live_pods, context.clock.now());
    execute(&context, &recorder, &deployment, plan).await
}

async fn execute(
    context: &Context,
    recorder: &Recorder,
    deployment: &Deployment,
    plan: Plan,
) -> Result<Option<Duration>, Error> {
    let namespace = deployment.namespace().unwrap_or_default();
    if let Some(new) = &plan.create {
        create(context, recorder, deployment, new).await?;
    }
    for change in &plan.changes {
        let changed = apply(&context.client, &namespace, change).await?;
        context.replica_sets.written(changed);
        record(recorder, deployment, change);
    }
    for name in &plan.delete {
        let api: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &namespace);
        match api.delete(name, &DeleteParams::default()).await {
            Err(kube::Error::Api(status)) if status.is_not_found() => {}
            other => drop(other?),
        }
    }
    let mut changed = deployment.clone();
    changed.status = plan.status;
    if let Some(revision) = plan.revision {
        changed.annotations_mut().insert(annotations::REVISION.to_owned(), revision);
    }
    if changed.status == deployment.status && changed.metadata == deployment.metadata {
        return Ok(plan.check_again);
    }
    context.deployments.written(write::replace_status(&context.client, &changed).await?);
    Ok(None)
}

async fn apply(client: &Client, namespace: &str, change: &SetChange) -> Result<ReplicaSet, Error> {
    let api: Api<ReplicaSet> = Api::namespaced(client.clone(), namespace);
    // With the version in it, the patch fails if somebody else was faster.
    let patch = json!({
        "metadata": {"resourceVersion": change.resource_version, "annotations": change.annotations},
        "spec": {"replicas": change.to, "minReadySeconds": change.min_ready_seconds},
    });
    Ok(api.patch(&change.name, &PatchParams::default(), &Patch::Merge(patch)).await?)
}

fn record(recorder: &Recorder, deployment: &Deployment, change: &SetChange) {
    let SetChange { name, from, to, .. } = change;
    let direction = match from.cmp(to) {
        std::cmp::Ordering::Less => "up",
        std::cmp::Ordering::Greater => "down",
        std::cmp::Ordering::Equal => return,
    };
    let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
    recorder.normal(&reference(deployment), "ScalingReplicaSet", message);
}

/// Creates the new ReplicaSet; if it cannot be, the status says why.
async fn create(context: &Context, recorder: &Recorder, deployment: &Deployment, new: &NewSet) -> Result<(), Error> {
    let namespace = deployment.namespace().unwrap_or_default();
    let error = match write::create::<ReplicaSet>(&context.client, &namespace, &new.object).await {
        Ok(created) => {
            context.replica_sets.written(created);
            if new.replicas > 0 {
                let message = format!("Scaled up replica set {} from 0 to {}", new.name, new.replicas);
                recorder.normal(&reference(deployment), "ScalingReplicaSet", message);
            }
            return Ok(());
        }
        Err(error) => error,
    };
    let mut changed = deployment.clone();
    match &error {
        kube::Error::Api(refusal) if refusal.is_already_exists() => {
            let api: Api<ReplicaSet> = Api::namespaced(context.client.clone(), &namespace);
            let found = api.get(&new.name).await?;
            let ours = controller_of(&found).is_some_and(|owner| Some(&owner.uid) == deployment.metadata.uid.as_ref());
            if ours && set::same_template(&found.spec.template, &deployment.spec.template) {
                // The next attempt will find it.
                context.replica_sets.written(found);
                return Err(error.into());
            }
            *changed.status.collision_count.get_or_insert(0) += 1;
        }
        error if write::has_cause(error, NAMESPACE_TERMINATING) => {}
        _ => {
            let reason = Error::from(error);
            let message = format!("Failed to create new replica set \"{}\": {}", new.name, reason.message());
            recorder.warning(&reference(deployment), status::REPLICA_SET_CREATE_ERROR, message.as_str());
            status::creation_failed(&mut changed, message, context.clock.now());
            context.deployments.written(write::replace_status(&context.client, &changed).await?);
            return Err(reason);
        }
    }
    if changed.status != deployment.status {
        context.deployments.written(write::replace_status(&context.client, &changed).await?);
    }
    Err(error.into())
}

#[cfg(test)]
mod tests;
