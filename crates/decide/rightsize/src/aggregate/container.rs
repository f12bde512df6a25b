//! One container of one pod: which of its samples count, and the peak of the memory window that is open.

use jiff::{SignedDuration, Timestamp};

use crate::aggregate::Aggregate;
use crate::amount::scale;
use crate::settings::MemorySettings;
use crate::time::{Moment, nanos};

/// What has to be remembered of a running container between samples: forty bytes.
#[derive(Clone, Copy, Debug)]
pub struct Container {
    last_cpu: Moment,
    last_memory: Moment,
    window_end: Moment,
    memory_peak: i64,
    oom_peak: i64,
}

impl Default for Container {
    fn default() -> Self {
        Container {
            last_cpu: Moment::NEVER,
            last_memory: Moment::NEVER,
            window_end: Moment::NEVER,
            memory_peak: 0,
            oom_peak: 0,
        }
    }
}

/// Why a sample does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejected {
    /// Usage is below zero.
    #[error("usage is negative")]
    Negative,
    /// A newer sample, or the same one, was there before.
    #[error("a sample of this time or later was added before")]
    OutOfOrder,
    /// The OOM kill is older than the memory window.
    #[error("the OOM kill is older than the memory aggregation interval")]
    TooOld,
    /// The container is not known.
    #[error("the container is not known")]
    UnknownContainer,
}

impl Container {
    /// Adds CPU usage.
    ///
    /// # Errors
    /// It is negative, or not newer than the last.
    pub fn add_cpu(&mut self, aggregate: &mut Aggregate, millicores: i64, at: Timestamp) -> Result<(), Rejected> {
        let at = Moment::from(at);
        if millicores < 0 {
            return Err(Rejected::Negative);
        }
        if at <= self.last_cpu {
            return Err(Rejected::OutOfOrder);
        }
        aggregate.add_cpu(millicores, at);
        self.last_cpu = at;
        Ok(())
    }

    /// Adds memory usage.
    ///
    /// # Errors
    /// It is negative, or older than the last.
    pub fn add_memory(
        &mut self,
        aggregate: &mut Aggregate,
        settings: &MemorySettings,
        bytes: i64,
        at: Timestamp,
    ) -> Result<(), Rejected> {
        let at = Moment::from(at);
        if bytes < 0 {
            return Err(Rejected::Negative);
        }
        if at < self.last_memory {
            return Err(Rejected::OutOfOrder);
        }
        if let Some(peak) = self.observe(aggregate, settings.interval, bytes, at) {
            self.memory_peak = peak;
        }
        Ok(())
    }

    /// Adds what the container would have needed when it was OOM killed with this request.
    ///
    /// # Errors
    /// The kill is older than the memory window.
    pub fn record_oom(
        &mut self,
        aggregate: &mut Aggregate,
        settings: &MemorySettings,
        requested: i64,
        at: Timestamp,
    ) -> Result<(), Rejected> {
        let at = Moment::from(at);
        if !self.last_memory.is_never() && at < self.last_memory.minus(nanos(settings.interval)) {
            return Err(Rejected::TooOld);
        }
        // The peak that came of an earlier kill does not count: one kill after another would grow without end.
        let used = requested.max(self.memory_peak);
        let needed = used.saturating_add(settings.oom_min_bump_up).max(scale(used, settings.oom_bump_up_ratio));
        if let Some(peak) = self.observe(aggregate, settings.interval, needed, at) {
            self.oom_peak = peak;
        }
        Ok(())
    }

    /// The peak of the window, if it was measured, and when that ends.
    pub(crate) fn measured_peak(&self) -> Option<(i64, Moment)> {
        let is_measured = !self.window_end.is_never() && self.memory_peak >= self.oom_peak;
        is_measured.then_some((self.memory_peak, self.window_end))
    }

    /// Adds a sample of memory; returns it if it is the new peak of its window.
    fn observe(&mut self, aggregate: &mut Aggregate, interval: SignedDuration, bytes: i64, at: Moment) -> Option<i64> {
        self.last_memory = at;
        if self.window_end.is_never() {
            self.window_end = at;
        }
        if at < self.window_end {
            let peak = self.memory_peak.max(self.oom_peak);
            if peak == 0 || bytes <= peak {
                return None;
            }
            aggregate.subtract_peak(peak, self.window_end);
        } else {
            let interval = nanos(interval).max(1);
            let elapsed = at.nanos_since(self.window_end);
            self.window_end = self.window_end.plus(elapsed - elapsed % interval).plus(interval);
            self.memory_peak = 0;
            self.oom_peak = 0;
        }
        aggregate.add_peak(bytes, self.window_end, at);
        Some(bytes)
    }
}

#[cfg(test)]
mod tests;
