//! The text of a story.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Event;
use serde_json::Value;

use super::chronicle::Subject;
use super::words::{Words, owner};

/// Tells of every subject of the kinds: what became of it, then its events.
pub(super) fn tell(namespace: &str, subjects: &[Subject], mut events: Vec<Event>, kinds: &[&str]) -> String {
    let words = Words::new(namespace, subjects);
    events.sort_by_key(began);
    let mut parts = Vec::new();
    for (rank, kind) in kinds.iter().enumerate() {
        for subject in subjects.iter().filter(|subject| subject.kind == *kind) {
            let mut lines = if *kind == "Pod" { pod(subject) } else { workload(subject) };
            lines.extend(events_of(subject, &events, &words));
            if subject.is_gone {
                lines.push("gone".to_owned());
            }
            let body: String = lines.iter().map(|line| format!("  {line}\n")).collect();
            parts.push((rank, words.replace(&format!("{}\n", heading(subject))), words.replace(&body)));
        }
    }
    parts.sort();
    parts.into_iter().map(|(_, heading, body)| heading + &body).collect()
}

fn heading(subject: &Subject) -> String {
    let mut heading = format!("{} {}", subject.kind, subject.text("/metadata/name"));
    let parent = owner(subject, "name");
    if !parent.is_empty() {
        let _ = write!(heading, " of {} {parent}", owner(subject, "kind"));
    }
    let revision = subject.text("/metadata/annotations/deployment.kubernetes.io~1revision");
    if !revision.is_empty() {
        let _ = write!(heading, ", revision {revision}");
    }
    heading
}

/// Numbers and texts of the status that are not times, then its conditions.
fn workload(subject: &Subject) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for (name, value) in subject.object.pointer("/status").and_then(Value::as_object).into_iter().flatten() {
        match value {
            Value::Number(number) if name != "observedGeneration" => fields.push(format!("{name} {number}")),
            Value::String(text) if !name.ends_with("Time") => fields.push(format!("{name} {text}")),
            _ => {}
        }
    }
    // A status has no order of fields.
    fields.sort();
    let mut lines = Vec::new();
    if !fields.is_empty() {
        lines.push(fields.join(", "));
    }
    lines.extend(conditions(subject));
    lines
}

fn pod(subject: &Subject) -> Vec<String> {
    let mut phases = subject.phases.join(", ");
    for field in ["reason", "message"] {
        let text = subject.text(&format!("/status/{field}"));
        if !text.is_empty() {
            let _ = write!(phases, "; {text}");
        }
    }
    let mut lines = vec![phases];
    for (list, word) in [("initContainerStatuses", "init container"), ("containerStatuses", "container")] {
        let statuses = subject.object.pointer(&format!("/status/{list}")).and_then(Value::as_array);
        lines.extend(statuses.into_iter().flatten().map(|status| format!("{word} {}", container(status))));
    }
    lines.extend(conditions(subject));
    lines
}

fn container(status: &Value) -> String {
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{} {}", text("/name"), state(&status["state"]));
    if !status["state"]["running"].is_null() {
        line.push_str(if status["ready"] == true { ", ready" } else { ", not ready" });
        if status["started"] != true {
            line.push_str(", not started");
        }
    }
    if status["restartCount"] != 0 {
        let _ = write!(line, ", restarts {}, before {}", status["restartCount"], state(&status["lastState"]));
    }
    line
}

fn state(state: &Value) -> String {
    let Some((kind, details)) = state.as_object().and_then(|state| state.iter().next()) else {
        return "unknown".to_owned();
    };
    let mut text = kind.clone();
    if let Some(reason) = details["reason"].as_str() {
        let _ = write!(text, " {reason}");
    }
    if let Some(code) = details["exitCode"].as_i64() {
        let _ = write!(text, " {code}");
    }
    if let Some(message) = details["message"].as_str() {
        let _ = write!(text, ": {}", message.trim_end());
    }
    text
}

fn conditions(subject: &Subject) -> Vec<String> {
    let conditions = subject.object.pointer("/status/conditions").and_then(Value::as_array);
    let line = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let mut line = format!("{}={}", text("type"), text("status"));
        if !text("reason").is_empty() {
            let _ = write!(line, " {}", text("reason"));
        }
        if !text("message").is_empty() {
            let _ = write!(line, ": {}", text("message"));
        }
        line
    };
    conditions.into_iter().flatten().map(line).collect()
}

/// The events of an object in their order. Pods that are made together are told of in any order: those events are sorted.
fn events_of(subject: &Subject, events: &[Event], words: &Words) -> Vec<String> {
    let uid = subject.text("/metadata/uid");
    let own = events.iter().filter(|event| event.involved_object.uid.as_deref() == Some(uid));
    let mut told: Vec<(bool, String)> =
        own.map(|event| (event.reason.as_deref() == Some("SuccessfulCreate"), words.replace(&line(event)))).collect();
    told.chunk_by_mut(|(one, _), (other, _)| *one && *other).for_each(<[_]>::sort);
    told.into_iter().map(|(_, line)| line).collect()
}

fn line(event: &Event) -> String {
    let source = event.source.as_ref().and_then(|source| source.component.as_deref());
    let component = event.reporting_component.as_deref().filter(|component| !component.is_empty()).or(source);
    let reason = event.reason.as_deref().unwrap_or_default();
    let mut line = format!("{} {} {reason}", component.unwrap_or_default(), event.type_.as_deref().unwrap_or_default());
    if let Some(path) = event.involved_object.field_path.as_deref() {
        let _ = write!(line, " {path}");
    }
    let _ = write!(line, ": {}", event.message.as_deref().unwrap_or_default().trim_end());
    // How often a kubelet tells of a wait or of a probe depends on when it looks.
    if let Some(count) = event.count.filter(|count| *count > 1 && !matches!(reason, "BackOff" | "Unhealthy")) {
        let _ = write!(line, " ×{count}");
    }
    line
}

/// When an event was told first, to the nanosecond: every recorder ends an event's name with that, in hexadecimal.
fn began(event: &Event) -> u128 {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    name.rsplit_once('.').and_then(|(_, number)| u128::from_str_radix(number, 16).ok()).unwrap_or_default()
}
