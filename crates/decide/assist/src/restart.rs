//! What happens when a plugin ends.

use std::time::Duration;

use crate::config::RestartPolicy;

/// A plugin that ran this long is healthy: its next restart is quick again.
const HEALTHY: Duration = Duration::from_mins(10);

/// How long until a plugin that has ended is started again, after this many restarts in a row; `None` if it stays down. The times are those
/// of the kubelet.
pub fn restart(policy: RestartPolicy, failed: bool, ran: Duration, restarts: u32) -> Option<Duration> {
    let again = match policy {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => failed,
        RestartPolicy::Never => false,
    };
    let restarts = if ran >= HEALTHY { 0 } else { restarts.min(5) };
    again.then(|| Duration::from_secs((10u64 << restarts).min(300)))
}

/// Whether the count of restarts begins anew.
pub fn was_healthy(ran: Duration) -> bool {
    ran >= HEALTHY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_restarted_as_the_policy_says_and_ever_more_slowly() {
        use RestartPolicy::{Always, Never, OnFailure};
        let short = Duration::from_secs(1);
        let waits: Vec<_> = (0..7).map(|n| restart(Always, true, short, n).unwrap().as_secs()).collect();
        assert_eq!(waits, [10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(restart(Always, true, HEALTHY, 6), Some(Duration::from_secs(10)));
        assert_eq!(restart(OnFailure, false, short, 0), None);
        assert_eq!(restart(OnFailure, true, short, 0), Some(Duration::from_secs(10)));
        assert_eq!(restart(Never, true, short, 0), None);
    }
}
