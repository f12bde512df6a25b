//! The text of a story.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::Event;
use pillion_embedded::NODE;
use serde_json::Value;

use super::placeholders::{Placeholders, owner};
use super::record::Record;

/// Renders every object of the kinds: its final state, then its events.
pub(super) fn render(namespace: &str, records: &[Record], mut events: Vec<Event>, kinds: &[&str]) -> String {
    let placeholders = Placeholders::new(namespace, records);
    events.sort_by_key(began);
    let mut parts = Vec::new();
    for (rank, kind) in kinds.iter().enumerate() {
        for record in records.iter().filter(|record| record.kind == *kind) {
            let mut lines = if *kind == "Pod" { pod(record) } else { workload(record) };
            let (mut heading, mut events) = (heading(record), events_of(record, &events));
            if events.first() == Some(&usual_scheduling(namespace, record)) {
                heading.push_str(", scheduled");
                events.remove(0);
            }
            lines.extend(events);
            if record.is_gone {
                lines.push("gone".to_owned());
            }
            let (heading, body) = (placeholders.replace(&heading), placeholders.replace(&lines.join("\n  ")));
            parts.push((rank, format!("{heading}\n  {body}\n")));
        }
    }
    parts.sort();
    parts.into_iter().map(|(_, part)| part).collect()
}

/// The first event of most pods. A heading stands for it.
fn usual_scheduling(namespace: &str, record: &Record) -> String {
    let name = record.text("/metadata/name");
    format!("default-scheduler Normal Scheduled: Successfully assigned {namespace}/{name} to {NODE}")
}

fn heading(record: &Record) -> String {
    let mut heading = format!("{} {}", record.kind, record.text("/metadata/name"));
    let parent = owner(record, "name");
    if !parent.is_empty() {
        let _ = write!(heading, " of {} {parent}", owner(record, "kind"));
    }
    let revision = record.text("/metadata/annotations/deployment.kubernetes.io~1revision");
    if !revision.is_empty() {
        let _ = write!(heading, ", revision {revision}");
    }
    heading
}

/// Numbers and texts of the status that are not times, then its conditions.
fn workload(record: &Record) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    for (name, value) in record.object.pointer("/status").and_then(Value::as_object).into_iter().flatten() {
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
    lines.extend(conditions(record));
    lines
}

fn pod(record: &Record) -> Vec<String> {
    let mut phases = record.phases.join(", ");
    for field in ["reason", "message"] {
        let text = record.text(&format!("/status/{field}"));
        if !text.is_empty() {
            let _ = write!(phases, "; {text}");
        }
    }
    let mut lines = vec![phases];
    for (list, word) in [("initContainerStatuses", "init container"), ("containerStatuses", "container")] {
        let statuses = record.object.pointer(&format!("/status/{list}")).and_then(Value::as_array);
        lines.extend(statuses.into_iter().flatten().map(|status| format!("{word} {}", container(status))));
    }
    lines.extend(conditions(record));
    lines
}

pub(super) fn container(status: &Value) -> String {
    let text = |pointer: &str| status.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let mut line = format!("{} {}", text("/name"), state(&status["state"]));
    if !status["state"]["running"].is_null() {
        line.push_str(if status["ready"] == true { ", ready" } else { ", not ready" });
        if status["started"] != true {
            line.push_str(", not started");
        }
    }
    if status["restartCount"] != 0 {
        let _ = write!(line, ", restarts {}", status["restartCount"]);
    }
    if status["lastState"].as_object().is_some_and(|last| !last.is_empty()) {
        let _ = write!(line, ", before {}", state(&status["lastState"]));
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

/// The conditions that pods usually have when their containers have ended, and the line that stands for them.
const CONDITIONS_OF_ENDED_PODS: [(&str, [&str; 4]); 2] = [
    (
        "conditions of a completed pod",
        [
            "PodReadyToStartContainers=False",
            "Initialized=True PodCompleted",
            "Ready, ContainersReady=False PodCompleted",
            "PodScheduled=True",
        ],
    ),
    (
        "conditions of a failed pod",
        [
            "PodReadyToStartContainers=False",
            "Initialized=True",
            "Ready, ContainersReady=False PodFailed",
            "PodScheduled=True",
        ],
    ),
];

/// Returns the conditions in their order. Neighbours that differ only in their type share a line.
fn conditions(record: &Record) -> Vec<String> {
    let conditions = record.object.pointer("/status/conditions").and_then(Value::as_array);
    let what = |condition: &Value| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default();
        let mut what = text("status").to_owned();
        if !text("reason").is_empty() {
            let _ = write!(what, " {}", text("reason"));
        }
        if !text("message").is_empty() {
            let _ = write!(what, ": {}", text("message"));
        }
        (text("type").to_owned(), what)
    };
    let reported: Vec<(String, String)> = conditions.into_iter().flatten().map(what).collect();
    let same = reported.chunk_by(|(_, one), (_, other)| one == other);
    let line = |same: &[(String, String)]| {
        let types: Vec<&str> = same.iter().map(|(name, _)| name.as_str()).collect();
        same.first().map(|(_, what)| format!("{}={what}", types.join(", ")))
    };
    let lines: Vec<String> = same.filter_map(line).collect();
    match CONDITIONS_OF_ENDED_PODS.iter().find(|(_, usual)| lines == *usual) {
        Some((summary, _)) => vec![(*summary).to_owned()],
        None => lines,
    }
}

/// The events of an object, those of each component in their order.
fn events_of(record: &Record, events: &[Event]) -> Vec<String> {
    let uid = record.text("/metadata/uid");
    let is_reported = |event: &&Event| !is_about_this_machine(event);
    let mut own: Vec<&Event> =
        events.iter().filter(is_reported).filter(|event| event.involved_object.uid.as_deref() == Some(uid)).collect();
    // Each component reports on its own time: the scheduler may report a pod's place after the kubelet has begun with it.
    own.sort_by_key(|event| component(event));
    // The scheduler tries again whenever something in the cluster changes, such as a pod of another test; how often says nothing.
    let is_retry = |event: &Event| event.reason.as_deref() == Some("FailedScheduling");
    own.dedup_by(|later, earlier| is_retry(later) && is_retry(earlier) && later.message == earlier.message);
    let mut lines = Vec::new();
    let mut rest = own.as_slice();
    while let [first, others @ ..] = rest {
        let (line, after) = match start(rest) {
            Some((line, after)) => (line, after),
            None => (line(first), others),
        };
        lines.push(line);
        rest = after;
    }
    lines
}

/// Whether an event is about the machine of the kubelet. Such events differ between runs.
fn is_about_this_machine(event: &Event) -> bool {
    let message = event.message.as_deref().unwrap_or_default();
    match event.reason.as_deref() {
        // The test cluster has no DNS, and its kubelet reports that with every look at a pod.
        Some("MissingClusterDNS") => true,
        // A kubelet waits a second for its own caches, which is not enough on a busy machine, and tries again.
        Some("FailedMount") => message.contains("failed to sync") && message.contains("cache: timed out"),
        _ => false,
    }
}

/// The three events of every container that starts, in the kubelet's words, as one line.
fn start<'a>(events: &'a [&'a Event]) -> Option<(String, &'a [&'a Event])> {
    let ([pulled, created, started], rest) = events.split_first_chunk()?;
    let is = |event: &Event, reason: &str, is_usual: fn(&str) -> bool| {
        event.reason.as_deref() == Some(reason)
            && event.type_.as_deref() == Some("Normal")
            && event.message.as_deref().is_some_and(is_usual)
            && event.involved_object.field_path == pulled.involved_object.field_path
            && event.count == pulled.count
    };
    let is_pulled = |message: &str| {
        let image = message.strip_prefix("Container image \"");
        image.is_some_and(|rest| rest.ends_with("\" already present on machine and can be accessed by the pod"))
    };
    let is_start = is(pulled, "Pulled", is_pulled)
        && is(created, "Created", |message| message == "Container created")
        && is(started, "Started", |message| message == "Container started");
    is_start.then(|| (format!("{}{}", about(pulled, "Pulled, Created, Started"), times(pulled)), rest))
}

/// A kubelet repeats itself whenever it looks at a pod that waits, and the scheduler whenever it tries again; how often says nothing.
fn line(event: &Event) -> String {
    let message = event.message.as_deref().unwrap_or_default().trim_end();
    let is_repeated = matches!(component(event), "kubelet" | "default-scheduler");
    let times = if is_repeated { String::new() } else { times(event) };
    format!("{}: {message}{times}", about(event, event.reason.as_deref().unwrap_or_default()))
}

/// Returns the component, the type and the reasons of an event, and the container that it is about.
fn about(event: &Event, reasons: &str) -> String {
    let mut text = format!("{} {} {reasons}", component(event), event.type_.as_deref().unwrap_or_default());
    if let Some(path) = event.involved_object.field_path.as_deref() {
        let _ = write!(text, " {path}");
    }
    text
}

fn component(event: &Event) -> &str {
    let source = event.source.as_ref().and_then(|source| source.component.as_deref());
    event.reporting_component.as_deref().filter(|component| !component.is_empty()).or(source).unwrap_or_default()
}

/// How often it was reported, if more than once.
fn times(event: &Event) -> String {
    event.count.filter(|count| *count > 1).map(|count| format!(" ×{count}")).unwrap_or_default()
}

/// When an event was reported first, to the nanosecond: every recorder ends an event's name with that, in hexadecimal.
fn began(event: &Event) -> u128 {
    let name = event.metadata.name.as_deref().unwrap_or_default();
    name.rsplit_once('.').and_then(|(_, number)| u128::from_str_radix(number, 16).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::{Event, Record, began, events_of};

    #[test]
    fn events_are_in_the_order_of_each_component() {
        let record = Record { kind: "Pod", object: json!({"metadata": {"uid": "1"}}), ..Record::default() };
        let event = |name: &str, component: &str, reason: &str| -> Event {
            from_value(json!({
                "metadata": {"name": name}, "involvedObject": {"uid": "1"}, "reason": reason, "type": "Normal",
                "reportingComponent": component
            }))
            .unwrap()
        };
        let mut events = vec![
            event("app.12", "kubelet", "Killing"),
            event("app.11", "default-scheduler", "Scheduled"),
            event("app.f", "kubelet", "Unhealthy"),
        ];
        events.sort_by_key(began);
        let expected =
            ["default-scheduler Normal Scheduled: ", "kubelet Normal Unhealthy: ", "kubelet Normal Killing: "];
        assert_eq!(events_of(&record, &events), expected);
    }
}
