//! Autoscalers that nothing is recommended for, and when the log says so.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// After how long the log says it, and how often it repeats that.
const LONGEST: SignedDuration = SignedDuration::from_mins(30);

/// The autoscalers without a recommendation, each by namespace and name, and since when the log has not mentioned it.
#[derive(Clone, Debug, Default)]
pub struct Missing {
    since: BTreeMap<(String, String), Timestamp>,
}

impl Missing {
    /// Records whether an autoscaler has a recommendation. Returns what to log, in upstream's words.
    pub fn record(&mut self, namespace: &str, name: &str, has_recommendation: bool, now: Timestamp) -> Option<String> {
        let key = (namespace.to_owned(), name.to_owned());
        if has_recommendation {
            self.since.remove(&key);
            return None;
        }
        let since = self.since.entry(key).or_insert(now);
        if now.duration_since(*since) <= LONGEST {
            return None;
        }
        *since = now;
        Some(format!("VPA {namespace}/{name} is missing recommendation for more than 30m0s"))
    }

    /// Forgets autoscalers that are gone.
    pub fn retain(&mut self, exists: impl Fn(&str, &str) -> bool) {
        self.since.retain(|(namespace, name), _| exists(namespace, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `TestRecordRecommendation` in upstream's `pkg/recommender/model/cluster_test.go`: minutes since the log mentioned it, whether
    /// there is a recommendation, whether it is logged, and the minutes that are remembered.
    #[test]
    fn the_log_mentions_it_after_half_an_hour_and_then_every_half_hour() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24);
        let key = ("namespace-1".to_owned(), "vpa-1".to_owned());
        for (before, has, logs, after) in [
            (None, true, false, None),
            (Some(10), true, false, None),
            (Some(10), false, false, Some(10)),
            (Some(30), false, false, Some(30)),
            (Some(40), false, true, Some(0)),
            (None, false, false, Some(0)),
        ] {
            let mut missing = Missing::default();
            missing.since.extend(before.map(|minutes| (key.clone(), now - SignedDuration::from_mins(minutes))));
            let logged = missing.record(&key.0, &key.1, has, now);
            let text = "VPA namespace-1/vpa-1 is missing recommendation for more than 30m0s";
            assert_eq!(logged.as_deref(), logs.then_some(text), "{before:?} {has}");
            let left = missing.since.get(&key).map(|since| now.duration_since(*since).as_mins());
            assert_eq!(left, after, "{before:?} {has}");
        }
    }

    #[test]
    fn what_is_gone_is_forgotten() {
        let mut missing = Missing::default();
        missing.record("a", "b", false, Timestamp::UNIX_EPOCH);
        missing.retain(|_, _| false);
        assert!(missing.since.is_empty());
    }
}
