//! Tasks that must not end.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt as _;

/// A task that ended is restarted after this time.
const RESTART: Duration = Duration::from_secs(1);

/// Runs a task for ever: whenever it ends or panics, it is logged under this name and restarted.
pub async fn keep_running<F: Future<Output = ()>>(name: &str, start: impl Fn() -> F) {
    loop {
        // The message of a panic is on standard error already.
        let panicked = AssertUnwindSafe(async { start().await }).catch_unwind().await.is_err();
        tracing::error!(task = name, panicked, "a task has ended unexpectedly and is restarted");
        tokio::time::sleep(RESTART).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_ends_or_panics_is_restarted() {
        let starts = AtomicU32::new(0);
        let task = keep_running("test", || async {
            assert!(starts.fetch_add(1, Ordering::Relaxed) != 0, "the first one panics");
        });
        let _ = tokio::time::timeout(Duration::from_millis(2500), task).await;
        assert_eq!(starts.load(Ordering::Relaxed), 3);
    }
}
