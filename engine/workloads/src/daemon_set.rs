//! DaemonSet: a pod for each node that is eligible.

mod node;
mod plan;
mod status;
mod template;

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _, stream};
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use pillion_informer::{Change, Controller, NamespacedName};
use serde_json::{Value, json};

use crate::claim;
use crate::context::Context;
use crate::error::Error;
use crate::hash::revision_hash;
use crate::history;
use crate::kinds::{DaemonSet, Selecting as _};
use crate::pod::{self, PodView};
use crate::pod_control::PodControl;
use crate::triggers;
use crate::write::{self, controller_reference, reference};

use plan::Plan;
use template::REVISION;

/// Runs the controller until dropped.
pub(crate) async fn run(context: Context) {
    let control = PodControl::new(&context, "daemonset-controller");
    let pods = triggers::parents(context.daemon_sets.clone(), &context.pods);
    let triggers = stream::select(pods, of_nodes(&context));
    let sets = context.daemon_sets.clone();
    let reconcile = move |set| reconcile(context.clone(), control.clone(), set);
    Controller::new(&sets).reconcile_on(triggers).run(reconcile).await;
}

/// Every DaemonSet, when a node comes, goes, or changes what decides who may run there.
fn of_nodes(context: &Context) -> impl Stream<Item = NamespacedName> + Send + use<> {
    let sets = context.daemon_sets.clone();
    let matters = |change: &Change<Node>| match (change.old.as_deref(), change.new.as_deref()) {
        (Some(old), Some(new)) => old.labels() != new.labels() || node::taints(old) != node::taints(new),
        _ => true,
    };
    let changes = context.nodes.changes().filter(move |change| std::future::ready(matters(change)));
    changes.flat_map(move |_| {
        let all: Vec<NamespacedName> = sets.list().iter().map(|set| NamespacedName::of(set.as_ref())).collect();
        stream::iter(all)
    })
}

async fn reconcile(context: Context, control: PodControl, set: Arc<DaemonSet>) -> Result<Option<Duration>, Error> {
    if set.metadata.deletion_timestamp.is_some() {
        return Ok(None);
    }
    let selects = set.selects();
    let pods =
        claim::children(&context.client, set.as_ref(), &context.pods, |_| true, |pod| selects(&pod.metadata)).await?;
    let mut revisions = claim::children(
        &context.client,
        set.as_ref(),
        &context.revisions,
        |_| true,
        |revision| selects(&revision.metadata),
    )
    .await?;
    history::sort(&mut revisions);
    let current = current_revision(&context, &set, &revisions).await?;
    let hash = current.labels().get(REVISION).cloned().unwrap_or_default();
    let nodes = context.nodes.list();

    let plan = plan::plan(&set, &nodes, &pods, &hash, context.clock.now());
    let outcome = execute(&control, &set, &plan, &hash).await;
    let now = context.clock.now();
    let owned = context.pods.owned_by(&set.uid().unwrap_or_default());
    let pods: Vec<Arc<PodView>> = owned.into_iter().filter(|pod| selects(&pod.metadata)).collect();
    let status = status::status(&set, &nodes, &pods, &hash, now);
    if status != set.status {
        let changed = DaemonSet { status, ..DaemonSet::clone(&set) };
        context.daemon_sets.written(write::replace_status(&context.client, &changed).await?);
    }
    outcome?;
    history::forget(&context.client, &plan::forgotten(&set, &revisions, &current, &pods)).await?;
    let available = pod::next_available(pods.iter().map(AsRef::as_ref), set.spec.min_ready_seconds, now);
    Ok([available, plan.check_again].into_iter().flatten().min())
}

async fn execute(control: &PodControl, set: &DaemonSet, plan: &Plan, hash: &str) -> Result<(), Error> {
    let about = reference(set);
    for (pod, failed) in &plan.ended {
        let (namespace, name) = (pod.namespace().unwrap_or_default(), pod.name_any());
        let node = node::of_pod(pod).unwrap_or_default();
        if *failed {
            let message = format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
            control.recorder.warning(&about, "FailedDaemonPod", message);
        } else {
            let message =
                format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
            control.recorder.normal(&about, "SucceededDaemonPod", message);
        }
    }
    let new: Vec<Value> = plan.create.iter().map(|node| template::pod(set, hash, node)).collect();
    let created = control.create_many(&about, &new).await;
    let ended = plan.ended.iter().map(|(pod, _)| pod.as_ref());
    let deleted = control.delete_many(&about, ended.chain(plan.delete.iter().map(AsRef::as_ref))).await;
    created.and(deleted)
}

/// The revision of the template as it is, made if need be.
async fn current_revision(
    context: &Context,
    set: &DaemonSet,
    revisions: &[Arc<ControllerRevision>],
) -> Result<Arc<ControllerRevision>, Error> {
    let data = history::data(&set.spec.template);
    let number = match history::newest(context, revisions, &data).await? {
        Ok(revision) => return Ok(revision),
        Err(number) => number,
    };
    let namespace = set.namespace().unwrap_or_default();
    let mut set = set.clone();
    loop {
        if let Some(revision) = history::add(context, &namespace, &new_revision(&set, &data, number)).await? {
            return Ok(revision);
        }
        *set.status.collision_count.get_or_insert(0) += 1;
        set = write::replace_status(&context.client, &set).await?;
        context.daemon_sets.written(set.clone());
    }
}

fn new_revision(set: &DaemonSet, data: &Value, number: i64) -> Value {
    let hash = revision_hash(&set.spec.template, set.status.collision_count);
    let mut labels = set.spec.template["metadata"]["labels"].clone();
    labels[REVISION] = hash.as_str().into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": {
            "name": format!("{}-{hash}", set.name_any()),
            "labels": labels,
            "annotations": set.annotations(),
            "ownerReferences": [controller_reference(set)],
        },
        "data": data,
        "revision": number,
    })
}

#[cfg(test)]
mod tests;
