//! Jobs.

mod indexes;
mod policies;
mod status;

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{dns_label, domain_prefixed_path, non_negative};
use pillion_rules::metadata::{self, subdomain_name, validate_immutable};
use pillion_rules::selector;
use pillion_rules::value::{
    copy_fields, entries, fill, fill_text, has, int, is_empty, items_mut, object_mut, set, sorted, text,
};
use serde_json::{Value, json};

use crate::pod;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, count_spec_changes, default_template, first_generation};

const NAME_LABEL: &str = "batch.kubernetes.io/job-name";
const UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
const LEGACY_NAME_LABEL: &str = "job-name";
const LEGACY_UID_LABEL: &str = "controller-uid";

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    validate_status: status::validate,
    warnings,
    selectable,
    orphan_by_default: true,
    ..WITH_STATUS
};

fn default(job: &mut Value) {
    let spec = object_mut(job, "spec");
    default_template(spec);
    default_policies(spec);
    if !has(spec, "completions") && !has(spec, "parallelism") {
        set(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    let backoff_limit = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    fill(spec, "backoffLimit", backoff_limit);
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    fill(spec, "podReplacementPolicy", replacement);
    fill(spec, "manualSelector", false);
    // A Job that is not created yet gets its labels when those of its pods are complete.
    if !text(&job["metadata"], "uid").is_empty() {
        default_labels(job);
    }
}

/// A Job without labels has those of its pods.
fn default_labels(job: &mut Value) {
    let labels = job["spec"]["template"]["metadata"]["labels"].clone();
    let meta = object_mut(job, "metadata");
    if labels.is_object() && is_empty(meta, "labels") {
        set(meta, "labels", labels);
    }
}

/// Defaults inside a Job, which the template of a CronJob has too.
pub(super) fn default_policies(spec: &mut Value) {
    let rules = spec.get_mut("podFailurePolicy").into_iter().flat_map(|policy| items_mut(policy, "rules"));
    for condition in rules.flat_map(|rule| items_mut(rule, "onPodConditions")) {
        fill_text(condition, "status", "True");
    }
}

fn prepare_create(job: &mut Value) {
    // In Go the two are one map then, and what is added to the one is added to the other.
    let shared = !is_empty(&job["spec"]["template"]["metadata"], "labels");
    if job["spec"]["manualSelector"] != true {
        generate_selector(job);
    }
    if shared {
        default_labels(job);
    }
    set(job, "status", json!({}));
    first_generation(job);
    workload::prepare_template(job);
}

/// Marks pods with the name and uid of their Job, so that no other Job can take them.
fn generate_selector(job: &mut Value) {
    let name = text(&job["metadata"], "name").to_owned();
    let uid = text(&job["metadata"], "uid").to_owned();
    let spec = object_mut(job, "spec");
    let labels = object_mut(object_mut(object_mut(spec, "template"), "metadata"), "labels");
    for (label, value) in [(LEGACY_NAME_LABEL, &name), (NAME_LABEL, &name), (LEGACY_UID_LABEL, &uid), (UID_LABEL, &uid)]
    {
        fill(labels, label, value.as_str());
    }
    fill(object_mut(object_mut(spec, "selector"), "matchLabels"), UID_LABEL, uid);
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    workload::prepare_template(new);
    count_spec_changes(new, old);
}

fn validate(job: &Value) -> Vec<Error> {
    validate_job(job, true)
}

fn validate_job(job: &Value, require_prefixed_labels: bool) -> Vec<Error> {
    let (meta, spec) = (&job["metadata"], &job["spec"]);
    let mut errors = metadata::validate_strict(meta, &Path::new("metadata"), true, subdomain_name);
    validate_generated_selector(job, require_prefixed_labels, &mut errors);
    validate_selected_spec(spec, &Path::new("spec"), &mut errors);
    let completions = int(spec, "completions");
    if text(spec, "completionMode") == "Indexed" && completions > 0 {
        let hostname = format!("{}-{}", text(meta, "name"), completions.saturating_sub(1));
        if !dns_label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.push(Error::invalid(&Path::new("metadata").child("name"), text(meta, "name"), detail));
        }
    }
    errors
}

fn validate_generated_selector(job: &Value, require_prefixed_labels: bool, errors: &mut Vec<Error>) {
    let (meta, spec) = (&job["metadata"], &job["spec"]);
    if spec["manualSelector"] == true || !has(spec, "selector") {
        return;
    }
    let (name, uid) = (text(meta, "name"), text(meta, "uid"));
    if uid.is_empty() {
        errors.push(Error::required(&Path::new("metadata").child("uid"), ""));
    }
    let mut expected = vec![(LEGACY_UID_LABEL, uid), (LEGACY_NAME_LABEL, name)];
    if require_prefixed_labels {
        expected.extend([(UID_LABEL, uid), (NAME_LABEL, name)]);
    }
    let path = Path::new("spec").child("template").child("metadata").child("labels");
    let labels = &spec["template"]["metadata"]["labels"];
    for (label, value) in &expected {
        match labels[*label].as_str() {
            None => errors.push(Error::required(&path.key(*label), format!("must be '{value}'"))),
            Some(actual) if actual != *value => {
                errors.push(Error::invalid(&path.key(*label), sorted(labels), format!("must be '{value}'")));
            }
            Some(_) => {}
        }
    }
    let expected: Value = expected.into_iter().map(|(label, value)| (label.to_owned(), json!(value))).collect();
    if selector::matches(&spec["selector"], &expected) == Some(false) {
        let path = Path::new("spec").child("selector");
        errors.push(Error::invalid(&path, selector::shown(&spec["selector"]), "`selector` not auto-generated"));
    }
}

fn validate_selected_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    validate_spec(spec, path, errors);
    if has(spec, "selector") {
        selector::validate(&spec["selector"], &path.child("selector"), errors);
    } else {
        errors.push(Error::required(&path.child("selector"), ""));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    let selected = selector::matches(&spec["selector"], labels).unwrap_or(true);
    workload::validate_selected(&spec["template"], selected, &path.child("template"), errors);
}

/// The spec of a Job, or of the Jobs of a CronJob, which have no selector yet.
pub(super) fn validate_spec(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    workload::validate_counts(spec, &counts, path, errors);
    if has(spec, "maxFailedIndexes") && !has(spec, "backoffLimitPerIndex") {
        errors.push(Error::required(&path.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        validate_managed_by(manager, &path.child("managedBy"), errors);
    }
    validate_completion_mode(spec, path, errors);
    if has(spec, "podFailurePolicy") {
        policies::validate_failure_policy(spec, &path.child("podFailurePolicy"), errors);
    }
    if has(spec, "successPolicy") {
        let path = path.child("successPolicy");
        if text(spec, "completionMode") == "Indexed" {
            policies::validate_success_policy(spec, &path, errors);
        } else {
            let shown = policies::shown_success_policy(&spec["successPolicy"]);
            errors.push(Error::invalid(&path, shown, "requires indexed completion mode"));
        }
    }
    policies::validate_replacement_policy(spec, &path.child("podReplacementPolicy"), errors);
    workload::validate_template(&spec["template"], &path.child("template"), errors);
    validate_restart_policy(spec, &path.child("template").child("spec").child("restartPolicy"), errors);
}

fn validate_managed_by(manager: &str, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: usize = 63;
    domain_prefixed_path(manager, path, errors);
    if manager.len() > LIMIT {
        errors.push(Error::too_long(path, LIMIT));
    }
}

fn validate_completion_mode(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let mode = text(spec, "completionMode");
    if has(spec, "completionMode") && !["NonIndexed", "Indexed"].contains(&mode) {
        errors.push(Error::not_supported(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"]));
    }
    if mode == "Indexed" {
        validate_indexed(spec, path, errors);
    }
    if !has(spec, "completionMode") || mode == "NonIndexed" {
        for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if has(spec, field) {
                errors.push(Error::invalid(&path.child(field), int(spec, field), "requires indexed completion mode"));
            }
        }
    }
}

fn validate_indexed(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    const LIMIT: i64 = 100_000;
    const LIMIT_WITH_MANY_COMPLETIONS: i64 = 10_000;
    let (completions, failed) = (spec["completions"].as_i64(), spec["maxFailedIndexes"].as_i64());
    let parallelism = int(spec, "parallelism");
    let (parallelism_path, failed_path) = (path.child("parallelism"), path.child("maxFailedIndexes"));
    if completions.is_none() {
        errors.push(Error::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    if parallelism > LIMIT {
        let detail = format!("must be less than or equal to {LIMIT} when completion mode is Indexed");
        errors.push(Error::invalid(&parallelism_path, parallelism, detail));
    }
    if let (Some(completions), Some(failed)) = (completions, failed)
        && failed > completions
    {
        errors.push(Error::invalid(&failed_path, failed, "must be less than or equal to completions"));
    }
    if let Some(failed) = failed.filter(|failed| *failed > LIMIT) {
        errors.push(Error::invalid(&failed_path, failed, format!("must be less than or equal to {LIMIT}")));
    }
    if completions.is_some_and(|completions| completions > LIMIT) && has(spec, "backoffLimitPerIndex") {
        let limit = LIMIT_WITH_MANY_COMPLETIONS;
        let detail = format!(
            "must be less than or equal to {limit} when completions are above {LIMIT} and used with backoff limit per index"
        );
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {LIMIT}");
            errors.push(Error::required(&failed_path, detail));
        }
        if parallelism > limit {
            errors.push(Error::invalid(&parallelism_path, parallelism, detail.clone()));
        }
        if let Some(failed) = failed.filter(|failed| *failed > limit) {
            errors.push(Error::invalid(&failed_path, failed, detail));
        }
    }
}

fn validate_restart_policy(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => errors.push(Error::required(path, r#"valid values: "OnFailure", "Never""#)),
        "OnFailure" if has(spec, "podFailurePolicy") => {
            let detail = r#"only "Never" is supported when podFailurePolicy is specified"#;
            errors.push(Error::invalid(path, "OnFailure", detail));
        }
        "Never" | "OnFailure" => {}
        other => errors.push(Error::not_supported(path, other, &["OnFailure", "Never"])),
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let old_labels = &old["spec"]["template"]["metadata"]["labels"];
    let mut errors = validate_job(new, has(old_labels, NAME_LABEL) && has(old_labels, UID_LABEL));
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    let (spec, old_spec, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    validate_selected_spec(spec, &path, &mut errors);
    validate_completions(spec, old_spec, &path.child("completions"), &mut errors);
    let immutable = |field: &str, errors: &mut Vec<Error>| {
        validate_immutable(&spec[field], &old_spec[field], &path.child(field), errors);
    };
    selector::validate_immutable(spec, old_spec, &path, &mut errors);
    validate_template_update(new, old, &path.child("template"), &mut errors);
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        immutable(field, &mut errors);
    }
    errors
}

fn validate_completions(spec: &Value, old: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (new, old) = (&spec["completions"], &old["completions"]);
    if text(spec, "completionMode") != "Indexed" {
        return validate_immutable(new, old, path, errors);
    }
    if new != old && !new.is_null() && *new != spec["parallelism"] {
        // The path names the root of the object, as upstream does.
        errors.push(Error::invalid(path, new.clone(), "can only be modified in tandem with spec.parallelism"));
    }
}

/// The template may not change; until a suspended Job first starts, where its pods may run may.
fn validate_template_update(new: &Value, old: &Value, path: &Path, errors: &mut Vec<Error>) {
    let template = &new["spec"]["template"];
    let mut expected = old["spec"]["template"].clone();
    if old["spec"]["suspend"] == true && !has(&old["status"], "startTime") {
        copy_fields(object_mut(&mut expected, "metadata"), &template["metadata"], &["annotations", "labels"]);
        let pod = object_mut(&mut expected, "spec");
        copy_fields(pod, &template["spec"], &["nodeSelector", "tolerations", "schedulingGates"]);
        let affinity = &template["spec"]["affinity"];
        if affinity.is_null() {
            if let Some(affinity) = pod.get_mut("affinity") {
                pillion_rules::value::remove(affinity, "nodeAffinity");
            }
            if entries(pod, "affinity").next().is_none() {
                pillion_rules::value::remove(pod, "affinity");
            }
        } else {
            copy_fields(object_mut(pod, "affinity"), affinity, &["nodeAffinity"]);
        }
    }
    if !pillion_rules::value::same(template, &expected) {
        errors.push(Error::invalid(path, shown_template(template), "field is immutable"));
    }
}

/// A template as errors quote it: Go's own form, with the metadata in line.
fn shown_template(template: &Value) -> Value {
    let mut shown = template["metadata"].clone();
    if !shown.is_object() {
        shown = serde_json::json!({});
    }
    shown["Spec"] = pillion_rules::pod::internal::bad_value("PodSpec", &template["spec"]);
    shown
}

pub(super) fn spec_warnings(spec: &Value, path: &Path) -> Vec<String> {
    let mut warnings = Vec::new();
    if text(spec, "completionMode") == "Indexed"
        && int(spec, "completions") > 100_000
        && int(spec, "parallelism") > 10_000
    {
        warnings.push(format!("{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    warnings.extend(pod::template_warnings(&spec["template"], &path.child("template")));
    warnings
}

fn warnings(job: &Value, old: Option<&Value>) -> Vec<String> {
    let path = Path::new("spec");
    match old {
        None => workload::warn_of_name(job).into_iter().chain(spec_warnings(&job["spec"], &path)).collect(),
        Some(old) if job["metadata"]["generation"] != old["metadata"]["generation"] => {
            spec_warnings(&job["spec"], &path)
        }
        Some(_) => Vec::new(),
    }
}

fn selectable(job: &Value, field: &str) -> Option<String> {
    (field == "status.successful").then(|| int(&job["status"], "succeeded").to_string())
}

/// Refuses a negative number that may be absent.
fn validate_count(object: &Value, field: &str, path: &Path, errors: &mut Vec<Error>) {
    non_negative(int(object, field), &path.child(field), errors);
}
