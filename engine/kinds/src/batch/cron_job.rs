//! `CronJobs`.

use jiff::tz::TimeZoneDatabase;
use pillion_rules::field::{Error, Path};
use pillion_rules::format::{Complaints, check, non_negative};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::selector;
use pillion_rules::value::{copy_fields, fill, fill_text, has, int, object_mut, set, text};
use serde_json::{Value, json};

use super::job;
use super::schedule::Schedule;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, count_spec_changes, default_template, first_generation};

/// Eleven characters are added to the name of a CronJob to make that of a Job.
const NAME_LIMIT: usize = 52;

pub(crate) const RULES: Rules =
    Rules { default, prepare_create, validate, prepare_update, validate_update, warnings, ..WITH_STATUS };

fn default(cron_job: &mut Value) {
    let spec = object_mut(cron_job, "spec");
    let job = object_mut(object_mut(spec, "jobTemplate"), "spec");
    default_template(job);
    job::default_policies(job);
    fill_text(spec, "concurrencyPolicy", "Allow");
    fill(spec, "suspend", false);
    fill(spec, "successfulJobsHistoryLimit", 3);
    fill(spec, "failedJobsHistoryLimit", 1);
}

fn prepare_create(cron_job: &mut Value) {
    set(cron_job, "status", json!({}));
    first_generation(cron_job);
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    count_spec_changes(new, old);
}

fn validate(cron_job: &Value) -> Vec<Error> {
    let meta = &cron_job["metadata"];
    let mut errors = metadata::validate_strict(meta, &Path::new("metadata"), true, subdomain_name);
    validate_spec(&cron_job["spec"], None, &Path::new("spec"), &mut errors);
    let name = text(meta, "name");
    if name.len() > NAME_LIMIT {
        let detail = format!("must be no more than {NAME_LIMIT} characters");
        errors.push(Error::invalid(&Path::new("metadata").child("name"), name, detail));
    }
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_spec(&new["spec"], Some(&old["spec"]), &Path::new("spec"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    if text(spec, "schedule").is_empty() {
        errors.push(Error::required(&path.child("schedule"), ""));
    } else {
        let zone_was_allowed = old.is_some_and(|old| text(old, "schedule").contains("TZ"));
        validate_schedule(spec, zone_was_allowed, &path.child("schedule"), errors);
    }
    non_negative(int(spec, "startingDeadlineSeconds"), &path.child("startingDeadlineSeconds"), errors);
    if let Some(zone) = spec["timeZone"].as_str()
        && old.is_none_or(|old| old["timeZone"] != spec["timeZone"])
    {
        check(zone_complaints(zone), zone, &path.child("timeZone"), errors);
    }
    let policy_path = path.child("concurrencyPolicy");
    match text(spec, "concurrencyPolicy") {
        "Allow" | "Forbid" | "Replace" => {}
        "" => errors.push(Error::required(&policy_path, "")),
        other => errors.push(Error::not_supported(&policy_path, other, &["Allow", "Forbid", "Replace"])),
    }
    validate_job_template(&spec["jobTemplate"]["spec"], &path.child("jobTemplate").child("spec"), errors);
    workload::validate_counts(spec, &["successfulJobsHistoryLimit", "failedJobsHistoryLimit"], path, errors);
}

fn validate_schedule(spec: &Value, zone_was_allowed: bool, path: &Path, errors: &mut Vec<Error>) {
    let schedule = text(spec, "schedule");
    if let Err(complaint) = Schedule::parse(schedule) {
        errors.push(Error::invalid(path, schedule, complaint));
    }
    if !schedule.contains("TZ") {
        return;
    }
    if !zone_was_allowed {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        errors.push(Error::invalid(path, schedule, detail));
    } else if has(spec, "timeZone") {
        let detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule";
        errors.push(Error::invalid(path, schedule, detail));
    }
}

/// What is wrong with the name of a time zone. The zones are those built in, so that no file decides.
fn zone_complaints(zone: &str) -> Complaints {
    if zone.is_empty() {
        return vec!["timeZone must be nil or non-empty string".to_owned()];
    }
    let mut complaints = Complaints::new();
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        complaints.push(detail.to_owned());
    }
    // Names are looked up in any case, but have to be written in theirs.
    let known = TimeZoneDatabase::bundled().get(zone).is_ok_and(|found| found.iana_name() == Some(zone));
    if !known && zone != "Local" {
        complaints.push(format!("unknown time zone {zone}"));
    }
    complaints
}

fn validate_job_template(job: &Value, path: &Path, errors: &mut Vec<Error>) {
    job::validate_spec(job, path, errors);
    if has(job, "selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(Error::invalid(&path.child("selector"), selector::shown(&job["selector"]), detail));
    }
    if job["manualSelector"] == true {
        errors.push(Error::not_supported(&path.child("manualSelector"), true, &["nil", "false"]));
    }
}

fn warnings(cron_job: &Value, old: Option<&Value>) -> Vec<String> {
    let job = |cron_job: &Value| cron_job["spec"]["jobTemplate"]["spec"].clone();
    let path = Path::new("spec").child("jobTemplate").child("spec");
    let Some(old) = old else {
        return workload::warn_of_name(cron_job).into_iter().chain(job::spec_warnings(&job(cron_job), &path)).collect();
    };
    let mut warnings = Vec::new();
    if cron_job["metadata"]["generation"] != old["metadata"]["generation"] {
        warnings.extend(job::spec_warnings(&job(cron_job), &path));
    }
    if text(&cron_job["spec"], "schedule").contains("TZ") {
        // The path is as the API server writes it.
        warnings.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".to_owned());
    }
    warnings
}
