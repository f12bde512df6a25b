//! LimitRanges.

use std::collections::BTreeSet;

use pillion_quantity::Quantity;
use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, qualified_name};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::quantities::quantity;
use pillion_rules::resource_name;
use pillion_rules::value::{entries, fill, has, is_empty, items_mut, list, object_mut, text};
use serde_json::Value;

use crate::rules::{Rules, STORED};

pub(crate) const RULES: Rules =
    Rules { default, validate, validate_update: |new, _| validate(new), create_on_update: true, ..STORED };

fn default(range: &mut Value) {
    for limit in items_mut(object_mut(range, "spec"), "limits") {
        if text(limit, "type") != "Container" {
            continue;
        }
        // An absent limit is the maximum, an absent request is the limit, or else the minimum.
        for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
            for (name, value) in limit[from].as_object().cloned().into_iter().flatten() {
                fill(object_mut(limit, to), &name, value);
            }
        }
    }
}

fn validate(range: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_strict(&range["metadata"], &Path::new("metadata"), true, subdomain_name);
    let limits = list(&range["spec"], "limits");
    for (i, limit) in limits.iter().enumerate() {
        let path = Path::new("spec").child("limits").index(i);
        let kind = text(limit, "type");
        validate_type(kind, &path.child("type"), &mut errors);
        if limits.iter().take(i).any(|earlier| text(earlier, "type") == kind) {
            errors.push(Error::duplicate(&path.child("type"), kind));
        }
        validate_names(limit, kind, &path, &mut errors);
        validate_values(limit, kind, &path, &mut errors);
    }
    errors
}

fn validate_type(kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let complaints = qualified_name(kind);
    if !complaints.is_empty() {
        return check(complaints, kind, path, errors);
    }
    if !kind.contains('/') && !["Pod", "Container", "PersistentVolumeClaim"].contains(&kind) {
        errors.push(Error::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
}

fn validate_names(limit: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let check_names = |field: &str, errors: &mut Vec<Error>| {
        for (name, _) in entries(limit, field) {
            let path = path.child(field).key(name);
            if ["Pod", "Container"].contains(&kind) {
                resource_name::validate_of_container(name, &path, errors);
            } else {
                resource_name::validate(name, &path, errors);
            }
        }
    };
    check_names("max", errors);
    check_names("min", errors);
    for field in ["default", "defaultRequest"] {
        if kind != "Pod" {
            check_names(field, errors);
        } else if !is_empty(limit, field) {
            errors.push(Error::forbidden(&path.child(field), "may not be specified when `type` is 'Pod'"));
        }
    }
    if kind == "PersistentVolumeClaim" && !has(&limit["min"], "storage") && !has(&limit["max"], "storage") {
        let detail = "either minimum or maximum storage value is required, but neither was provided";
        errors.push(Error::required(&path.child("limits"), detail));
    }
    check_names("maxLimitRequestRatio", errors);
}

fn validate_values(limit: &Value, kind: &str, path: &Path, errors: &mut Vec<Error>) {
    let fields = ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> =
        fields.iter().flat_map(|field| entries(limit, field)).map(|(name, _)| name).collect();
    for name in names {
        let of = |field: &str| quantity(&limit[field][name.as_str()]);
        let (min, max) = (of("min"), of("max"));
        let own = |field: &str| if kind == "Pod" { None } else { of(field) };
        let (default, request) = (own("default"), own("defaultRequest"));
        let mut refuse_above =
            |low: Option<Quantity>, high: Option<Quantity>, at: &str, shown: Option<Quantity>, words: [&str; 2]| {
                if let (Some(low), Some(high), Some(shown)) = (low, high, shown)
                    && low > high
                {
                    let detail = format!("{} value {low} is greater than {} value {high}", words[0], words[1]);
                    errors.push(Error::invalid(&path.child(at).key(name), shown.to_string(), detail));
                }
            };
        refuse_above(min, max, "min", min, ["min", "max"]);
        refuse_above(min, request, "defaultRequest", request, ["min", "default request"]);
        refuse_above(request, max, "defaultRequest", request, ["default request", "max"]);
        refuse_above(request, default, "defaultRequest", request, ["default request", "default limit"]);
        refuse_above(min, default, "default", min, ["min", "default"]);
        refuse_above(default, max, "default", max, ["default", "max"]);
        if let Some(ratio) = of("maxLimitRequestRatio") {
            validate_ratio(ratio, min, max, &path.child("maxLimitRequestRatio").key(name), errors);
        }
        if let (Some(default), Some(request)) = (default, request)
            && !resource_name::may_overcommit(name)
            && default != request
        {
            let detail = format!("default value {default} must equal to defaultRequest value {request} in {name}");
            errors.push(Error::invalid(&path.child("defaultRequest").key(name), request.to_string(), detail));
        }
    }
}

fn validate_ratio(ratio: Quantity, min: Option<Quantity>, max: Option<Quantity>, path: &Path, errors: &mut Vec<Error>) {
    if ratio.milli_value() < 1000 {
        errors.push(Error::invalid(path, ratio.to_string(), format!("ratio {ratio} is less than 1")));
    }
    let (Some(min), Some(max)) = (min, max) else { return };
    // Only shown: the decision is made in whole numbers.
    #[allow(clippy::cast_precision_loss)]
    let shown = max.milli_value() as f64 / min.milli_value() as f64;
    if ratio.milli_value().saturating_mul(min.milli_value()) > max.milli_value().saturating_mul(1000) {
        let detail = format!("ratio {ratio} is greater than max/min = {shown:.6}");
        errors.push(Error::invalid(path, ratio.to_string(), detail));
    }
}
