//! ReplicaSet: so many pods of one template.

mod plan;
mod victims;

use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt as _;
use pillion_informer::{Controller, controller_of};

use crate::claim;
use crate::context::Context;
use crate::error::Error;
use crate::kinds::{ReplicaSet, Selecting as _};
use crate::pod::{self, PodView};
use crate::pod_control::{PodControl, from_template};
use crate::triggers;
use crate::write::{self, controller_reference, reference};

/// Runs the controller until dropped.
pub(crate) async fn run(context: Context) {
    let control = PodControl::new(&context, "replicaset-controller");
    let triggers = triggers::parents(context.replica_sets.clone(), &context.pods);
    let sets = context.replica_sets.clone();
    let reconcile = move |set| reconcile(context.clone(), control.clone(), set);
    Controller::new(&sets).reconcile_on(triggers).run(reconcile).await;
}

async fn reconcile(context: Context, control: PodControl, set: Arc<ReplicaSet>) -> Result<Option<Duration>, Error> {
    let selects = set.selects();
    let active =
        claim::children(&context.client, set.as_ref(), &context.pods, PodView::is_active, |pod| selects(&pod.metadata))
            .await?;
    let wanted = plan::plan(&set, &active, context.clock.now(), || related(&context, &set));
    let outcome = match &wanted {
        plan::Plan::Nothing => Ok(()),
        plan::Plan::Create(count) => {
            let pod = from_template(&set.spec.template, &controller_reference(set.as_ref()));
            control.create_many(&reference(set.as_ref()), &vec![pod; *count]).await
        }
        plan::Plan::Delete(victims) => {
            control.delete_many(&reference(set.as_ref()), victims.iter().map(AsRef::as_ref)).await
        }
    };
    let failure = outcome.as_ref().err().map(|error| (wanted.failure_reason(), error.message()));
    // What was just created and deleted is in the cache already: the status need not be behind.
    let pods: Vec<Arc<PodView>> = context
        .pods
        .owned_by(&set.uid().unwrap_or_default())
        .into_iter()
        .filter(|pod| selects(&pod.metadata))
        .collect();
    let now = context.clock.now();
    let status = plan::status(&set, &pods, failure, now);
    if status != set.status {
        let changed = ReplicaSet { status, ..ReplicaSet::clone(&set) };
        context.replica_sets.written(write::replace_status(&context.client, &changed).await?);
    }
    outcome?;
    let active = pods.iter().map(AsRef::as_ref).filter(|pod| pod.is_active());
    Ok(pod::next_available(active, set.spec.min_ready_seconds, now))
}

/// The pods of every ReplicaSet with the same owner: where many of them share a node, one there is the first to go.
fn related(context: &Context, set: &ReplicaSet) -> Vec<Arc<PodView>> {
    let Some(owner) = controller_of(set) else {
        return context.pods.owned_by(&set.uid().unwrap_or_default());
    };
    let siblings = context.replica_sets.owned_by(&owner.uid);
    siblings.iter().flat_map(|sibling| context.pods.owned_by(&sibling.uid().unwrap_or_default())).collect()
}

#[cfg(test)]
mod tests;
