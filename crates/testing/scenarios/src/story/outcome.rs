//! Waits until a story is as expected, and reports what differs if it is not.

use std::time::Duration;

use tokio::time::Instant;

use super::comparison::{Comparison, End};
use super::expected::Expected;

/// How long a story may take to become as expected. Each component reports at its own pace.
const PATIENCE: Duration = Duration::from_secs(20);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);
/// How long a story must then stay as expected. A second event or one more pod arrives within this time, because kubelets and controllers look
/// once a second.
const STEADY: Duration = Duration::from_millis(1200);
/// How long a story must be unchanged before it replaces the expected one.
const SETTLED: Duration = Duration::from_secs(5);

/// A story that differs from the expected one in more than it declares.
#[derive(Debug, thiserror::Error)]
#[error(
    "the story {what} (- expected, + actual):\n{difference}\nthe whole story:\n{actual}\n\
    If the change is meant, run `cargo xtask test real --accept`: it rewrites the story in the source code with what happened on the real cluster.\n\
    If it may differ from run to run, declare that in the story, with the reason: CONTRIBUTING.md, \"Stories\"."
)]
pub(super) struct Mismatch {
    what: &'static str,
    difference: String,
    actual: String,
}

impl Mismatch {
    pub(super) fn new(what: &'static str, comparison: &Comparison<'_>, actual: &str) -> Mismatch {
        Mismatch { what, difference: comparison.difference(), actual: actual.to_owned() }
    }
}

/// Asks until the answer is as expected. Returns what differs if it does not become so, or does not stay so.
pub(super) async fn becomes_and_stays(
    expected: &Expected,
    mut ask: impl AsyncFnMut() -> anyhow::Result<String>,
) -> anyhow::Result<Option<Mismatch>> {
    let deadline = Instant::now() + PATIENCE;
    let mut since = None;
    loop {
        let actual = ask().await?;
        let lines: Vec<&str> = actual.lines().collect();
        let comparison = Comparison::new(expected, &lines, End::Same);
        if comparison.agrees() {
            if since.get_or_insert_with(Instant::now).elapsed() >= STEADY {
                return Ok(None);
            }
        } else if since.is_some() || Instant::now() >= deadline {
            let what = if since.is_some() { "changed afterwards" } else { "differs" };
            return Ok(Some(Mismatch::new(what, &comparison, &actual)));
        }
        tokio::time::sleep(BETWEEN_LOOKS).await;
    }
}

/// Asks until the answer has not changed for a while.
pub(super) async fn settled(mut ask: impl AsyncFnMut() -> anyhow::Result<String>) -> anyhow::Result<String> {
    let (mut actual, mut since) = (ask().await?, Instant::now());
    while since.elapsed() < SETTLED {
        tokio::time::sleep(BETWEEN_LOOKS).await;
        let now = ask().await?;
        if now != actual {
            (actual, since) = (now, Instant::now());
        }
    }
    Ok(actual)
}

#[cfg(test)]
mod tests {
    use super::{Mismatch, becomes_and_stays, settled};
    use crate::story::expected::Expected;

    /// A story that has these states, one at each look, and keeps the last.
    fn actual(states: &str) -> impl AsyncFnMut() -> anyhow::Result<String> {
        let mut states = states.chars().peekable();
        async move || {
            let now = states.peek().copied().unwrap_or_default();
            if states.clone().nth(1).is_some() {
                states.next();
            }
            Ok(format!("Pod app\n  {now}\n"))
        }
    }

    async fn differs(expected: &str, states: &str) -> Option<Mismatch> {
        becomes_and_stays(&Expected::parse(expected).unwrap(), actual(states)).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_has_to_become_what_is_expected_and_to_stay_so() {
        let b = "Pod app\n  b\n";
        assert!(differs(b, "aab").await.is_none());
        let changed = differs(b, "abbc").await.unwrap().to_string();
        assert!(
            changed.starts_with("the story changed afterwards (- expected, + actual):\n  Pod app\n-   b\n+   c\n\n"),
            "{changed}"
        );
        let another = differs(b, "a").await.unwrap().to_string();
        assert!(another.starts_with("the story differs (- expected, + actual):\n"), "{another}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_declared_may_come_and_go() {
        assert!(differs("Pod app\n  # why\n  {maybe b}{maybe c}\n", "abcb").await.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_says_how_a_change_is_accepted_and_a_difference_declared() {
        let failure = differs("Pod app\n  b\n", "a").await.unwrap().to_string();
        assert!(failure.contains("the whole story:\nPod app\n  a\n"), "{failure}");
        assert!(failure.contains("cargo xtask test real --accept"), "{failure}");
        assert!(failure.contains("CONTRIBUTING.md"), "{failure}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_story_that_is_accepted_has_come_to_its_end() {
        assert_eq!(settled(actual("abcdef")).await.unwrap(), "Pod app\n  f\n");
    }
}
