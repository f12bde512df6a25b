//! The list of known differences: each has a reason, and none outlives its need.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::Deserialize;

use crate::compare::Difference;

/// A difference that is meant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Known {
    /// The conversation's name.
    pub conversation: String,
    /// The step's name; one with `*` at its end stands for all that begin so.
    pub step: String,
    /// Where the answers may differ, with everything below; `answer` is everywhere.
    pub what: String,
    /// Why it is meant, as the documentation says it.
    pub reason: String,
}

impl Known {
    /// Reads a list.
    pub fn list(file: &Path) -> anyhow::Result<Vec<Self>> {
        let about = || format!("the list of known differences, {}", file.display());
        let text = std::fs::read_to_string(file).with_context(about)?;
        serde_saphyr::from_str(&text).with_context(about)
    }

    /// Whether this entry is about one place of a difference.
    fn covers(&self, difference: &Difference, at: &str) -> bool {
        let is_step = match self.step.strip_suffix('*') {
            Some(beginning) => difference.step.starts_with(beginning),
            None => difference.step == self.step,
        };
        let is_place = self.what == "answer"
            || at.strip_prefix(self.what.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        self.conversation == difference.conversation && is_step && is_place
    }
}

/// The list as a table of Markdown: each reason once, with the requests of the corpus that show it.
pub fn markdown(known: &[Known]) -> String {
    let mut reasons: Vec<(&str, Vec<String>)> = Vec::new();
    for entry in known {
        let request = format!("{}: {}", entry.conversation, entry.step);
        match reasons.iter_mut().find(|(reason, _)| *reason == entry.reason) {
            Some((_, requests)) => requests.push(request),
            None => reasons.push((&entry.reason, vec![request])),
        }
    }
    let mut table = String::from("| difference | requests of the corpus that show it |\n|---|---|\n");
    for (reason, requests) in reasons {
        let _ = writeln!(table, "| {reason} | {} |", requests.join("; "));
    }
    table
}

/// The list of this crate.
pub fn known_differences() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("known.yaml")
}

/// The differences that no list explains, and the entries that explain none.
pub fn judge<'d, 'k>(differences: &'d [Difference], known: &'k [Known]) -> (Vec<&'d Difference>, Vec<&'k Known>) {
    let is_known =
        |difference: &Difference| difference.at.iter().all(|at| known.iter().any(|entry| entry.covers(difference, at)));
    let is_needed = |entry: &Known| {
        differences.iter().any(|difference| difference.at.iter().any(|at| entry.covers(difference, at)))
    };
    (
        differences.iter().filter(|difference| !is_known(difference)).collect(),
        known.iter().filter(|entry| !is_needed(entry)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(step: &str, at: &[&str]) -> Difference {
        Difference {
            conversation: "tables".to_owned(),
            step: step.to_owned(),
            request: "GET /".to_owned(),
            sent: None,
            at: at.iter().map(|at| (*at).to_owned()).collect(),
            left: None,
            right: None,
        }
    }

    fn known(step: &str, what: &str) -> Known {
        let (conversation, reason) = ("tables".to_owned(), "meant".to_owned());
        Known { conversation, step: step.to_owned(), what: what.to_owned(), reason }
    }

    #[test]
    fn an_entry_covers_its_place_and_what_is_below() {
        let list = [known("pods*", "body/rows")];
        for (step, at, is_known) in [
            ("pods of a node", &["body/rows/0/cells"][..], true),
            ("pods", &["body/rows"], true),
            ("pods", &["body/rowsize"], false),
            ("pods", &["body/rows", "status"], false),
            ("nodes", &["body/rows"], false),
        ] {
            let differences = [difference(step, at)];
            assert_eq!(judge(&differences, &list).0.is_empty(), is_known, "{step} {at:?}");
        }
    }

    #[test]
    fn an_entry_without_a_difference_is_told() {
        let list = [known("pods", "answer"), known("nodes", "status")];
        let differences = [difference("pods", &["status"])];
        assert_eq!(judge(&differences, &list), (vec![], vec![&list[1]]));
    }
}
