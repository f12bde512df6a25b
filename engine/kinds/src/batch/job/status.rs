//! What the status of a Job may say, given what it said before. Whoever manages Jobs, a mistake there is caught here.

use jiff::Timestamp;
use pillion_rules::field::{Error, IMMUTABLE, Path};
use pillion_rules::metadata;
use pillion_rules::value::{has, int, list, same, text};
use serde_json::Value;

use super::{indexes, validate_count};

pub(super) fn validate(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let change = Change { new, old, path: Path::new("status") };
    change.validate_counts(&mut errors);
    change.validate_conditions(&mut errors);
    change.validate_times(&mut errors);
    change.validate_criteria(&mut errors);
    change.validate_finished(&mut errors);
    change.validate_indexes(&mut errors);
    change.validate_pods(&mut errors);
    change.validate_success(&mut errors);
    change.validate_against_old(&mut errors);
    errors
}

fn has_condition(job: &Value, kind: &str, status: &str) -> bool {
    let conditions = list(&job["status"], "conditions");
    conditions.iter().any(|condition| text(condition, "type") == kind && text(condition, "status") == status)
}

fn is(job: &Value, kind: &str) -> bool {
    has_condition(job, kind, "True")
}

fn is_finished(job: &Value) -> bool {
    is(job, "Complete") || is(job, "Failed")
}

fn is_indexed(job: &Value) -> bool {
    text(&job["spec"], "completionMode") == "Indexed"
}

/// A Job with its new status and its old one. Most rules are only enforced when what they are about changes.
struct Change<'a> {
    new: &'a Value,
    old: &'a Value,
    path: Path,
}

impl Change<'_> {
    fn status(&self) -> &Value {
        &self.new["status"]
    }

    fn changed(&self, field: &str) -> bool {
        !same(&self.new["status"][field], &self.old["status"][field])
    }

    fn turned(&self, kind: &str) -> bool {
        is(self.new, kind) != is(self.old, kind)
    }

    fn finish_changed(&self) -> bool {
        is_finished(self.new) != is_finished(self.old)
    }

    fn conditions(&self, detail: &str) -> Error {
        Error::malformed(&self.path.child("conditions"), detail)
    }

    fn validate_counts(&self, errors: &mut Vec<Error>) {
        for field in ["active", "succeeded", "failed", "ready", "terminating"] {
            validate_count(self.status(), field, &self.path, errors);
        }
        let uncounted = &self.status()["uncountedTerminatedPods"];
        let mut seen: Vec<&str> = Vec::new();
        for field in ["succeeded", "failed"] {
            for (i, uid) in list(uncounted, field).iter().enumerate() {
                let path = self.path.child("uncountedTerminatedPods").child(field).index(i);
                let uid = uid.as_str().unwrap_or_default();
                if uid.is_empty() {
                    errors.push(Error::invalid(&path, uid, "must not be empty"));
                } else if seen.contains(&uid) {
                    errors.push(Error::duplicate(&path, uid));
                } else {
                    seen.push(uid);
                }
            }
        }
    }

    fn validate_conditions(&self, errors: &mut Vec<Error>) {
        let complete = is(self.new, "Complete");
        if (self.turned("Complete") || self.turned("Failed")) && complete && is(self.new, "Failed") {
            errors.push(self.conditions("cannot set Complete=True and Failed=true conditions"));
        }
        if (self.turned("Complete") || self.turned("FailureTarget")) && complete && is(self.new, "FailureTarget") {
            errors.push(self.conditions("cannot set Complete=True and FailureTarget=true conditions"));
        }
    }

    fn validate_times(&self, errors: &mut Vec<Error>) {
        let (status, path) = (self.status(), self.path.child("completionTime"));
        let (start, end) = (&status["startTime"], &status["completionTime"]);
        if self.turned("Complete") || self.changed("completionTime") {
            let complete = is(self.new, "Complete");
            if !end.is_null() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                errors.push(Error::invalid(&path, end.clone(), detail));
            }
            if end.is_null() && complete {
                errors.push(Error::required(&path, "completionTime is required for Complete jobs"));
            }
        }
        let time = |value: &Value| value.as_str().and_then(|time| time.parse::<Timestamp>().ok());
        if (self.changed("startTime") || self.changed("completionTime"))
            && let (Some(start), Some(ended)) = (time(start), time(end))
            && ended < start
        {
            errors.push(Error::invalid(&path, end.clone(), "must be equal to or after `startTime`"));
        }
    }

    fn validate_criteria(&self, errors: &mut Vec<Error>) {
        if (self.turned("Failed") || self.changed("failedIndexes"))
            && is(self.new, "Failed")
            && !is(self.new, "FailureTarget")
        {
            errors.push(self.conditions("cannot set Failed=True condition without the FailureTarget=true condition"));
        }
        if (self.turned("Complete") || self.turned("SuccessCriteriaMet"))
            && is(self.new, "Complete")
            && !is(self.new, "SuccessCriteriaMet")
        {
            let detail = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition";
            errors.push(self.conditions(detail));
        }
    }

    fn validate_finished(&self, errors: &mut Vec<Error>) {
        if !is_finished(self.new) {
            return;
        }
        let (status, changed) = (self.status(), self.finish_changed());
        if (changed || self.changed("active")) && int(status, "active") > 0 {
            let detail = "active>0 is invalid for finished job";
            errors.push(Error::invalid(&self.path.child("active"), int(status, "active"), detail));
        }
        let spec = &self.new["spec"];
        let never_ran = spec["suspend"] == true && spec["completions"] == 0;
        if (changed || self.changed("startTime")) && !never_ran && !has(status, "startTime") {
            errors.push(Error::required(&self.path.child("startTime"), "startTime is required for finished job"));
        }
        let uncounted = &status["uncountedTerminatedPods"];
        let any = !list(uncounted, "failed").is_empty() || !list(uncounted, "succeeded").is_empty();
        if (changed || self.changed("uncountedTerminatedPods")) && any {
            let shown = serde_json::json!({"Succeeded": uncounted["succeeded"], "Failed": uncounted["failed"]});
            let path = self.path.child("uncountedTerminatedPods");
            errors.push(Error::invalid(&path, shown, "must be empty for finished job"));
        }
    }

    fn validate_indexes(&self, errors: &mut Vec<Error>) {
        let (spec, status) = (&self.new["spec"], self.status());
        let completions = spec["completions"].as_i64();
        let (completed, failed) = (text(status, "completedIndexes"), status["failedIndexes"].as_str());
        let (completed_path, failed_path) = (self.path.child("completedIndexes"), self.path.child("failedIndexes"));
        let (completed_changed, failed_changed) = (self.changed("completedIndexes"), self.changed("failedIndexes"));
        let per_index = has(spec, "backoffLimitPerIndex");
        if let Some(completions) = completions.filter(|_| completed_changed)
            && let Err(error) = indexes::count(completed, completions)
        {
            let detail = format!("error parsing completedIndexes: {error}");
            errors.push(Error::invalid(&completed_path, completed, detail));
        }
        if let (Some(completions), Some(failed)) = (completions, failed.filter(|_| failed_changed && per_index))
            && let Err(error) = indexes::count(failed, completions)
        {
            errors.push(Error::invalid(&failed_path, failed, format!("error parsing failedIndexes: {error}")));
        }
        if completed_changed && !completed.is_empty() && !is_indexed(self.new) {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            errors.push(Error::invalid(&completed_path, completed, detail));
        }
        if let Some(failed) = failed.filter(|_| failed_changed && !per_index) {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            errors.push(Error::invalid(&failed_path, failed, detail));
        }
        if let (Some(completions), Some(failed)) = (completions, failed)
            && (completed_changed || failed_changed)
            && !completed.is_empty()
            && !failed.is_empty()
            && let Some(detail) = indexes::overlap(completed, failed, completions)
        {
            errors.push(Error::invalid(&failed_path, failed, detail));
        }
    }

    fn validate_pods(&self, errors: &mut Vec<Error>) {
        let status = self.status();
        let (terminating, ready) = (int(status, "terminating"), int(status, "ready"));
        if (self.finish_changed() || self.changed("terminating")) && terminating > 0 && is_finished(self.new) {
            let detail = "terminating>0 is invalid for finished job";
            errors.push(Error::invalid(&self.path.child("terminating"), terminating, detail));
        }
        if (self.changed("ready") || self.changed("active")) && has(status, "ready") && ready > int(status, "active") {
            let detail = "cannot set more ready pods than active";
            errors.push(Error::invalid(&self.path.child("ready"), ready, detail));
        }
    }

    fn validate_success(&self, errors: &mut Vec<Error>) {
        let met = is(self.new, "SuccessCriteriaMet");
        if met && is(self.new, "Failed") {
            errors.push(self.conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions"));
        }
        if met && is(self.new, "FailureTarget") {
            errors.push(self.conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"));
        }
        if has(&self.new["spec"], "successPolicy") && !met && is(self.new, "Complete") {
            let detail = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True";
            errors.push(self.conditions(detail));
        }
    }

    fn validate_against_old(&self, errors: &mut Vec<Error>) {
        let (new, old, spec) = (self.status(), &self.old["status"], &self.new["spec"]);
        for kind in ["Failed", "Complete", "FailureTarget"] {
            if is(self.old, kind) && !is(self.new, kind) {
                errors.push(self.conditions(&format!("cannot disable the terminal {kind}=True condition")));
            }
        }
        // An indexed Job whose completions follow its parallelism may be made smaller.
        let elastic = is_indexed(self.new) && spec["completions"] == spec["parallelism"];
        for (field, fixed) in [("failed", true), ("succeeded", !elastic)] {
            if fixed && int(new, field) < int(old, field) {
                let detail = format!("cannot decrease the {field} counter");
                errors.push(Error::invalid(&self.path.child(field), int(new, field), detail));
            }
        }
        let end = "completionTime";
        if has(new, end) && has(old, end) && self.changed(end) {
            errors.push(Error::invalid(&self.path.child(end), new[end].clone(), IMMUTABLE));
        }
        let resuming = is(self.old, "Suspended") && has_condition(self.new, "Suspended", "False");
        if has(old, "startTime") && self.changed("startTime") && !resuming && spec["suspend"] != true {
            let detail = "startTime cannot be removed for unsuspended job";
            errors.push(Error::required(&self.path.child("startTime"), detail));
        }
        let (met, was_met) = (is(self.new, "SuccessCriteriaMet"), is(self.old, "SuccessCriteriaMet"));
        if was_met && !met {
            errors.push(self.conditions("cannot disable the SuccessCriteriaMet=True condition"));
        }
        if is(self.old, "Complete") && !was_met && met {
            let detail = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions";
            errors.push(self.conditions(detail));
        }
    }
}
