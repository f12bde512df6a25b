//! How quickly pods are updated.

use jiff::{SignedDuration, Timestamp};

/// So many updates per second, and a few more at once after a quiet time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    per_second: f64,
    burst: f64,
    left: f64,
    at: Timestamp,
}

impl RateLimit {
    /// A limit that has not been used yet. A rate of zero or less is no limit, as upstream's `--eviction-rate-limit`.
    pub fn new(per_second: f64, burst: u32, now: Timestamp) -> RateLimit {
        let burst = f64::from(burst.max(1));
        RateLimit { per_second, burst, left: burst, at: now }
    }

    /// Uses up one update. `Err` says how long to wait before the next try.
    ///
    /// # Errors
    /// There is none left for now.
    pub fn acquire(&mut self, now: Timestamp) -> Result<(), SignedDuration> {
        if self.per_second <= 0.0 {
            return Ok(());
        }
        let passed = now.duration_since(self.at).as_secs_f64().max(0.0);
        self.at = self.at.max(now);
        self.left = (self.left + passed * self.per_second).min(self.burst);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        // A millisecond more, so that rounding does not make it a moment too early.
        let seconds = (1.0 - self.left) / self.per_second + 0.001;
        Err(SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::from_hours(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_and_then_one_after_the_other() {
        let start = Timestamp::UNIX_EPOCH;
        let mut limit = RateLimit::new(0.5, 2, start);
        assert_eq!((limit.acquire(start), limit.acquire(start)), (Ok(()), Ok(())));
        let wait = limit.acquire(start).unwrap_err();
        assert_eq!(wait.as_secs(), 2);
        assert_eq!(limit.acquire(start + wait), Ok(()));
        assert!(limit.acquire(start + wait).is_err());
        let later = start + SignedDuration::from_hours(1);
        assert_eq!((limit.acquire(later), limit.acquire(later), limit.acquire(later).is_err()), (Ok(()), Ok(()), true));
    }

    #[test]
    fn zero_is_no_limit() {
        let mut limit = RateLimit::new(0.0, 1, Timestamp::UNIX_EPOCH);
        assert!((0..100).all(|_| limit.acquire(Timestamp::UNIX_EPOCH).is_ok()));
    }
}
