//! `pillion inject`: what the webhook would make of manifests.

use jiff::Timestamp;
use pillion_admission::OfflineError;
use pillion_note::Severity;
use serde_json::Value;

use crate::manifest::Document;
use crate::offline::Inputs;

/// One object before and after.
#[derive(Debug)]
pub struct Outcome<'a> {
    /// As it came.
    pub document: &'a Document,
    /// As it is admitted; the same if there is no pod in it.
    pub after: Value,
}

/// What came of all objects.
#[derive(Debug, Default)]
pub struct Report<'a> {
    /// Every object, in order.
    pub outcomes: Vec<Outcome<'a>>,
    /// What whoever creates the pods would be shown.
    pub warnings: Vec<String>,
}

/// Admits every object.
///
/// # Errors
/// Every pod that is malformed or refused, with its place in its file.
pub fn inject(inputs: &Inputs, now: Timestamp) -> Result<Report<'_>, Vec<String>> {
    let mut report = Report::default();
    let mut errors = Vec::new();
    for document in &inputs.objects {
        match inputs.offline.inject(&document.value, now) {
            Ok(None) => report.outcomes.push(Outcome { document, after: document.value.clone() }),
            Ok(Some(injected)) => {
                let warnings = injected.notes.iter().filter(|note| note.severity == Severity::Warning);
                report.warnings.extend(warnings.map(|note| format!("{}: {note}", document.title())));
                report.outcomes.push(Outcome { document, after: injected.object });
            }
            Err(error) => errors.push(refusal(document, &error)),
        }
    }
    if errors.is_empty() { Ok(report) } else { Err(errors) }
}

/// What is wrong with a pod, and where it stands.
pub(crate) fn refusal(document: &Document, error: &OfflineError) -> String {
    match error {
        OfflineError::Field(error) => format!("{}: {error}", document.locate(&error.path)),
        error => format!("{}: {}: {error}", document.locate(&pillion_api::field::Path::root()), document.title()),
    }
}
