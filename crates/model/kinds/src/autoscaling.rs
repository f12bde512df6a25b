//! `HorizontalPodAutoscalers`. Stored as `autoscaling/v2`; `autoscaling/v1` is another way to see them.

mod conversion;
mod metrics;

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::format::{check, path_segment};
use crate::metadata::{self, subdomain_name};
use crate::quantities;
use crate::rules::{Rules, WITH_STATUS};
use crate::value::{fill, has, int, is_empty, list, object_mut, pointer_mut, set, text};
use crate::workload;

pub(crate) use conversion::STORAGE;

/// Rules of `autoscaling/v2`.
pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create: |autoscaler| {
        set(autoscaler, "status", json!({"desiredReplicas": 0, "currentMetrics": null}));
    },
    validate,
    validate_update,
    validate_status,
    ..WITH_STATUS
};

/// Rules of `autoscaling/v1`: its own defaults, and all else on the stored form.
pub(crate) const V1_RULES: Rules =
    Rules { default: |autoscaler| fill(object_mut(autoscaler, "spec"), "minReplicas", 1), ..RULES };

fn default(autoscaler: &mut Value) {
    let spec = object_mut(autoscaler, "spec");
    fill(spec, "minReplicas", 1);
    if is_empty(spec, "metrics") {
        set(spec, "metrics", json!([metrics::default()]));
    }
    let Some(behavior) = pointer_mut(spec, "behavior") else { return };
    let up = object_mut(behavior, "scaleUp");
    fill(up, "stabilizationWindowSeconds", 0);
    fill(up, "selectPolicy", "Max");
    let policies = json!([
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ]);
    fill(up, "policies", policies);
    let down = object_mut(behavior, "scaleDown");
    fill(down, "selectPolicy", "Max");
    fill(down, "policies", json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]));
}

fn validate(autoscaler: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&autoscaler["metadata"], &Path::new("metadata"), true, subdomain_name);
    validate_spec(&autoscaler["spec"], None, &Path::new("spec"), &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_spec(&new["spec"], Some(&old["spec"]), &Path::new("spec"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, old: Option<&Value>, path: &Path, errors: &mut Vec<Error>) {
    let lowest = i64::from(old.is_none_or(|old| old["minReplicas"] != 0));
    let (min, max) = (int(spec, "minReplicas"), int(spec, "maxReplicas"));
    if min < lowest {
        let detail = format!("must be greater than or equal to {lowest}");
        errors.push(Error::invalid(&path.child("minReplicas"), min, detail));
    }
    if max < 1 {
        errors.push(Error::invalid(&path.child("maxReplicas"), max, "must be greater than 0"));
    }
    if max < min {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(Error::invalid(&path.child("maxReplicas"), max, detail));
    }
    let target = &spec["scaleTargetRef"];
    let kept = old.is_some_and(|old| {
        let old = &old["scaleTargetRef"];
        old["apiVersion"] == target["apiVersion"] && old["kind"] == target["kind"]
    });
    let group_required = text(target, "kind") != "ReplicationController";
    validate_reference(target, group_required, kept, &path.child("scaleTargetRef"), errors);
    metrics::validate(spec, &path.child("metrics"), errors);
    for field in ["scaleUp", "scaleDown"] {
        if has(&spec["behavior"], field) {
            validate_rules(&spec["behavior"][field], &path.child("behavior").child(field), errors);
        }
    }
}

/// A reference to an object of any version.
fn validate_reference(reference: &Value, group_required: bool, kept: bool, path: &Path, errors: &mut Vec<Error>) {
    for field in ["kind", "name"] {
        match text(reference, field) {
            "" => errors.push(Error::required(&path.child(field), "")),
            value => check(path_segment(value), value, &path.child(field), errors),
        }
    }
    let version = text(reference, "apiVersion");
    let detail = match version.matches('/').count() {
        _ if kept => return,
        0 if group_required => "apiVersion must specify API group".to_owned(),
        0 | 1 => return,
        _ => format!("unexpected GroupVersion string: {version}"),
    };
    errors.push(Error::invalid(&path.child("apiVersion"), version, detail));
}

fn validate_rules(rules: &Value, path: &Path, errors: &mut Vec<Error>) {
    const WINDOW_LIMIT: i64 = 3600;
    const PERIOD_LIMIT: i64 = 1800;
    const SELECT_POLICIES: [&str; 3] = ["Disabled", "Max", "Min"];
    let window = int(rules, "stabilizationWindowSeconds");
    let window_path = path.child("stabilizationWindowSeconds");
    if window < 0 {
        errors.push(Error::invalid(&window_path, window, "must be greater than or equal to zero"));
    }
    if window > WINDOW_LIMIT {
        errors.push(Error::invalid(&window_path, window, format!("must be less than or equal to {WINDOW_LIMIT}")));
    }
    if let Some(select) = rules["selectPolicy"].as_str().filter(|select| !SELECT_POLICIES.contains(select)) {
        errors.push(Error::not_supported(&path.child("selectPolicy"), select, &SELECT_POLICIES));
    }
    let policies = list(rules, "policies");
    if policies.is_empty() {
        errors.push(Error::required(&path.child("policies"), "must specify at least one Policy"));
    }
    for (i, policy) in policies.iter().enumerate() {
        let path = path.child("policies").index(i);
        let kind = text(policy, "type");
        if !["Pods", "Percent"].contains(&kind) {
            errors.push(Error::not_supported(&path.child("type"), kind, &["Percent", "Pods"]));
        }
        for field in ["value", "periodSeconds"] {
            if int(policy, field) <= 0 {
                errors.push(Error::invalid(&path.child(field), int(policy, field), "must be greater than zero"));
            }
        }
        let period = int(policy, "periodSeconds");
        if period > PERIOD_LIMIT {
            let detail = format!("must be less than or equal to {PERIOD_LIMIT}");
            errors.push(Error::invalid(&path.child("periodSeconds"), period, detail));
        }
    }
    quantities::validate_value(false, &rules["tolerance"], &path.child("tolerance"), errors);
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let counts = ["currentReplicas", "desiredReplicas"];
    workload::validate_counts(&new["status"], &counts, &Path::new("status"), &mut errors);
    errors
}
