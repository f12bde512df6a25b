//! `pillion inject`: what the webhook would make of manifests.

use jiff::Timestamp;
use pillion_admission::OfflineError;
use pillion_note::Severity;
use serde_json::Value;

use crate::manifest::{Document, Manifests};
use crate::offline::Inputs;

/// One object before and after.
#[derive(Debug)]
pub struct Outcome {
    /// As it came.
    pub document: Document,
    /// As it is admitted; `None` if there is no pod in it.
    pub injected: Option<Value>,
}

impl Outcome {
    /// As it is admitted.
    pub fn after(&self) -> &Value {
        self.injected.as_ref().unwrap_or(&self.document.value)
    }
}

/// Admits every object of the manifests that the inputs were read from, and hands it over before the next one. Returns what whoever creates
/// the pods would be shown.
///
/// # Errors
/// Every pod that is malformed or refused, with its place in its file. Others were handed over all the same.
pub fn inject(
    manifests: &Manifests,
    inputs: &Inputs,
    now: Timestamp,
    mut take: impl FnMut(Outcome),
) -> Result<Vec<String>, Vec<String>> {
    let mut warnings = Vec::new();
    let mut errors = Vec::new();
    let read = manifests.for_each(|document| {
        if !inputs.is_object(&document) {
            return;
        }
        match inputs.offline.inject(&document.value, now) {
            Ok(None) => take(Outcome { document, injected: None }),
            Ok(Some(injected)) => {
                let of_pod = injected.notes.iter().filter(|note| note.severity == Severity::Warning);
                warnings.extend(of_pod.map(|note| format!("{}: {note}", document.full_title())));
                take(Outcome { document, injected: Some(injected.object) });
            }
            Err(error) => errors.push(refusal(&document, &error)),
        }
    });
    errors.extend(read.err().into_iter().flatten().map(|error| error.to_string()));
    if errors.is_empty() { Ok(warnings) } else { Err(errors) }
}

/// What is wrong with a pod, and where it stands.
pub(crate) fn refusal(document: &Document, error: &OfflineError) -> String {
    match error {
        OfflineError::Field(error) => format!("{}: {error}", document.locate(&error.path)),
        error => format!("{}: {}: {error}", document.locate(&pillion_api::field::Path::root()), document.full_title()),
    }
}
