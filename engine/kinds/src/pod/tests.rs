//! What kube-apiserver 1.35 answered to real requests, and whether we answer the same.
//!
//! Each line of a file in `testdata` is one request with its answer: what of the pod that was sent is stored otherwise, or the mistakes; and the
//! warnings. Requests are as decoded. An update is written as what it changes of the last line with an `old` pod. A change is a JSON pointer and
//! a value, or a pointer alone for what is gone.

use pillion_rules::field::Error;
use serde_json::{Value, json};

use super::*;

/// Runs every request and fails with all that differ.
fn play(file: &str, answer: impl Fn(Value, &Value) -> (Value, Vec<Error>, Vec<String>)) {
    let mut old = Value::Null;
    let mut differences = Vec::new();
    for line in file.lines() {
        let request: Value = serde_json::from_str(line).unwrap();
        if let Some(pod) = request.get("old") {
            old = pod.clone();
            continue;
        }
        let sent = request.get("pod").cloned().unwrap_or_else(|| changed(&old, &request["sent"]));
        let (stored, errors, warnings) = answer(sent.clone(), &old);
        let mut differ = |what: &str, theirs: Value, ours: Value| {
            if theirs != ours {
                differences.push(format!("{} ({what})\n--- theirs\n{theirs:#}\n+++ ours\n{ours:#}", request["name"]));
            }
        };
        // After the first line of an error comes what an update would change, which ours writes differently.
        let first_line = |error: String| error.lines().next().unwrap_or_default().to_owned();
        let errors: Vec<String> = errors.iter().map(ToString::to_string).map(first_line).collect();
        if errors.is_empty() && request["errors"].is_null() {
            differ("stored", changed(&sent, &request["stored"]), stored);
            differ("warnings", request.get("warnings").cloned().unwrap_or(json!([])), json!(warnings));
        } else {
            let theirs = request["errors"].as_array().into_iter().flatten();
            let theirs: Vec<String> = theirs.map(|error| first_line(error.as_str().unwrap().to_owned())).collect();
            differ("errors", json!(theirs), json!(errors));
        }
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n\n"));
}

fn changed(pod: &Value, changes: &Value) -> Value {
    let mut pod = pod.clone();
    for change in changes.as_array().unwrap() {
        let (parent, last) = change[0].as_str().unwrap().rsplit_once('/').unwrap();
        let last = last.replace("~1", "/").replace("~0", "~");
        match (pod.pointer_mut(parent).unwrap(), change.get(1)) {
            (Value::Object(object), Some(value)) => drop(object.insert(last, value.clone())),
            (Value::Object(object), None) => drop(object.remove(&last)),
            (list, value) => list[last.parse::<usize>().unwrap()] = value.unwrap().clone(),
        }
    }
    pod
}

#[test]
fn new_pods_are_answered_as_kube_apiserver_answers_them() {
    play(include_str!("testdata/create.jsonl"), |mut pod, _| {
        apply_defaults(&mut pod);
        apply_priority(&mut pod, None).unwrap();
        apply_default_tolerations(&mut pod);
        prepare_create(&mut pod);
        let errors = validate(&pod);
        let warned = warnings(&pod, None);
        (pod, errors, warned)
    });
}

#[test]
fn updates_are_answered_as_kube_apiserver_answers_them() {
    play(include_str!("testdata/update.jsonl"), |mut pod, old| {
        apply_defaults(&mut pod);
        keep_priority(&mut pod, old);
        apply_default_tolerations(&mut pod);
        prepare_update(&mut pod, old);
        let errors = validate_update(&pod, old);
        let warned = warnings(&pod, Some(old));
        (pod, errors, warned)
    });
}

#[test]
fn ephemeral_containers_are_added_as_in_kube_apiserver() {
    play(include_str!("testdata/ephemeral_containers.jsonl"), |mut pod, old| {
        apply_defaults(&mut pod);
        prepare_ephemeral_containers(&mut pod, old);
        let errors = validate_ephemeral_containers(&pod, old);
        (pod, errors, Vec::new())
    });
}

#[test]
fn pods_are_resized_as_in_kube_apiserver() {
    play(include_str!("testdata/resize.jsonl"), |mut pod, old| {
        apply_defaults(&mut pod);
        prepare_resize(&mut pod, old);
        let errors = validate_resize(&pod, old);
        (pod, errors, Vec::new())
    });
}

#[test]
fn status_is_updated_as_in_kube_apiserver() {
    play(include_str!("testdata/status.jsonl"), |mut pod, old| {
        apply_defaults(&mut pod);
        prepare_status(&mut pod, old);
        let errors = validate_status(&pod, old);
        let warned = status_warnings(&pod);
        (pod, errors, warned)
    });
}

#[test]
fn templates_are_answered_as_kube_apiserver_answers_them() {
    let path = pillion_rules::field::Path::new("template");
    play(include_str!("testdata/template.jsonl"), |mut template, _| {
        apply_template_defaults(&mut template);
        prepare_template(&mut template);
        let errors = validate_template(&template, &path);
        let warned = template_warnings(&template, &path);
        (template, errors, warned)
    });
}

/// Decoding makes sure of types; should it fail to, an answer may be wrong, and yet must be one.
#[test]
fn no_json_makes_any_step_panic() {
    let junk =
        [json!(null), json!(-1), json!("x"), json!([]), json!([null, 1, {}]), json!({"a": {"b": []}}), json!(true)];
    let mut count = 0_usize;
    for line in include_str!("testdata/create.jsonl").lines().step_by(11) {
        let request: Value = serde_json::from_str(line).unwrap();
        let old = &request["pod"];
        for pointer in pointers(old, String::new()).iter().step_by(5) {
            count += 1;
            let mut pod = old.clone();
            *pod.pointer_mut(pointer).unwrap() = junk[count % junk.len()].clone();
            run_everything(pod.clone(), old);
            run_everything(old.clone(), &pod);
        }
    }
    assert!(count > 50, "{count}");
}

fn pointers(value: &Value, at: String) -> Vec<String> {
    let below: Vec<(String, &Value)> = match value {
        Value::Object(object) => object.iter().map(|(k, v)| (k.replace('~', "~0").replace('/', "~1"), v)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(i, v)| (i.to_string(), v)).collect(),
        _ => Vec::new(),
    };
    let mut all: Vec<String> =
        below.into_iter().flat_map(|(key, value)| pointers(value, format!("{at}/{key}"))).collect();
    all.push(at);
    all
}

fn run_everything(mut pod: Value, old: &Value) {
    let range = json!({"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"memory": "1Gi"}, "maxLimitRequestRatio": {"cpu": 2}}, {"type": "Pod", "min": {"cpu": "1"}}]}});
    let path = pillion_rules::field::Path::new("template");
    apply_template_defaults(&mut pod.clone());
    prepare_template(&mut pod);
    drop((validate_template(&pod, &path), template_warnings(&pod, &path)));
    apply_defaults(&mut pod);
    apply_limit_ranges(&mut pod, &[&range, old]);
    apply_service_account(&mut pod, old, "abcde");
    drop((apply_priority(&mut pod, None), keep_priority(&mut pod, old), validate_service_account(&pod, old)));
    apply_default_tolerations(&mut pod);
    drop((validate_limit_ranges(&pod, &[&range, old]), qos_class(&pod)));
    for prepare in [prepare_update, prepare_status, prepare_ephemeral_containers, prepare_resize] {
        prepare(&mut pod.clone(), old);
    }
    prepare_create(&mut pod);
    drop((validate(&pod), warnings(&pod, None), status_warnings(&pod), selectable(&pod, "status.podIP")));
    for validate in [validate_update, validate_status, validate_ephemeral_containers, validate_resize] {
        drop(validate(&pod, old));
    }
}
