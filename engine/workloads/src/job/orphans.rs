//! Pods whose Job will not count them any more: it is gone or over, or the pod has been taken from it.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use kube::Api;
use pillion_informer::{Change, controller_of};

use super::tracked::is_tracked;
use super::{State, pods};
use crate::claim::controller_name;
use crate::job_view::JobView;
use crate::pod::PodView;

/// So many pods are released at the same time.
const AT_ONCE: usize = 64;

/// Takes the finalizer from such pods, for ever.
pub(super) async fn run(state: &State) {
    let pods = state.context.pods.clone();
    let of_ended_jobs = state
        .context
        .jobs
        .changes()
        .flat_map(move |change| stream::iter(ended(&change).map(|uid| pods.owned_by(uid)).unwrap_or_default()));
    let changed = state.context.pods.changes().filter_map(|change| std::future::ready(change.new));
    stream::select(of_ended_jobs, changed)
        .filter(|pod| std::future::ready(is_tracked(pod) && !is_awaited(state, pod)))
        .for_each_concurrent(AT_ONCE, |pod| release(state, pod))
        .await;
}

async fn release(state: &State, pod: Arc<PodView>) {
    let (namespace, name) = (pod.metadata.namespace.as_deref(), pod.metadata.name.as_deref());
    let (Some(namespace), Some(name)) = (namespace, name) else { return };
    if !is_orphan(state, &pod).await {
        return;
    }
    if let Err(error) = pods::release_one(state, namespace, name).await {
        tracing::warn!(namespace, name, error = error.message(), "a pod keeps the finalizer of its Job");
    }
}

/// The uid of a Job that counts no more pods.
fn ended(change: &Change<JobView>) -> Option<&str> {
    match (&change.old, &change.new) {
        (_, Some(new)) => new.finished().map(|_| new.uid()),
        (old, None) => old.as_ref().map(|old| old.uid()),
    }
}

/// Whether the Job that is known will count the pod.
fn is_awaited(state: &State, pod: &PodView) -> bool {
    let Some(job) = controller_name::<JobView, PodView>(pod) else { return controller_of(pod).is_some() };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    state.context.jobs.get(namespace, &job).is_some_and(|job| counts(&job, pod))
}

/// The opposite, with the certainty of the API server: what is known may be old.
async fn is_orphan(state: &State, pod: &PodView) -> bool {
    let Some(job) = controller_name::<JobView, PodView>(pod) else { return controller_of(pod).is_none() };
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let jobs: Api<JobView> = Api::namespaced(state.context.client.clone(), namespace);
    match jobs.get_opt(&job).await {
        Ok(job) => !job.is_some_and(|job| counts(&job, pod)),
        Err(_) => false,
    }
}

/// Whether the pod is this Job's, and the Job still counts, or is another program's matter.
fn counts(job: &JobView, pod: &PodView) -> bool {
    let owned = pod.metadata.owner_references.iter().flatten().any(|owner| owner.uid == job.uid());
    owned && (job.finished().is_none() || !job.is_ours())
}
