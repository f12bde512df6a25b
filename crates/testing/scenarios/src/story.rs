//! What happened to the workloads and pods of a namespace, as text that is the same on every cluster.
//!
//! ```text
//!  watches, from before the scenario begins ─▶ chronicle ─┐
//!                                                         ├─▶ text ─▶ words (what differs from run to run) ─▶ compared
//!  events ────────────────────────────────────────────────┘
//! ```

mod chronicle;
mod text;
mod words;

use std::time::Duration;

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use similar::TextDiff;
use tokio::time::Instant;

use self::chronicle::{Chronicle, Subject};
use self::words::Words;
use crate::{Namespace, wait};

/// How long a story may take to become what is expected: many write down what happened, each when it can.
const PATIENCE: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// For how long it must then stay so. What follows at once, such as a second event or one more pod, comes within this time: a kubelet
/// and a controller look once a second.
const STEADY: Duration = Duration::from_millis(1200);

/// The story of a namespace, from when it was begun.
pub struct Story {
    namespace: Namespace,
    chronicle: Chronicle,
}

impl Story {
    pub(crate) async fn begin(namespace: &Namespace) -> anyhow::Result<Story> {
        let chronicle = Chronicle::begin(&namespace.client(), namespace.name()).await?;
        Ok(Story { namespace: namespace.clone(), chronicle })
    }

    /// Wants the whole story to be as expected before long, and to stay so.
    pub async fn tells(&self, expected: &str) -> anyhow::Result<()> {
        self.tells_of(&chronicle::TOLD, expected).await
    }

    /// The same, of some kinds only: where it is not said which of several equal pods is chosen.
    pub async fn tells_of(&self, kinds: &[&str], expected: &str) -> anyhow::Result<()> {
        becomes_and_stays(&unindent(expected), async || self.text(kinds).await).await
    }

    /// Wants all that a container of the pod said of itself, in its order, to begin as expected, before long. A line that begins with `? `
    /// may be missing: a kubelet reports only the latest of statuses that follow each other at once.
    pub async fn life_begins(&self, container: &str, expected: &str) -> anyhow::Result<()> {
        let expected = unindent(expected);
        let mut reported = String::new();
        let found = wait::until("the container's life", async || {
            let subjects = self.chronicle.subjects();
            let words = Words::new(self.namespace.name(), &subjects);
            let lives = subjects.iter().filter_map(|subject| subject.lives.get(container)).flatten();
            reported = lives.map(|said| format!("{}\n", words.replace(said))).collect::<Vec<_>>().concat();
            Ok(begins(&reported, &expected).then_some(()))
        });
        let outcome = found.await;
        outcome.with_context(|| {
            let difference = TextDiff::from_lines(expected.as_str(), reported.as_str());
            format!("{container} has led another life:\n{}", difference.unified_diff().header("expected", "seen"))
        })
    }

    /// Waits until a pod is gone, and gives it as it was seen last.
    pub async fn end_of(&self, pod: &str) -> anyhow::Result<Pod> {
        let what = format!("the end of {pod}");
        let ended = wait::until(&what, async || {
            let is_it =
                |subject: &Subject| subject.is_gone && subject.kind == "Pod" && subject.text("/metadata/name") == pod;
            Ok(self.chronicle.subjects().into_iter().find(is_it))
        });
        Ok(serde_json::from_value(ended.await?.object)?)
    }

    async fn text(&self, kinds: &[&str]) -> anyhow::Result<String> {
        let events: Vec<Event> = self.namespace.api().list(&ListParams::default()).await?.items;
        let subjects = self.chronicle.subjects();
        Ok(text::tell(self.namespace.name(), &subjects, events, kinds))
    }
}

/// A story that is not the expected one.
#[derive(Debug, thiserror::Error)]
#[error("the story {what}:\n{difference}\nthe whole of it:\n{reported}")]
pub(crate) struct Differs {
    what: &'static str,
    difference: String,
    reported: String,
}

/// Asks until the answer is as expected, and fails if it does not become so, or does not stay so.
async fn becomes_and_stays(expected: &str, mut ask: impl AsyncFnMut() -> anyhow::Result<String>) -> anyhow::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut since = None;
    loop {
        let reported = ask().await?;
        if reported == expected {
            if since.get_or_insert_with(Instant::now).elapsed() >= STEADY {
                return Ok(());
            }
        } else if since.is_some() || Instant::now() >= deadline {
            let difference = TextDiff::from_lines(expected, reported.as_str());
            let what = if since.is_some() { "went on" } else { "is another" };
            let difference = difference.unified_diff().header("expected", "seen").context_radius(1).to_string();
            bail!(Differs { what, difference, reported });
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Whether a text begins with the expected lines, those that begin with `? ` where they are there.
fn begins(reported: &str, expected: &str) -> bool {
    let mut reported = reported.lines().peekable();
    expected.lines().all(|line| match line.strip_prefix("? ") {
        Some(optional) => {
            reported.next_if_eq(&optional);
            true
        }
        None => reported.next() == Some(line),
    })
}

/// Takes away the indentation that a text has in source code.
fn unindent(text: &str) -> String {
    let lines = || text.lines().skip_while(|line| line.trim().is_empty());
    let indentation = lines().next().map_or(0, |line| line.len() - line.trim_start().len());
    let whole: Vec<&str> = lines().map(|line| line.get(indentation..).unwrap_or_default()).collect();
    format!("{}\n", whole.join("\n").trim_end())
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::{Differs, becomes_and_stays, begins, unindent};

    /// What is expected is `b`; the story has these states, one at each look, and keeps the last.
    async fn wanted_b(states: &str) -> anyhow::Result<()> {
        let mut states = states.chars().peekable();
        becomes_and_stays("b", async || {
            let now = states.peek().copied().unwrap_or_default();
            if states.clone().nth(1).is_some() {
                states.next();
            }
            Ok(now.to_string())
        })
        .await
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_has_to_become_what_is_expected_and_to_stay_so() {
        wanted_b("aab").await.unwrap();
        let went_on = wanted_b("abbc").await.unwrap_err().to_string();
        assert!(went_on.starts_with("the story went on:\n--- expected\n+++ seen\n"), "{went_on}");
        let another = wanted_b("a").await.unwrap_err().to_string();
        assert!(another.starts_with("the story is another:\n"), "{another}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_that_differs_is_known_whatever_is_said_about_it() {
        let error = wanted_b("a").await.context("the pod").context("scenario pods").unwrap_err();
        assert!(error.downcast_ref::<Differs>().is_some());
    }

    #[test]
    fn a_status_that_lasts_for_no_time_may_be_missing() {
        let expected = "running\n? terminated at once\nterminated\n";
        assert!(begins("running\nterminated at once\nterminated\nrunning\n", expected));
        assert!(begins("running\nterminated\n", expected));
        assert!(!begins("running\nterminated at once\n", expected));
        assert!(!begins("terminated at once\nterminated\n", expected));
    }

    #[test]
    fn a_text_is_as_if_it_were_not_in_source_code() {
        assert_eq!(unindent("\n    Pod app\n      Pending\n    Pod other\n    "), "Pod app\n  Pending\nPod other\n");
    }
}
