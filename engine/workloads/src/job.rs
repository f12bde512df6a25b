//! Jobs: pods that work until enough of them have succeeded.

mod backoff;
mod indexes;
mod orphans;
mod plan;
#[cfg(test)]
mod plan_tests;
mod planned_event;
mod pods;
mod policy;
mod removal;
mod template;
#[cfg(test)]
mod tests;
mod track;
mod tracked;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::batch::v1::JobStatus;
use pillion_informer::Controller;

use self::backoff::Backoff;
use self::plan::Snapshot;
pub(crate) use self::planned_event::PlannedEvent;
use crate::claim;
use crate::context::Context;
use crate::error::Error;
use crate::job_view::JobView;
use crate::kinds::Selecting as _;
use crate::pod_control::PodControl;
use crate::{triggers, write};

/// Looks after all Jobs.
pub(crate) async fn run(context: Context) {
    let state = Arc::new(State {
        control: PodControl::new(&context, "job-controller"),
        context: context.clone(),
        backoffs: Mutex::new(HashMap::new()),
    });
    let triggers = triggers::parents(context.jobs.clone(), &context.pods);
    let reconciler = Arc::clone(&state);
    let jobs =
        Controller::new(&context.jobs).reconcile_on(triggers).run(move |job| reconcile(Arc::clone(&reconciler), job));
    tokio::join!(jobs, orphans::run(&state));
}

/// What reconciliations share.
struct State {
    context: Context,
    control: PodControl,
    /// How often the pods of each Job, by its uid, have failed in a row.
    backoffs: Mutex<HashMap<String, Backoff>>,
}

impl State {
    fn backoffs(&self) -> MutexGuard<'_, HashMap<String, Backoff>> {
        self.backoffs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn reconcile(state: Arc<State>, job: Arc<JobView>) -> Result<Option<Duration>, Error> {
    if job.finished().is_some() {
        state.backoffs().remove(job.uid());
        return Ok(None);
    }
    if !job.is_ours() {
        return Ok(None);
    }
    let context = &state.context;
    let selects = job.selects();
    let pods =
        claim::children(&context.client, job.as_ref(), &context.pods, |_| true, |pod| selects(&pod.metadata)).await?;
    let backoff = state.backoffs().get(job.uid()).copied().unwrap_or_default();
    let snapshot = Snapshot { job: &job, pods: &pods, backoff, now: context.clock.now() };
    let plan = plan::plan(&snapshot);
    let (done, failure) = pods::perform(&state, &job, &plan.action).await;
    let tracking = track::track(&snapshot, &plan, done);
    let about = write::reference(job.as_ref());
    for event in &tracking.events {
        event.record(&state.control.recorder, &about);
    }

    let mut current = JobView::clone(&job);
    if tracking.status != current.status {
        current = write_status(&state, current, tracking.status.clone()).await?;
        state.backoffs().insert(job.uid().to_owned(), plan.backoff);
    }
    let (released, not_released) = pods::release(&state, &job, &tracking.release).await;
    let (status, news) =
        tracking.conclude(current.status.clone(), &released, context.clock.now(), job.spec.completions);
    if status != current.status {
        write_status(&state, current, status).await?;
    }
    for event in &news {
        event.record(&state.control.recorder, &about);
    }
    match failure.or(not_released) {
        Some(error) => Err(error),
        None => Ok(plan.wake),
    }
}

async fn write_status(state: &State, job: JobView, status: JobStatus) -> Result<JobView, Error> {
    let written = write::replace_status(&state.context.client, &JobView { status, ..job }).await?;
    state.context.jobs.written(written.clone());
    Ok(written)
}
