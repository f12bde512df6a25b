//! Makes, removes and releases the pods of a Job.

use std::collections::HashSet;

use futures::future::join_all;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;

use super::plan::{Action, NewPod};
use super::track::Done;
use super::tracked::FINALIZER;
use super::{State, template};
use crate::error::Error;
use crate::job_view::JobView;
use crate::pod::PodView;
use crate::write;

/// Does what is planned, as far as the API server lets.
pub(super) async fn perform(state: &State, job: &JobView, action: &Action) -> (Done, Option<Error>) {
    match action {
        Action::Leave => (Done::default(), None),
        Action::Create(pods) => create(state, job, pods).await,
        Action::Remove(pods) => delete(state, job, pods, true).await,
        Action::End(pods) => delete(state, job, pods, false).await,
    }
}

/// Makes pods in growing batches: where all would be refused for the same reason, few are tried.
async fn create(state: &State, job: &JobView, pods: &[NewPod]) -> (Done, Option<Error>) {
    let mut done = Done::default();
    let about = write::reference(job);
    let (mut rest, mut batch) = (pods, 1);
    while !rest.is_empty() {
        let (now, later) = rest.split_at(batch.min(rest.len()));
        let mut failure = None;
        let creations = now.iter().map(async |new| state.control.create(&about, &template::pod(job, new)).await);
        for outcome in join_all(creations).await {
            match outcome {
                Ok(()) => done.pods += 1,
                Err(error) => failure = Some(error),
            }
        }
        if failure.is_some() {
            return (done, failure);
        }
        (rest, batch) = (later, batch * 2);
    }
    (done, None)
}

/// Asks pods to go. Those that are not to be counted lose their finalizer first.
async fn delete(state: &State, job: &JobView, names: &[String], uncounted: bool) -> (Done, Option<Error>) {
    let mut done = Done::default();
    let mut failure = None;
    let about = write::reference(job);
    let deletions = names.iter().map(async |name| {
        // One that is gone need not be asked.
        let Some(pod) = state.context.pods.get(job.namespace(), name) else { return Ok(false) };
        if uncounted {
            release_one(state, job.namespace(), name).await?;
        }
        state.control.delete(&about, &pod).await.map(|()| pod.is_ready())
    });
    for outcome in join_all(deletions).await {
        match outcome {
            Ok(ready) => {
                done.pods += 1;
                done.ready += i32::from(ready);
            }
            Err(error) => failure = Some(error),
        }
    }
    (done, failure)
}

/// Takes the finalizer from pods, by uid and name, and answers the uids of those that have none now.
pub(super) async fn release(
    state: &State,
    job: &JobView,
    pods: &[(String, String)],
) -> (HashSet<String>, Option<Error>) {
    let mut released = HashSet::new();
    let mut failure = None;
    let releases = pods.iter().map(|(_, name)| release_one(state, job.namespace(), name));
    for ((uid, _), outcome) in pods.iter().zip(join_all(releases).await) {
        match outcome {
            Ok(()) => drop(released.insert(uid.clone())),
            Err(error) => failure = Some(error),
        }
    }
    (released, failure)
}

pub(super) async fn release_one(state: &State, namespace: &str, name: &str) -> Result<(), Error> {
    let pods: Api<PodView> = Api::namespaced(state.context.client.clone(), namespace);
    let patch = Patch::Strategic(json!({"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}));
    match pods.patch(name, &PatchParams::default(), &patch).await.map_err(Error::from) {
        Ok(pod) => {
            state.context.pods.written(pod);
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error),
    }
}
