//! Times as values.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::Offset;

/// A moment, and the offset from UTC in which it was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    pub(crate) at: Timestamp,
    pub(crate) offset: Offset,
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.offset == Offset::UTC { self.at.fmt(f) } else { self.at.display_with_offset(self.offset).fmt(f) }
    }
}

/// `-08:00`.
pub(super) fn read_offset(text: &str) -> Option<Offset> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = digits.split_once(':')?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = hours.checked_mul(3600)?.checked_add(minutes.checked_mul(60)?)?;
    Offset::from_seconds(sign * seconds).ok()
}

/// A time of RFC 3339.
pub(super) fn parse_timestamp(text: &str) -> Option<Time> {
    let shape = text.len() >= 20 && text.get(10..11) == Some("T") && text.get(4..5) == Some("-");
    let at = shape.then(|| text.parse().ok()).flatten()?;
    let zone = text.len().checked_sub(6).and_then(|start| text.get(start..)).unwrap_or_default();
    let offset = if text.ends_with('Z') { Some(Offset::UTC) } else { read_offset(zone) };
    Some(Time { at, offset: offset? })
}

/// The time of a Unix timestamp in seconds, within the years that CEL supports.
pub(super) fn timestamp_of(seconds: i64) -> Option<Time> {
    let is_known = (-62_135_596_800..=253_402_300_799).contains(&seconds);
    let at = is_known.then(|| Timestamp::from_second(seconds).ok()).flatten()?;
    Some(Time { at, offset: Offset::UTC })
}
