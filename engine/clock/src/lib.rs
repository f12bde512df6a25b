//! The one clock of an embedded cluster: every timestamp, lease and certificate takes its time from here.
//!
//! ```
//! use pillion_clock::Clock;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let clock = Clock::virtual_from("2026-01-01T00:00:00Z".parse().unwrap());
//! tokio::time::advance(std::time::Duration::from_secs(3600)).await;
//! assert_eq!(clock.now().to_string(), "2026-01-01T01:00:00Z");
//! # }
//! ```
//!
//! ```text
//!  the machine's clock ──┐
//!                        ├──▶ Clock::now ──▶ creationTimestamp, managedFields, leases, tokens, events
//!  tokio's paused clock ─┘
//! ```
//!
//! # Invariants
//! - Virtual time moves only when tokio's clock does: a test that covers hours takes milliseconds.
//! - Nothing in the engine asks the machine for the time but this crate.

use jiff::{SignedDuration, Timestamp};

/// The clock of one cluster. Clones show the same time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// For virtual time: where it started, and tokio's instant of that moment.
    origin: Option<(Timestamp, tokio::time::Instant)>,
}

impl Clock {
    /// The machine's own time.
    pub fn system() -> Clock {
        Clock { origin: None }
    }

    /// Time that starts at `start` and moves with tokio's clock. Call it inside a runtime.
    pub fn virtual_from(start: Timestamp) -> Clock {
        Clock { origin: Some((start, tokio::time::Instant::now())) }
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        match self.origin {
            None => Timestamp::now(),
            Some((start, instant)) => SignedDuration::try_from(instant.elapsed())
                .ok()
                .and_then(|elapsed| start.checked_add(elapsed).ok())
                // Past the year 9999 time stands still.
                .unwrap_or(Timestamp::MAX),
        }
    }
}
