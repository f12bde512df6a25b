//! How soon a change by another client is reverted when that client keeps making it.

use std::time::Duration;

use tokio::time::Instant;

const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_mins(1);
/// After a time without writes, the next change is set right at once again.
const QUIET: Duration = Duration::from_mins(10);

/// The pause after a write. It grows while the same thing has to be written again and again.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last: Option<(Instant, Duration)>,
}

impl Pace {
    /// Something was written. `is_news` means that the wanted state has changed, so that nobody else's change was reverted. Returns how
    /// long to wait before the next write.
    pub(crate) fn wrote(&mut self, is_news: bool, now: Instant) -> Duration {
        let recent = self.last.filter(|(at, _)| !is_news && now.duration_since(*at) < QUIET);
        let pause = recent.map_or(SHORTEST, |(_, before)| (before * 2).min(LONGEST));
        self.last = Some((now, pause));
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_quarrel_gets_slower_and_what_is_wanted_anew_does_not_wait() {
        let mut pace = Pace::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            pauses.push(pace.wrote(false, Instant::now()).as_secs());
            tokio::time::advance(Duration::from_secs(70)).await;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pace.wrote(true, Instant::now()), SHORTEST);
        tokio::time::advance(QUIET).await;
        assert_eq!(pace.wrote(false, Instant::now()), SHORTEST);
    }
}
