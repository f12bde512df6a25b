//! `pillion why`: of every SidecarSet whether it is injected, and where each value comes from.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use jiff::Timestamp;
use pillion_admission::Why;
use pillion_note::Severity;
use serde::Serialize;

use crate::inject::refusal;
use crate::offline::Inputs;

/// The explanation of one object.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// `Kind/name`.
    pub object: String,
    /// The explanation.
    #[serde(flatten)]
    pub why: Why,
}

/// Explains every object that has a pod in it.
///
/// # Errors
/// Every pod that is malformed, with its place in its file.
pub fn explain(inputs: &Inputs, now: Timestamp) -> Result<Vec<Explanation>, Vec<String>> {
    let mut explanations = Vec::new();
    let mut errors = Vec::new();
    for document in &inputs.objects {
        match inputs.offline.why(&document.value, now) {
            Ok(None) => {}
            Ok(Some(why)) => explanations.push(Explanation { object: document.title(), why }),
            Err(error) => errors.push(refusal(document, &error)),
        }
    }
    if errors.is_empty() { Ok(explanations) } else { Err(errors) }
}

/// The explanation as text.
pub fn text(explanation: &Explanation) -> String {
    let why = &explanation.why;
    let mut text = format!("{}\n", explanation.object);
    if why.sidecar_sets.is_empty() {
        text.push_str("  there are no SidecarSets\n");
        return text;
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["SIDECARSET", "MATCHED", "REASON"]);
    for verdict in &why.sidecar_sets {
        let matched = if verdict.matched { "yes" } else { "no" };
        table.add_row([verdict.sidecar_set.as_str(), matched, verdict.message.as_str()]);
    }
    for column in table.column_iter_mut() {
        column.set_padding((2, 0));
    }
    let _ = writeln!(text, "{}", table.trim_fmt());
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
        return text;
    }
    text.push_str("\n  ORDER\n");
    if !why.init_containers.is_empty() {
        let _ = writeln!(text, "  init containers: {}", why.init_containers.join(", "));
    }
    let _ = writeln!(text, "  containers: {}", why.containers.join(", "));
    text
}
