//! What a CronJob does next: which Jobs it forgets, starts and deletes.

use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::CronJobStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use pillion_kinds::schedule::Schedule;
use serde_json::{Value, json};

use super::schedule::{Missed, due, wait, zone};
use crate::cron_job_view::CronJobView;
use crate::job::PlannedEvent;
use crate::job_view::JobView;
use crate::write::controller_reference;

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Plan {
    pub(super) events: Vec<PlannedEvent>,
    /// The status before a Job is started or deleted.
    pub(super) status: CronJobStatus,
    /// Active Jobs that make room for the new one.
    pub(super) replaced: Vec<String>,
    /// The time of the Job that is due.
    pub(super) start: Option<Timestamp>,
    /// Finished Jobs beyond the limits.
    pub(super) expired: Vec<String>,
    /// When to look again, if nothing happens before.
    pub(super) wake: Option<Duration>,
}

/// Decides.
pub(super) fn plan(cron_job: &CronJobView, jobs: &[Arc<JobView>], now: Timestamp) -> Plan {
    let mut plan = Plan { status: cron_job.status.clone(), ..Plan::default() };
    look_at_jobs(jobs, &mut plan);
    if cron_job.metadata.deletion_timestamp.is_none() {
        look_at_time(cron_job, now, &mut plan);
    }
    for (limit, kind) in
        [(cron_job.spec.successful_jobs_history_limit, "Complete"), (cron_job.spec.failed_jobs_history_limit, "Failed")]
    {
        if let Some(limit) = limit {
            plan.expired.extend(oldest(jobs, kind, limit));
        }
    }
    plan
}

/// Forgets active Jobs that have ended or are gone.
fn look_at_jobs(jobs: &[Arc<JobView>], plan: &mut Plan) {
    let mut active = plan.status.active.take().unwrap_or_default();
    for job in jobs {
        let known = active.iter().position(|active| active.uid.as_deref() == Some(job.uid()));
        match (job.finished(), known) {
            (None, None) => {
                let message = format!("Saw a job that the controller did not create or forgot: {}", job.name());
                plan.events.push(PlannedEvent::warning("UnexpectedJob", message));
            }
            (None, Some(_)) => {}
            (Some(condition), known) => {
                if let Some(known) = known {
                    active.remove(known);
                    let message = format!("Saw completed job: {}, condition: {}", job.name(), condition.type_);
                    plan.events.push(PlannedEvent::normal("SawCompletedJob", message));
                }
                if condition.type_ == "Complete" {
                    let last = plan.status.last_successful_time.take();
                    plan.status.last_successful_time = last.max(job.status.completion_time.clone());
                }
            }
        }
    }
    active.retain(|active| {
        let there = jobs.iter().any(|job| active.uid.as_deref() == Some(job.uid()));
        if !there {
            let name = active.name.as_deref().unwrap_or_default();
            plan.events.push(PlannedEvent::normal("MissingJob", format!("Active job went missing: {name}")));
        }
        there
    });
    plan.status.active = (!active.is_empty()).then_some(active);
}

/// Finds the start that is due, if one is and may be made.
fn look_at_time(cron_job: &CronJobView, now: Timestamp, plan: &mut Plan) {
    let spec = &cron_job.spec;
    let Some(zone) = zone(cron_job) else {
        let name = spec.time_zone.as_deref().unwrap_or_default();
        plan.events.push(PlannedEvent::warning(
            "UnknownTimeZone",
            format!("invalid timeZone: {name:?}: unknown time zone {name}"),
        ));
        return;
    };
    if spec.suspend == Some(true) {
        return;
    }
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(complaint) => {
            let message = format!("unparseable schedule: {:?} : {complaint}", spec.schedule);
            plan.events.push(PlannedEvent::warning("UnparseableSchedule", message));
            return;
        }
    };
    let due = match due(cron_job, &schedule, &zone, now, true) {
        Ok(due) => due,
        Err(complaint) => {
            plan.events.push(PlannedEvent::warning(
                "InvalidSchedule",
                format!("invalid schedule: {} : {complaint}", spec.schedule),
            ));
            return;
        }
    };
    plan.wake = wait(cron_job, &schedule, &zone, now);
    let Some(scheduled) = due.at else { return };
    if due.missed == Missed::Many {
        let message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew";
        plan.events.push(PlannedEvent::warning("TooManyMissedTimes", message));
    }
    start(cron_job, scheduled, now, plan);
    if plan.start.is_some() {
        // The next one is that after the one that starts now.
        let mut started = cron_job.clone();
        started.status.last_schedule_time = Some(Time(scheduled));
        plan.wake = wait(&started, &schedule, &zone, now);
    }
}

fn start(cron_job: &CronJobView, scheduled: Timestamp, now: Timestamp, plan: &mut Plan) {
    let deadline = cron_job.spec.starting_deadline_seconds.map(SignedDuration::from_secs);
    if deadline.is_some_and(|deadline| now.duration_since(scheduled) > deadline) {
        let time = scheduled.to_zoned(TimeZone::UTC).strftime("%a, %d %b %Y %H:%M:%S %z").to_string();
        plan.events
            .push(PlannedEvent::warning("MissSchedule", format!("Missed scheduled time to start a job: {time}")));
        return;
    }
    let name = job_name(cron_job, scheduled);
    let active: Vec<&ObjectReference> = plan.status.active.iter().flatten().collect();
    let started = cron_job.status.last_schedule_time.as_ref().is_some_and(|last| last.0 == scheduled);
    if started || active.iter().any(|job| job.name.as_deref() == Some(&name)) {
        return;
    }
    match cron_job.spec.concurrency_policy.as_deref() {
        Some("Forbid") if !active.is_empty() => {
            let message = "Not starting job because prior execution is running and concurrency policy is Forbid";
            plan.events.push(PlannedEvent::normal("JobAlreadyActive", message));
            return;
        }
        Some("Replace") => plan.replaced = active.iter().filter_map(|job| job.name.clone()).collect(),
        _ => {}
    }
    plan.start = Some(scheduled);
}

/// The finished Jobs beyond the limit, those that started first.
fn oldest(jobs: &[Arc<JobView>], kind: &str, limit: i32) -> Vec<String> {
    let ended = |job: &&Arc<JobView>| job.finished().is_some_and(|condition| condition.type_ == kind);
    let mut jobs: Vec<&Arc<JobView>> = jobs.iter().filter(ended).collect();
    jobs.sort_by_key(|job| (job.status.start_time.is_none(), job.status.start_time.clone(), job.name().to_owned()));
    let excess = jobs.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    jobs.into_iter().take(excess).map(|job| job.name().to_owned()).collect()
}

/// The name says when the Job was due: no start is made twice.
pub(super) fn job_name(cron_job: &CronJobView, scheduled: Timestamp) -> String {
    format!("{}-{}", cron_job.name_any(), scheduled.as_second().div_euclid(60))
}

/// The Job that starts.
pub(super) fn job(cron_job: &CronJobView, scheduled: Timestamp) -> Value {
    let template = &cron_job.spec.job_template;
    let mut annotations = template["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let local = scheduled.to_zoned(zone(cron_job).unwrap_or(TimeZone::UTC));
    let format = if local.offset().is_zero() { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S%:z" };
    let at = local.strftime(format).to_string();
    annotations.insert("batch.kubernetes.io/cronjob-scheduled-timestamp".to_owned(), at.into());
    let mut metadata = json!({
        "name": job_name(cron_job, scheduled),
        "annotations": annotations,
        "ownerReferences": [controller_reference(cron_job)],
    });
    if let Some(labels) = template["metadata"].get("labels") {
        metadata["labels"] = labels.clone();
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]})
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron_job(spec: Value, status: Value) -> CronJobView {
        let mut cron_job = json!({
            "metadata": {"name": "nightly", "namespace": "default", "uid": "c", "creationTimestamp": "2016-05-19T08:00:00Z"},
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"x": 1}}},
            "status": status,
        });
        for (field, value) in spec.as_object().unwrap() {
            cron_job["spec"][field] = value.clone();
        }
        serde_json::from_value(cron_job).unwrap()
    }

    fn job(name: &str, ended: Option<&str>, started: &str) -> Arc<JobView> {
        let conditions: Vec<Value> = ended.iter().map(|kind| json!({"type": kind, "status": "True"})).collect();
        let status = json!({"startTime": started, "conditions": conditions, "completionTime": "2016-05-19T09:30:00Z"});
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name, "uid": name}, "status": status})).unwrap())
    }

    fn active(name: &str) -> Value {
        json!({"active": [{"name": name, "uid": name}], "lastScheduleTime": "2016-05-19T09:00:00Z"})
    }

    fn at(time: &str) -> Timestamp {
        format!("2016-05-19T{time}Z").parse().unwrap()
    }

    const RUNNING: &str = "2016-05-19T09:00:00Z";

    #[test]
    fn a_job_starts_when_it_is_due_and_the_policy_allows() {
        let running = [job("j", None, RUNNING)];
        for (what, spec, status, jobs, now, start, replaced, reasons) in [
            (
                "not due",
                json!({}),
                json!({"lastScheduleTime": "2016-05-19T09:00:00Z"}),
                &[][..],
                "09:59:59",
                None,
                vec![],
                vec![],
            ),
            ("due", json!({}), json!({}), &[][..], "09:00:01", Some("09:00:00"), vec![], vec![]),
            ("suspended", json!({"suspend": true}), json!({}), &[][..], "09:00:01", None, vec![], vec![]),
            ("too late", json!({"startingDeadlineSeconds": 30}), json!({}), &[][..], "09:00:31", None, vec![], vec![]),
            (
                "allowed",
                json!({"concurrencyPolicy": "Allow"}),
                active("j"),
                &running[..],
                "10:00:00",
                Some("10:00:00"),
                vec![],
                vec![],
            ),
            (
                "forbidden",
                json!({"concurrencyPolicy": "Forbid"}),
                active("j"),
                &running[..],
                "10:00:00",
                None,
                vec![],
                vec!["JobAlreadyActive"],
            ),
            (
                "replaced",
                json!({"concurrencyPolicy": "Replace"}),
                active("j"),
                &running[..],
                "10:00:00",
                Some("10:00:00"),
                vec!["j"],
                vec![],
            ),
            (
                "made before",
                json!({}),
                json!({"lastScheduleTime": "2016-05-19T10:00:00Z"}),
                &[][..],
                "10:00:00",
                None,
                vec![],
                vec![],
            ),
            (
                "unknown zone",
                json!({"timeZone": "Nowhere"}),
                json!({}),
                &[][..],
                "09:00:01",
                None,
                vec![],
                vec!["UnknownTimeZone"],
            ),
            (
                "many missed",
                json!({"schedule": "* * * * *"}),
                json!({}),
                &[][..],
                "10:00:00",
                Some("10:00:00"),
                vec![],
                vec!["TooManyMissedTimes"],
            ),
        ] {
            let plan = plan(&cron_job(spec, status), jobs, at(now));
            assert_eq!(plan.start, start.map(at), "{what}");
            assert_eq!(plan.replaced, replaced, "{what}");
            assert_eq!(plan.events.iter().map(|event| event.reason.as_str()).collect::<Vec<_>>(), reasons, "{what}");
        }
    }

    #[test]
    fn jobs_that_ended_or_went_missing_are_no_longer_active() {
        let status = json!({
            "active": [{"name": "done", "uid": "done"}, {"name": "lost", "uid": "lost"}, {"name": "busy", "uid": "busy"}],
            "lastScheduleTime": "2016-05-19T09:00:00Z",
        });
        let jobs = [job("done", Some("Complete"), RUNNING), job("busy", None, RUNNING), job("strange", None, RUNNING)];
        let plan = plan(&cron_job(json!({}), status), &jobs, at("09:30:00"));
        let active: Vec<String> = plan.status.active.unwrap().into_iter().filter_map(|job| job.name).collect();
        assert_eq!(active, ["busy"]);
        assert_eq!(plan.status.last_successful_time.map(|time| time.0), Some(at("09:30:00")));
        let messages: Vec<String> = plan.events.into_iter().map(|event| event.message).collect();
        assert_eq!(
            messages,
            [
                "Saw completed job: done, condition: Complete",
                "Saw a job that the controller did not create or forgot: strange",
                "Active job went missing: lost",
            ]
        );
    }

    #[test]
    fn the_oldest_finished_jobs_beyond_the_limits_go() {
        let spec = json!({"successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0});
        let jobs = [
            job("new", Some("Complete"), "2016-05-19T09:00:00Z"),
            job("old", Some("Complete"), "2016-05-19T08:00:00Z"),
            job("bad", Some("Failed"), "2016-05-19T08:00:00Z"),
        ];
        assert_eq!(plan(&cron_job(spec, json!({})), &jobs, at("08:30:00")).expired, ["old", "bad"]);
    }

    #[test]
    fn a_job_is_named_by_its_minute_and_knows_its_time() {
        let cron_job = cron_job(json!({"timeZone": "Europe/Berlin"}), json!({}));
        insta::assert_json_snapshot!(super::job(&cron_job, at("09:00:00")), @r#"
        {
          "apiVersion": "batch/v1",
          "kind": "Job",
          "metadata": {
            "name": "nightly-24394140",
            "annotations": {
              "batch.kubernetes.io/cronjob-scheduled-timestamp": "2016-05-19T11:00:00+02:00"
            },
            "ownerReferences": [
              {
                "apiVersion": "batch/v1",
                "blockOwnerDeletion": true,
                "controller": true,
                "kind": "CronJob",
                "name": "nightly",
                "uid": "c"
              }
            ],
            "labels": {
              "a": "b"
            }
          },
          "spec": {
            "x": 1
          }
        }
        "#);
    }
}
