//! Numbers for Prometheus.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics {
    /// Answers, by the path of the webhook and whether it said yes.
    answers: Mutex<BTreeMap<(&'static str, bool), u64>>,
}

impl Metrics {
    /// A webhook has answered.
    pub(crate) fn answered(&self, webhook: &'static str, allowed: bool) {
        *self.answers.lock().unwrap_or_else(PoisonError::into_inner).entry((webhook, allowed)).or_default() += 1;
    }

    /// The text that Prometheus reads.
    pub(crate) fn text(&self, sidecarsets: usize) -> String {
        let mut text = String::from(
            "# HELP pillion_webhook_answers_total Answers of the webhooks.\n# TYPE pillion_webhook_answers_total counter\n",
        );
        for ((webhook, allowed), count) in &*self.answers.lock().unwrap_or_else(PoisonError::into_inner) {
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "pillion_webhook_answers_total{{webhook=\"{webhook}\",allowed=\"{allowed}\"}} {count}");
        }
        text.push_str("# HELP pillion_sidecarsets SidecarSets in force.\n# TYPE pillion_sidecarsets gauge\n");
        let _ = writeln!(text, "pillion_sidecarsets {sidecarsets}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_counted_by_webhook_and_outcome() {
        let metrics = Metrics::default();
        metrics.answered("/mutate-pod", true);
        metrics.answered("/mutate-pod", true);
        metrics.answered("/mutate-pod", false);
        insta::assert_snapshot!(metrics.text(3), @r#"
        # HELP pillion_webhook_answers_total Answers of the webhooks.
        # TYPE pillion_webhook_answers_total counter
        pillion_webhook_answers_total{webhook="/mutate-pod",allowed="false"} 1
        pillion_webhook_answers_total{webhook="/mutate-pod",allowed="true"} 2
        # HELP pillion_sidecarsets SidecarSets in force.
        # TYPE pillion_sidecarsets gauge
        pillion_sidecarsets 3
        "#);
    }
}
