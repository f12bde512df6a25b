//! What an update came to.

use std::fmt;

use crate::state::State;

/// What an update came to, as it is stored: `v1: Update success`, or the version and why it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateOutcome {
    /// The requested version; empty if it is unknown.
    pub version: String,
    /// Why it failed.
    pub failure: Option<String>,
}

/// How long the value of a label may be.
const LABEL: usize = 63;

/// The Go agent's words.
const SUCCESS: &str = "Update success";

impl UpdateOutcome {
    /// An update that has worked.
    pub fn success(version: &str) -> UpdateOutcome {
        UpdateOutcome { version: version.to_owned(), failure: None }
    }

    /// Reads what was stored.
    pub fn read(text: &str) -> UpdateOutcome {
        let (version, rest) = text.split_once(": ").unwrap_or(("", text));
        UpdateOutcome { version: version.to_owned(), failure: (rest != SUCCESS).then(|| rest.to_owned()) }
    }

    /// What it means for conditions and policies.
    pub(crate) fn state(&self) -> State {
        if self.failure.is_none() { State::Succeeded(self.to_string()) } else { State::Failed(self.to_string()) }
    }

    /// The same in characters that a label can have.
    pub(crate) fn label(&self) -> String {
        let state = if self.failure.is_none() { "succeeded" } else { "failed" };
        let most = LABEL - state.len() - 1;
        let version: String = self.version.chars().take(most).collect();
        format!("{}-{state}", version.trim_end_matches(['-', '_', '.']))
    }
}

impl fmt::Display for UpdateOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.failure.as_deref().unwrap_or(SUCCESS);
        if self.version.is_empty() { f.write_str(what) } else { write!(f, "{}: {what}", self.version) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_says_whether_it_has_worked() {
        for (text, label) in [
            ("v1: Update success", "v1-succeeded"),
            ("v1.2: Failed to download the file: https://x answered 404", "v1.2-failed"),
            ("something else", "-failed"),
        ] {
            let outcome = UpdateOutcome::read(text);
            assert_eq!((outcome.to_string().as_str(), outcome.label().as_str()), (text, label));
        }
        let long = UpdateOutcome::success(&format!("{}.{}", "1".repeat(52), "2".repeat(11)));
        assert_eq!(long.label(), format!("{}-succeeded", "1".repeat(52)));
    }
}
