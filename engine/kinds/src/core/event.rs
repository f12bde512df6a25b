//! Events, as `v1` and `events.k8s.io/v1` have them. Stored as `v1`.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{check, dns_subdomain, qualified_name};
use pillion_rules::metadata::{self, subdomain_name, validate_immutable};
use pillion_rules::value::{has, int, text};
use serde_json::{Map, Value, json};

use crate::rules::{Rules, STORED};
use crate::storage::Storage;

/// Rules of `events` of `v1`.
pub(crate) const RULES: Rules = Rules {
    validate: |event| legacy_complaints(event, "reportingComponent"),
    validate_update: |new, _| legacy_complaints(new, "reportingComponent"),
    selectable,
    create_on_update: true,
    ..STORED
};

/// Rules of `events` of `events.k8s.io/v1`, on the stored form.
pub(crate) const NEW_RULES: Rules = Rules {
    validate,
    validate_update,
    selectable: |event, field| {
        let field = match field.strip_prefix("regarding.") {
            Some(rest) => format!("involvedObject.{rest}"),
            None if field == "reportingController" => "reportingComponent".to_owned(),
            None => field.to_owned(),
        };
        selectable(event, &field)
    },
    create_on_update: true,
    ..STORED
};

/// Events of `events.k8s.io/v1` are kept as `v1`.
pub(crate) const STORAGE: Storage = Storage { group: "", version: "v1", to_storage, from_storage };

/// Fields that have another name, `events.k8s.io/v1` first.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(event: &mut Value, api_version: &str, renamed: impl Fn(&str) -> Option<&'static str>) {
    let Some(fields) = event.as_object_mut() else { return };
    let fields = std::mem::take(fields);
    let fields = fields.into_iter().map(|(field, value)| match renamed(&field) {
        Some(name) => (name.to_owned(), value),
        None if field == "apiVersion" => (field, json!(api_version)),
        None => (field, value),
    });
    *event = Value::Object(fields.collect::<Map<_, _>>());
}

fn to_storage(event: &mut Value) {
    rename(event, "v1", |field| RENAMED.iter().find(|(new, _)| *new == field).map(|(_, old)| *old));
    // What is no pointer in `v1` is there, and so are texts that are never left out.
    for (field, zero) in [
        ("involvedObject", json!({})),
        ("source", json!({})),
        ("firstTimestamp", Value::Null),
        ("lastTimestamp", Value::Null),
        ("reportingComponent", json!("")),
        ("reportingInstance", json!("")),
    ] {
        if let Some(fields) = event.as_object_mut() {
            fields.entry(field).or_insert(zero);
        }
    }
}

fn from_storage(event: &mut Value) {
    rename(event, "events.k8s.io/v1", |field| RENAMED.iter().find(|(_, old)| *old == field).map(|(new, _)| *new));
    for field in ["reportingController", "reportingInstance"] {
        if text(event, field).is_empty() {
            pillion_rules::value::remove(event, field);
        }
    }
}

fn legacy_complaints(event: &Value, controller_field: &str) -> Vec<Error> {
    let mut errors = Vec::new();
    let namespace = text(&event["metadata"], "namespace");
    let involved = text(&event["involvedObject"], "namespace");
    let matches = if has(event, "eventTime") {
        !involved.is_empty() || ["default", "kube-system"].contains(&namespace)
    } else if involved.is_empty() {
        ["", "default"].contains(&namespace)
    } else {
        involved == namespace
    };
    if !matches {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(Error::invalid(&path, involved, "does not match event.namespace"));
    }
    if has(event, "eventTime") {
        validate_reported(event, controller_field, &mut errors);
    }
    check(dns_subdomain(namespace), namespace, &Path::new("namespace"), &mut errors);
    errors
}

fn validate_reported(event: &Value, controller_field: &str, errors: &mut Vec<Error>) {
    let controller = text(event, "reportingComponent");
    let path = Path::new(controller_field);
    if controller.is_empty() {
        errors.push(Error::required(&path, ""));
    }
    check(qualified_name(controller), controller, &path, errors);
    for (field, required, limit) in
        [("reportingInstance", true, 128), ("action", true, 128), ("reason", true, 128), ("message", false, 1024)]
    {
        let (value, path) = (text(event, field), Path::new(field));
        if required && value.is_empty() {
            errors.push(Error::required(&path, ""));
        }
        if value.len() > limit {
            errors.push(Error::invalid(&path, "", format!("can have at most {limit} characters")));
        }
    }
}

fn validate(event: &Value) -> Vec<Error> {
    let mut errors = legacy_complaints(event, "reportingController");
    errors.extend(metadata::validate_strict(&event["metadata"], &Path::new("metadata"), true, subdomain_name));
    validate_series(event, &mut errors);
    if !has(event, "eventTime") {
        errors.push(Error::required(&Path::new("eventTime"), ""));
    }
    let kind = text(event, "type");
    if !["Normal", "Warning"].contains(&kind) {
        errors.push(Error::invalid(&Path::new("type"), "", format!("has invalid value: {kind}")));
    }
    let source = &event["source"];
    for (field, set) in [
        ("firstTimestamp", has(event, "firstTimestamp")),
        ("lastTimestamp", has(event, "lastTimestamp")),
        ("count", int(event, "count") != 0),
        ("source", !text(source, "component").is_empty() || !text(source, "host").is_empty()),
    ] {
        if set {
            errors.push(Error::invalid(&Path::new(field), "", "needs to be unset"));
        }
    }
    errors
}

fn validate_series(event: &Value, errors: &mut Vec<Error>) {
    let series = &event["series"];
    if series.is_null() {
        return;
    }
    if int(series, "count") < 2 {
        errors.push(Error::invalid(&Path::new("series.count"), "", "should be at least 2"));
    }
    if !has(series, "lastObservedTime") {
        errors.push(Error::required(&Path::new("series.lastObservedTime"), ""));
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = legacy_complaints(new, "reportingController");
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    if new["series"] != old["series"] {
        validate_series(new, &mut errors);
    }
    let reference = |event: &Value| in_go(&event["involvedObject"]);
    validate_immutable(&reference(new), &reference(old), &Path::new("involvedObject"), &mut errors);
    for field in [
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        // kube-apiserver complains twice.
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
    ] {
        validate_immutable(&new[field], &old[field], &Path::new(field), &mut errors);
    }
    let controller = "reportingComponent";
    validate_immutable(&new[controller], &old[controller], &Path::new("reportingController"), &mut errors);
    let instance = "reportingInstance";
    validate_immutable(&new[instance], &old[instance], &Path::new(instance), &mut errors);
    errors
}

/// A reference to an object as Go's own type has it, which messages show.
fn in_go(reference: &Value) -> Value {
    json!({
        "Kind": text(reference, "kind"),
        "Namespace": text(reference, "namespace"),
        "Name": text(reference, "name"),
        "UID": text(reference, "uid"),
        "APIVersion": text(reference, "apiVersion"),
        "ResourceVersion": text(reference, "resourceVersion"),
        "FieldPath": text(reference, "fieldPath"),
    })
}

fn selectable(event: &Value, field: &str) -> Option<String> {
    let value = match field {
        "reason" | "reportingComponent" | "type" => text(event, field),
        "source" => match text(&event["source"], "component") {
            "" => text(event, "reportingComponent"),
            component => component,
        },
        _ => {
            let field = field.strip_prefix("involvedObject.")?;
            let known = ["kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"];
            known.contains(&field).then(|| text(&event["involvedObject"], field))?
        }
    };
    Some(value.to_owned())
}
