//! Stories: who applied and updated what, what came of it, and who owns it. Most are tables of structured-merge-diff and of apimachinery's
//! `managedfields`, with Kubernetes' own kinds; expected answers are those of Kubernetes 1.35.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::schema::builtin;

mod custom;
mod ownership;
mod properties;
mod refusals;

pub(super) const NOON: &str = "2026-11-15T12:00:00Z";

pub(super) fn at(time: &str) -> Timestamp {
    time.parse().expect("a time")
}

pub(super) fn context<'a>(kind: &'a str, manager: &'a str) -> Context<'a> {
    let (api_version, schema) = match kind {
        "Deployment" => ("apps/v1", "io.k8s.api.apps.v1.Deployment"),
        "ControllerRevision" => ("apps/v1", "io.k8s.api.apps.v1.ControllerRevision"),
        "ConfigMap" => ("v1", "io.k8s.api.core.v1.ConfigMap"),
        _ => ("v1", "io.k8s.api.core.v1.Pod"),
    };
    Context {
        schema: builtin().get(schema).expect("a kind"),
        api_version,
        kind,
        manager: Manager { name: manager, subresource: "" },
        now: at(NOON),
        reset: &[],
    }
}

/// The object of this kind with these parts.
pub(super) fn object(context: &Context<'_>, parts: Value) -> Value {
    let mut object = json!({"apiVersion": context.api_version, "kind": context.kind, "metadata": {"name": "x"}});
    for (name, part) in parts.as_object().into_iter().flatten() {
        match (name.as_str(), part) {
            ("metadata", Value::Object(fields)) => {
                for (name, value) in fields {
                    object["metadata"][name] = value.clone();
                }
            }
            _ => object[name] = part.clone(),
        }
    }
    object
}

pub(super) enum Step {
    /// Applies; must not conflict.
    Apply(&'static str, Value),
    /// Applies by force.
    Force(&'static str, Value),
    /// Applies, and meets these conflicts.
    Conflict(&'static str, Value, &'static str),
    /// Replaces the object.
    Update(&'static str, Value),
}

/// Plays the steps; the object without its `managedFields`, and who owns what.
pub(super) fn play(kind: &str, steps: Vec<Step>) -> (Value, Vec<String>) {
    let mut live: Option<Value> = None;
    for step in steps {
        let next = match step {
            Step::Apply(manager, parts) => {
                let context = context(kind, manager);
                apply(&context, live.as_ref(), &object(&context, parts), false).expect("no conflict")
            }
            Step::Force(manager, parts) => {
                let context = context(kind, manager);
                apply(&context, live.as_ref(), &object(&context, parts), true).expect("force")
            }
            Step::Conflict(manager, parts, message) => {
                let context = context(kind, manager);
                let error = apply(&context, live.as_ref(), &object(&context, parts), false).expect_err("a conflict");
                assert_eq!(error.to_string(), message);
                continue;
            }
            Step::Update(manager, parts) => {
                let context = context(kind, manager);
                let mut new = object(&context, parts);
                update(&context, live.as_ref(), &mut new);
                new
            }
        };
        live = Some(next);
    }
    let mut live = live.expect("a step");
    let owners = owners(&live);
    set_managed_fields(&mut live, Vec::new());
    (live, owners)
}

/// `manager Operation: path path`, in the order of the list.
pub(super) fn owners(object: &Value) -> Vec<String> {
    let managed = entries::decode(managed_fields(object)).expect("well-formed");
    managed
        .iter()
        .map(|entry| {
            let subresource = entry.identity.subresource.as_ref();
            let slash = if subresource.is_empty() { "" } else { "/" };
            let Identity { manager, operation, .. } = &entry.identity;
            format!("{manager}{slash}{subresource} {operation}: {}", entry.set.paths().join(" "))
        })
        .collect()
}

#[test]
fn what_was_written_is_what_kubernetes_1_35_writes() {
    // A Deployment that was just created: its fields before admission and the strategy.
    let context = context("Deployment", "m1");
    let mut new = object(
        &context,
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "x"}},
                    "spec": {
                        "containers": [{
                            "name": "c", "image": "nginx",
                            "ports": [{"containerPort": 443, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}],
                            "resources": {}, "terminationMessagePath": "/dev/termination-log", "imagePullPolicy": "Always"
                        }],
                        "restartPolicy": "Always", "securityContext": {}
                    }
                },
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}
            },
            "status": {}
        }),
    );
    update(&context, None, &mut new);
    assert_eq!(
        managed_fields(&new).to_string(),
        concat!(
            r#"[{"manager":"m1","operation":"Update","apiVersion":"apps/v1","time":"2026-11-15T12:00:00Z","fieldsType":"FieldsV1","fieldsV1":"#,
            r#"{"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"#,
            r#""f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},"#,
            r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"#,
            r#""f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":"#,
            r#"{".":{},"f:containerPort":{},"f:protocol":{}},"k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"#,
            r#""f:containerPort":{},"f:protocol":{}}},"f:resources":{},"f:terminationMessagePath":{}}},"f:restartPolicy":{},"#,
            r#""f:securityContext":{}}}}}}]"#
        )
    );
}

#[test]
fn what_was_applied_is_what_kubernetes_1_35_writes() {
    let context = context("Deployment", "m1");
    let applied = object(
        &context,
        json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{
                    "name": "c", "image": "nginx",
                    "ports": [{"containerPort": 80}, {"containerPort": 443, "name": "s"}, {"containerPort": 80, "protocol": "UDP"}]
                }]}}
            }
        }),
    );
    let created = apply(&context, None, &applied, false).expect("applies");
    assert_eq!(
        managed_fields(&created).to_string(),
        concat!(
            r#"[{"manager":"m1","operation":"Apply","apiVersion":"apps/v1","time":"2026-11-15T12:00:00Z","fieldsType":"FieldsV1","#,
            r#""fieldsV1":{"f:metadata":{"f:labels":{"f:a":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":"#,
            r#"{"f:metadata":{"f:labels":{"f:app":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"#,
            r#""f:ports":{"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}},"#,
            r#""k:{\"containerPort\":80,\"protocol\":\"UDP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"#,
            r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{}}}}}}}}}}]"#
        )
    );
    // Another who applies the same owns it as well, and since it changed nothing there is no time.
    let other =
        Context { manager: Manager { name: "m2", subresource: "" }, now: at("2026-11-15T13:00:00Z"), ..context };
    let shared = apply(&other, Some(&created), &applied, false).expect("applies");
    let entries = managed_fields(&shared).as_array().expect("a list");
    assert_eq!(entries.len(), 2);
    assert_eq!((&entries[0]["manager"], &entries[0]["time"]), (&json!("m2"), &Value::Null));
    assert_eq!((&entries[1]["manager"], &entries[1]["time"]), (&json!("m1"), &json!(NOON)));
    assert_eq!(entries[0]["fieldsV1"], entries[1]["fieldsV1"]);
    // And applying it once more changes nothing at all.
    let again = Context { now: at("2026-11-15T14:00:00Z"), ..context };
    assert_eq!(apply(&again, Some(&shared), &applied, false).expect("applies"), shared);
}
