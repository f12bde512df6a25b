//! An explanation for people.

use std::fmt::Write as _;

use pillion_admission::Why;
use pillion_note::Severity;
use pillion_preview::{Change, Drift, DriftState};

use super::{Explanation, PodDrift};
use crate::render::table;

pub fn text(explanation: &Explanation) -> String {
    let mut text = explanation.object.clone();
    if explanation.is_in_namespace {
        let _ = write!(text, " in namespace {}", explanation.namespace);
    }
    text.push('\n');
    for remark in &explanation.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    push_why(&mut text, &explanation.why);
    for derivation in &explanation.derivations {
        let _ = writeln!(text, "\n  HOW {} ARRIVES AT ITS NUMBERS", derivation.vertical_pod_autoscaler);
        for line in &derivation.lines {
            let _ = writeln!(text, "  {line}");
        }
    }
    if !explanation.updates.is_empty() {
        text.push_str("\n  UPDATES OF RUNNING PODS\n");
        for line in &explanation.updates {
            let _ = writeln!(text, "  {line}");
        }
    }
    if let Some(drift) = &explanation.drift {
        push_drift(&mut text, drift);
    }
    if let Some(pods) = &explanation.pods {
        push_pods(&mut text, pods, &explanation.namespace);
    }
    text
}

fn push_why(text: &mut String, why: &Why) {
    if why.sidecar_sets.is_empty() {
        text.push_str("  there are no SidecarSets\n");
        // The marks of the pod itself need none.
        if why.notes.is_empty() && why.denied.is_none() && why.vertical_pod_autoscalers.is_empty() {
            return;
        }
    } else {
        let rows = why.sidecar_sets.iter().map(|verdict| {
            let matched = if verdict.matched { "yes" } else { "no" };
            vec![verdict.sidecar_set.clone(), matched.to_owned(), verdict.message.clone()]
        });
        text.push_str(&table(&["SIDECARSET", "MATCHED", "REASON"], rows));
    }
    if !why.vertical_pod_autoscalers.is_empty() {
        let rows = why.vertical_pod_autoscalers.iter().map(|verdict| {
            let matched = if verdict.matched { "yes" } else { "no" };
            vec![verdict.name.clone(), matched.to_owned(), verdict.message.clone()]
        });
        text.push('\n');
        text.push_str(&table(&["VERTICALPODAUTOSCALER", "MATCHED", "REASON"], rows));
    }
    if !why.notes.is_empty() {
        text.push_str("\n  DECISIONS\n");
    }
    for note in &why.notes {
        let warning = if note.severity == Severity::Warning { "warning: " } else { "" };
        let container = note.container.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
        let _ = writeln!(text, "  {}{container}: {warning}{}", note.subject.name(), note.message);
    }
    if let Some(denied) = &why.denied {
        let _ = writeln!(text, "\n  REFUSED: {denied}");
        return;
    }
    text.push_str("\n  ORDER\n");
    if !why.init_containers.is_empty() {
        let _ = writeln!(text, "  init containers: {}", why.init_containers.join(", "));
    }
    let _ = writeln!(text, "  containers: {}", why.containers.join(", "));
}

fn push_drift(text: &mut String, drift: &Drift) {
    text.push_str("\n  WHAT THE POD HAS, AND WHAT IT WOULD GET TODAY\n");
    if drift.sidecar_sets.is_empty() && drift.is_empty() {
        // Sidecars that the pod's author has marked are no SidecarSet's.
        text.push_str("  no SidecarSet has injected anything, and none would\n");
        return;
    }
    if !drift.sidecar_sets.is_empty() {
        let or_none = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let rows = drift.sidecar_sets.iter().map(|set| {
            let revisions = [or_none(&set.has_revision), or_none(&set.revision), or_none(&set.injected_at)];
            [set.sidecar_set.clone()].into_iter().chain(revisions).chain([set.state.to_string()]).collect()
        });
        text.push_str(&table(&["SIDECARSET", "HAS REVISION", "REVISION TODAY", "INJECTED AT", "STATE"], rows));
    }
    if let Some(denied) = &drift.denied {
        let _ = writeln!(text, "\n  a new pod would be refused: {denied}");
        return;
    }
    if !drift.containers.is_empty() || !drift.pod.is_empty() {
        text.push('\n');
    }
    for container in &drift.containers {
        let name = &container.container;
        let by = container.sidecar_set.as_ref().map(|set| format!(" by {set}")).unwrap_or_default();
        let _ = match container.change {
            Change::Added => writeln!(text, "  container {name}: is missing, and would be injected{by}"),
            Change::Removed => writeln!(text, "  container {name}: was injected{by}, and would not be"),
            Change::Changed => Ok(()),
        };
        for difference in &container.differences {
            let _ = writeln!(text, "  container {name}: {difference}");
        }
    }
    for difference in &drift.pod {
        let _ = writeln!(text, "  pod: {difference}");
    }
}

fn push_pods(text: &mut String, pods: &[PodDrift], namespace: &str) {
    if pods.is_empty() {
        text.push_str("\n  it has no pods\n");
        return;
    }
    text.push('\n');
    let rows = pods.iter().map(|pod| vec![pod.name.clone(), state(&pod.drift)]);
    text.push_str(&table(&["POD", "STATE"], rows));
    if let Some(pod) = pods.iter().find(|pod| !pod.drift.is_empty()) {
        let _ = writeln!(text, "\n  `pillion why {} -n {namespace}` shows what differs", pod.name);
    }
}

fn state(drift: &Drift) -> String {
    if drift.is_empty() {
        return if drift.sidecar_sets.is_empty() { "no sidecars" } else { "up to date" }.to_owned();
    }
    let behind = drift.sidecar_sets.iter().filter(|set| set.state != DriftState::UpToDate);
    let behind: Vec<String> = behind.map(|set| format!("{}: {}", set.sidecar_set, set.state)).collect();
    if !behind.is_empty() {
        return behind.join("; ");
    }
    let count = drift.containers.len() + drift.pod.len();
    drift.denied.clone().unwrap_or_else(|| format!("{count} {}", if count == 1 { "difference" } else { "differences" }))
}
