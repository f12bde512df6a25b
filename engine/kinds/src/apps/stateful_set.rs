//! `StatefulSets`.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_label, non_negative};
use pillion_rules::metadata::{self, label_name, validate_annotations};
use pillion_rules::selector::{self, validate_labels};
use pillion_rules::value::{
    copy_fields, fill, fill_text, int, items_mut, list, object_mut, pointer_mut, remove, same, set, text,
};
use pillion_rules::volume_claim;
use serde_json::{Value, json};

use crate::core::persistent_volume_claim;
use crate::int_or_percent;
use crate::pod;
use crate::rules::{Rules, WITH_STATUS};
use crate::workload::{self, default_template, first_generation};

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update: workload::prepare_update,
    validate_update,
    validate_status,
    warnings,
    ..WITH_STATUS
};

fn default(stateful_set: &mut Value) {
    let spec = object_mut(stateful_set, "spec");
    default_template(spec);
    for claim in items_mut(spec, "volumeClaimTemplates") {
        // A claim inside a spec says what it is, as one outside does.
        fill_text(claim, "kind", "PersistentVolumeClaim");
        fill_text(claim, "apiVersion", "v1");
        persistent_volume_claim::default(claim);
    }
    fill_text(spec, "podManagementPolicy", "OrderedReady");
    let strategy = object_mut(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set(strategy, "type", "RollingUpdate");
        object_mut(strategy, "rollingUpdate");
    }
    if text(strategy, "type") == "RollingUpdate"
        && let Some(rolling_update) = pointer_mut(strategy, "rollingUpdate")
    {
        fill(rolling_update, "partition", 0);
    }
    let retention = object_mut(spec, "persistentVolumeClaimRetentionPolicy");
    fill_text(retention, "whenDeleted", "Retain");
    fill_text(retention, "whenScaled", "Retain");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
}

fn prepare_create(stateful_set: &mut Value) {
    set(stateful_set, "status", json!({"replicas": 0, "availableReplicas": 0}));
    first_generation(stateful_set);
    workload::prepare_template(stateful_set);
}

fn validate(stateful_set: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&stateful_set["metadata"], &Path::new("metadata"), true, label_name);
    validate_spec(&stateful_set["spec"], false, &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let path = Path::new("spec");
    validate_spec(&new["spec"], true, &path, &mut errors);
    let mut same_but_for_mutable = new["spec"].clone();
    let mutable = [
        "replicas",
        "template",
        "updateStrategy",
        "minReadySeconds",
        "ordinals",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
    ];
    copy_fields(&mut same_but_for_mutable, &old["spec"], &mutable);
    if !same(&same_but_for_mutable, &old["spec"]) {
        errors.push(Error::forbidden(&path, "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"));
    }
    errors
}

fn validate_spec(spec: &Value, is_update: bool, path: &Path, errors: &mut Vec<Error>) {
    match text(spec, "podManagementPolicy") {
        "" => errors.push(Error::required(&path.child("podManagementPolicy"), "")),
        "OrderedReady" | "Parallel" => {}
        other => {
            let path = path.child("podManagementPolicy");
            errors.push(Error::invalid(&path, other, "must be 'OrderedReady' or 'Parallel'"));
        }
    }
    validate_strategy(&spec["updateStrategy"], &path.child("updateStrategy"), errors);
    for field in ["whenDeleted", "whenScaled"] {
        let policy = text(&spec["persistentVolumeClaimRetentionPolicy"], field);
        if !["Retain", "Delete"].contains(&policy) {
            let path = path.child("persistentVolumeClaimRetentionPolicy").child(field);
            errors.push(Error::not_supported(&path, policy, &["Retain", "Delete"]));
        }
    }
    // What is immutable is not looked at again.
    if !is_update {
        for (i, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = path.child("volumeClaimTemplates").index(i).child("spec");
            volume_claim::validate_spec(&claim["spec"], &path, errors);
        }
    }
    workload::validate_counts(spec, &["replicas", "minReadySeconds"], path, errors);
    non_negative(int(&spec["ordinals"], "start"), &path.child("ordinals.start"), errors);
    let service_name = text(spec, "serviceName");
    if !is_update && !service_name.is_empty() {
        check(dns_label(service_name), service_name, &path.child("serviceName"), errors);
    }
    workload::validate_selector(spec, "statefulset", path, errors);
    let template = &spec["template"];
    match selector::matches(&spec["selector"], &template["metadata"]["labels"]) {
        None => errors.push(Error::invalid(&path.child("selector"), selector::shown(&spec["selector"]), "")),
        Some(selected) => validate_template(spec, selected, &path.child("template"), errors),
    }
    workload::validate_running(template, "StatefulSet", &path.child("template"), errors);
}

/// The template with the volumes that claims will make, and without the names that the controller sets.
fn validate_template(spec: &Value, selected: bool, path: &Path, errors: &mut Vec<Error>) {
    let mut template = spec["template"].clone();
    let pod = object_mut(&mut template, "spec");
    remove(pod, "subdomain");
    remove(pod, "hostname");
    let claims = list(spec, "volumeClaimTemplates");
    if !claims.is_empty() {
        let names: Vec<&str> = claims.iter().map(|claim| text(&claim["metadata"], "name")).collect();
        let claimed = names.iter().map(|name| json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
        let others = list(pod, "volumes").iter().filter(|volume| !names.contains(&text(volume, "name"))).cloned();
        let volumes: Vec<Value> = claimed.chain(others).collect();
        set(pod, "volumes", volumes);
    }
    workload::validate_selected(&template, selected, path, errors);
    workload::validate_template(&template, path, errors);
    let meta = &template["metadata"];
    validate_labels(&meta["labels"], &path.child("labels"), errors);
    validate_annotations(&meta["annotations"], &path.child("annotations"), errors);
}

fn validate_strategy(strategy: &Value, path: &Path, errors: &mut Vec<Error>) {
    let rolling_update = &strategy["rollingUpdate"];
    match text(strategy, "type") {
        "" => errors.push(Error::required(path, "")),
        "OnDelete" if !rolling_update.is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.push(Error::invalid(&path.child("rollingUpdate"), shown(rolling_update), detail));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let path = path.child("rollingUpdate");
            non_negative(int(rolling_update, "partition"), &path.child("partition"), errors);
            let (unavailable, path) = (&rolling_update["maxUnavailable"], path.child("maxUnavailable"));
            if !unavailable.is_null() {
                int_or_percent::validate_positive(unavailable, &path, errors);
                if int_or_percent::number(unavailable) == 0 {
                    errors.push(Error::invalid(&path, unavailable.clone(), "cannot be 0"));
                }
                int_or_percent::validate_not_above_100_percent(unavailable, &path, errors);
            }
        }
        kind => {
            let value = json!({"Type": kind, "RollingUpdate": shown(rolling_update)});
            errors.push(Error::invalid(path, value, "must be 'RollingUpdate' or 'OnDelete'"));
        }
    }
}

/// The strategy with the names of its fields in Go, as the API server shows it.
fn shown(rolling_update: &Value) -> Value {
    match rolling_update {
        Value::Null => Value::Null,
        update => json!({"Partition": int(update, "partition"), "MaxUnavailable": update["maxUnavailable"]}),
    }
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Vec::new();
    let (status, path) = (&new["status"], Path::new("status"));
    let counts = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    workload::validate_counts(status, &counts, &path, &mut errors);
    for part in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        let detail = "cannot be greater than status.replicas";
        workload::validate_part(status, part, "replicas", detail, &path, &mut errors);
    }
    let detail = "cannot be greater than status.readyReplicas";
    workload::validate_part(status, "availableReplicas", "readyReplicas", detail, &path, &mut errors);
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    workload::validate_collision_count(new, old, &mut errors);
    errors
}

fn warnings(stateful_set: &Value, old: Option<&Value>) -> Vec<String> {
    let spec = &stateful_set["spec"];
    let changed = old.is_none_or(|old| old["metadata"]["generation"] != stateful_set["metadata"]["generation"]);
    let mut warnings = Vec::new();
    if changed {
        warnings.extend(pod::template_warnings(&spec["template"], &Path::new("spec").child("template")));
    }
    for (i, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = Path::new("spec").child("volumeClaimTemplates").index(i);
        // The API server writes the path so.
        let path = if old.is_some() { path.child("Spec") } else { path };
        warnings.extend(persistent_volume_claim::spec_warnings(&claim["spec"], &path));
    }
    if int(spec, "revisionHistoryLimit") < 0 {
        warnings.push(
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended"
                .to_owned(),
        );
    }
    warnings
}
