//! A point in time in eight bytes.

use jiff::{SignedDuration, Timestamp};

/// Nanoseconds since 1970, or never. Histograms and containers are kept by the ten thousands, so a time has to be small.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Moment(i64);

impl Moment {
    /// Before every other moment.
    pub(crate) const NEVER: Moment = Moment(i64::MIN);

    pub(crate) fn is_never(self) -> bool {
        self == Moment::NEVER
    }

    /// The time from `earlier` to this, in nanoseconds. It does not overflow between years 1677 and 2262.
    pub(crate) fn nanos_since(self, earlier: Moment) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn plus(self, nanos: i64) -> Moment {
        Moment(self.0.saturating_add(nanos))
    }

    pub(crate) fn minus(self, nanos: i64) -> Moment {
        Moment(self.0.saturating_sub(nanos))
    }

    /// The nearest multiple of a duration, counted from the year 1 as Go's `Time.Round` does; halves round up.
    pub(crate) fn round(self, nanos: i64) -> Moment {
        const YEAR_ONE: i128 = 62_135_596_800 * 1_000_000_000;
        let (time, step) = (i128::from(self.0) + YEAR_ONE, i128::from(nanos.max(1)));
        let rest = time.rem_euclid(step);
        let rounded = if rest + rest < step { time - rest } else { time - rest + step };
        Moment(clamp(rounded - YEAR_ONE))
    }

    /// As a timestamp; `None` if never.
    pub(crate) fn timestamp(self) -> Option<Timestamp> {
        (!self.is_never()).then(|| Timestamp::from_nanosecond(self.0.into()).unwrap_or_default())
    }
}

impl From<Timestamp> for Moment {
    fn from(time: Timestamp) -> Self {
        Moment(clamp(time.as_nanosecond()))
    }
}

impl From<Option<Timestamp>> for Moment {
    fn from(time: Option<Timestamp>) -> Self {
        time.map_or(Moment::NEVER, Moment::from)
    }
}

/// A duration in nanoseconds.
pub(crate) fn nanos(duration: SignedDuration) -> i64 {
    clamp(duration.as_nanos())
}

fn clamp(nanos: i128) -> i64 {
    i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN + 1 } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(time: &str, hours: i64) -> String {
        let moment = Moment::from(time.parse::<Timestamp>().unwrap());
        moment.round(nanos(SignedDuration::from_hours(hours))).timestamp().unwrap().to_string()
    }

    /// What Go's `Time.Round` answers.
    #[test]
    fn times_round_to_multiples_counted_from_the_year_one() {
        assert_eq!(rounded("2026-05-29T11:59:59Z", 24), "2026-05-29T00:00:00Z");
        assert_eq!(rounded("2026-05-29T12:00:00Z", 24), "2026-05-30T00:00:00Z");
        assert_eq!(rounded("2009-02-13T23:31:30Z", 1), "2009-02-14T00:00:00Z");
        assert_eq!(rounded("1970-01-01T00:00:00Z", 36), "1969-12-31T12:00:00Z");
        assert_eq!(rounded("1969-12-31T23:00:00Z", 24), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn never_is_before_everything_and_has_no_timestamp() {
        assert!(Moment::NEVER < Moment::from(Timestamp::MIN));
        assert_eq!(Moment::NEVER.timestamp(), None);
        assert_eq!(Moment::from(None), Moment::NEVER);
    }
}
