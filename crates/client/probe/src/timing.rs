//! When a probe is made, and which of its results count. Pure.

use jiff::{SignedDuration, Timestamp};

/// How often a probe is made, and how many equal results in a row count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// `initialDelaySeconds`: no look comes sooner after the start.
    pub initial_delay: SignedDuration,
    /// `periodSeconds`; at least a second.
    pub period: SignedDuration,
    /// `successThreshold`.
    pub success_threshold: u32,
    /// `failureThreshold`.
    pub failure_threshold: u32,
}

impl Default for Timing {
    /// What Kubernetes fills in.
    fn default() -> Timing {
        Timing {
            initial_delay: SignedDuration::ZERO,
            period: SignedDuration::from_secs(10),
            success_threshold: 1,
            failure_threshold: 3,
        }
    }
}

/// When the first look may come at the earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstLook {
    /// Now: startup and readiness.
    AtOnce,
    /// One period after the start: liveness.
    AfterPeriod,
}

impl Timing {
    /// The first look at something that has been running `since`. Later looks follow the same ticks, as with the kubelet: an initial delay
    /// skips the ticks that come too early.
    pub fn first_look(&self, first: FirstLook, since: Timestamp, now: Timestamp) -> Timestamp {
        let period = self.period();
        let allowed = later(since, self.initial_delay).max(now);
        let tick = match first {
            FirstLook::AtOnce => now,
            FirstLook::AfterPeriod => later(since, period),
        };
        let missing = allowed.duration_since(tick);
        if !missing.is_positive() {
            return tick;
        }
        let periods = (missing.as_nanos() + period.as_nanos() - 1) / period.as_nanos();
        later(tick, period.saturating_mul(i32::try_from(periods).unwrap_or(i32::MAX)))
    }

    /// The look after the one that was due at `last` and has ended.
    pub fn next_look(&self, last: Timestamp, now: Timestamp) -> Timestamp {
        later(last, self.period()).max(now)
    }

    fn period(&self) -> SignedDuration {
        self.period.max(SignedDuration::from_secs(1))
    }
}

/// The results of a probe so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Results {
    /// The last one, and how often it came in a row.
    last: Option<(bool, u32)>,
}

impl Results {
    /// Adds a result, and returns it if it has come often enough to count.
    pub fn add(&mut self, passed: bool, timing: &Timing) -> Option<bool> {
        let in_a_row = match self.last {
            Some((before, times)) if before == passed => times.saturating_add(1),
            _ => 1,
        };
        self.last = Some((passed, in_a_row));
        let threshold = if passed { timing.success_threshold } else { timing.failure_threshold };
        (in_a_row >= threshold).then_some(passed)
    }
}

fn later(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_look_comes_as_the_kubelets_ticker_and_delays_have_it() {
        let table = [
            // Initial delay, period, first look after the start.
            (FirstLook::AtOnce, 0, 10, 0),
            (FirstLook::AtOnce, 5, 10, 10),
            (FirstLook::AtOnce, 10, 10, 10),
            (FirstLook::AtOnce, 11, 10, 20),
            (FirstLook::AtOnce, 4, 3, 6),
            (FirstLook::AtOnce, 2, 0, 2),
            (FirstLook::AfterPeriod, 0, 10, 10),
            (FirstLook::AfterPeriod, 10, 10, 10),
            (FirstLook::AfterPeriod, 15, 10, 20),
        ];
        for (first, delay, period, expected) in table {
            let seconds = SignedDuration::from_secs;
            let timing = Timing { initial_delay: seconds(delay), period: seconds(period), ..Timing::default() };
            assert_eq!(timing.first_look(first, at(100), at(100)), at(100 + expected), "{first:?} {delay} {period}");
        }
    }

    #[test]
    fn looks_come_by_the_period_and_never_in_the_past() {
        let timing = Timing::default();
        assert_eq!(timing.next_look(at(100), at(101)), at(110));
        assert_eq!(timing.next_look(at(100), at(125)), at(125));
    }

    #[test]
    fn a_result_counts_when_it_has_come_in_a_row_as_often_as_its_threshold() {
        let timing = Timing { success_threshold: 2, failure_threshold: 3, ..Timing::default() };
        let table = [
            (true, None),
            (true, Some(true)),
            (true, Some(true)),
            (false, None),
            (false, None),
            (false, Some(false)),
            (true, None),
            (false, None),
            (true, None),
            (true, Some(true)),
        ];
        let mut results = Results::default();
        for (index, (passed, expected)) in table.into_iter().enumerate() {
            assert_eq!(results.add(passed, &timing), expected, "{index}");
        }
    }
}
