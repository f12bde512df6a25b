//! How much a simulated container seems to use, and how that varies.

use std::time::Duration;

/// Between a least and a most, up and down again in each period, as a straight line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Load {
    /// Thousandths of a core.
    pub(super) cpu_millis: (u64, u64),
    /// Bytes.
    pub(super) memory: (u64, u64),
    /// How long it takes to come back; nothing varies without it.
    pub(super) period: Duration,
}

impl Load {
    /// The CPU time that was used after this time.
    pub(super) fn cpu(&self, ran: Duration) -> Duration {
        let (least, most) = (u128::from(self.cpu_millis.0), u128::from(self.cpu_millis.1));
        let (ran, period) = (ran.as_millis(), self.period.as_millis());
        if period == 0 || least == most {
            return millis(ran.saturating_mul(least) / 1000);
        }
        let (whole, rest) = (ran / period, ran % period);
        let of_period = period * (least + most) / 2;
        let rising = |time: u128| least * time + most.saturating_sub(least) * time * time / period;
        let of_rest = if rest * 2 <= period { rising(rest) } else { of_period.saturating_sub(rising(period - rest)) };
        millis((whole * of_period + of_rest) / 1000)
    }

    /// The memory that is used after this time.
    pub(super) fn memory(&self, ran: Duration) -> u64 {
        let (least, most) = self.memory;
        let (ran, period) = (ran.as_millis(), self.period.as_millis());
        if period == 0 || least == most {
            return least;
        }
        let rest = ran % period;
        let distance = rest.min(period - rest) * 2;
        let more = u128::from(most.saturating_sub(least)) * distance / period;
        least.saturating_add(u64::try_from(more).unwrap_or(u64::MAX))
    }
}

fn millis(millis: u128) -> Duration {
    Duration::from_millis(u64::try_from(millis).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_goes_up_and_down_in_each_period() {
        let load = Load { cpu_millis: (100, 300), memory: (1000, 3000), period: Duration::from_mins(10) };
        let minutes = |count: u64| Duration::from_mins(count);
        let memory = [0, 1, 5, 9, 10, 15].map(|at| load.memory(minutes(at)));
        assert_eq!(memory, [1000, 1400, 3000, 1400, 1000, 3000]);
        // On average 200m: two minutes of CPU in ten, half of them in either half.
        assert_eq!([5, 10, 20].map(|at| load.cpu(minutes(at)).as_secs()), [60, 120, 240]);
        assert!(load.cpu(minutes(1)) < Duration::from_secs(8));
        let steps = (0..1200).map(|second| load.cpu(Duration::from_secs(second)));
        assert!(steps.is_sorted(), "time that was used is not given back");
    }

    #[test]
    fn without_a_period_nothing_varies() {
        let load = Load { cpu_millis: (250, 250), memory: (64, 64), period: Duration::ZERO };
        assert_eq!((load.cpu(Duration::from_secs(4)).as_millis(), load.memory(Duration::from_secs(4))), (1000, 64));
    }
}
