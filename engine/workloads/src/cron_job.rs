//! CronJob: Jobs at certain times.

mod plan;
mod schedule;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use pillion_events::Recorder;
use pillion_informer::{Change, Controller, NamespacedName, controller_of};

use crate::claim::controller_name;
use crate::context::Context;
use crate::cron_job_view::CronJobView;
use crate::error::Error;
use crate::job_view::JobView;
use crate::write;

/// Looks after every CronJob, until dropped.
pub(crate) async fn run(context: Context) {
    let recorder = context.recorder("cronjob-controller");
    let triggers = context.jobs.changes().flat_map(|change| stream::iter(parents(&change)));
    let cron_jobs = context.cron_jobs.clone();
    let reconcile = move |cron_job| reconcile(context.clone(), recorder.clone(), cron_job);
    Controller::new(&cron_jobs).reconcile_on(triggers).run(reconcile).await;
}

/// Each CronJob that a change of a Job concerns.
fn parents(change: &Change<JobView>) -> Vec<NamespacedName> {
    let jobs = [change.old.as_ref(), change.new.as_ref()].into_iter().flatten();
    let parent = |job: &Arc<JobView>| {
        let name = controller_name::<CronJobView, JobView>(job.as_ref())?;
        Some(NamespacedName::new(job.namespace(), name))
    };
    jobs.filter_map(parent).collect()
}

async fn reconcile(
    context: Context,
    recorder: Recorder,
    cron_job: Arc<CronJobView>,
) -> Result<Option<Duration>, Error> {
    let jobs = context.jobs.owned_by(&cron_job.uid().unwrap_or_default());
    let plan = plan::plan(&cron_job, &jobs, context.clock.now());
    let about = write::reference(cron_job.as_ref());
    for event in &plan.events {
        event.record(&recorder, &about);
    }
    let controller = Shell { context: &context, recorder: &recorder, about: &about, cron_job: &cron_job };
    let mut status = plan.status;
    let mut failure = None;
    if let Some(start) = plan.start {
        match controller.replace_and_start(&plan.replaced, start, &mut status).await {
            Ok(()) => {}
            Err(error) => failure = Some(error),
        }
    }
    for job in &plan.expired {
        // The next look will try again.
        let _ = controller.delete(job, &mut status).await;
    }
    if status != cron_job.status {
        let changed = CronJobView { status, ..CronJobView::clone(&cron_job) };
        context.cron_jobs.written(write::replace_status(&context.client, &changed).await?);
    }
    match failure {
        Some(error) => Err(error),
        None => Ok(plan.wake),
    }
}

/// Carries a plan out.
struct Shell<'a> {
    context: &'a Context,
    recorder: &'a Recorder,
    about: &'a ObjectReference,
    cron_job: &'a CronJobView,
}

impl Shell<'_> {
    /// Starts a Job, after those that it replaces have been deleted.
    async fn replace_and_start(
        &self,
        replaced: &[String],
        scheduled: Timestamp,
        status: &mut CronJobStatus,
    ) -> Result<(), Error> {
        for job in replaced {
            self.delete(job, status).await?;
        }
        let namespace = self.cron_job.namespace().unwrap_or_default();
        let job = match write::create::<JobView>(&self.context.client, &namespace, &plan::job(self.cron_job, scheduled))
            .await
        {
            Ok(job) => {
                self.recorder.normal(self.about, "SuccessfulCreate", format!("Created job {}", job.name()));
                job
            }
            Err(error) if write::has_cause(&error, write::NAMESPACE_TERMINATING) => return Err(error.into()),
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
                let jobs: Api<JobView> = Api::namespaced(self.context.client.clone(), &namespace);
                let job = jobs.get(&plan::job_name(self.cron_job, scheduled)).await?;
                // One of another owner is another's matter; one of ours is not in the status yet.
                if controller_of(&job).map(|owner| &owner.uid) != self.cron_job.metadata.uid.as_ref() {
                    return Ok(());
                }
                job
            }
            Err(error) => {
                let error = Error::from(error);
                self.recorder.warning(self.about, "FailedCreate", format!("Error creating job: {}", error.message()));
                return Err(error);
            }
        };
        let active = status.active.get_or_insert_default();
        if !active.iter().any(|known| known.uid == job.metadata.uid) {
            active.push(write::reference(&job));
        }
        status.last_schedule_time = Some(Time(scheduled));
        self.context.jobs.written(job);
        Ok(())
    }

    /// Deletes a Job with its pods, and forgets it.
    async fn delete(&self, job: &str, status: &mut CronJobStatus) -> Result<(), Error> {
        let jobs: Api<JobView> =
            Api::namespaced(self.context.client.clone(), &self.cron_job.namespace().unwrap_or_default());
        match jobs.delete(job, &DeleteParams::background()).await {
            Ok(_) => {
                let active = status.active.take().unwrap_or_default();
                let left: Vec<ObjectReference> =
                    active.into_iter().filter(|known| known.name.as_deref() != Some(job)).collect();
                status.active = (!left.is_empty()).then_some(left);
                self.recorder.normal(self.about, "SuccessfulDelete", format!("Deleted job {job}"));
                Ok(())
            }
            Err(error) => {
                let error = Error::from(error);
                self.recorder.warning(self.about, "FailedDelete", format!("Deleted job: {}", error.message()));
                Err(error)
            }
        }
    }
}
