//! The schedule of a CronJob: five fields, or a descriptor.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, ToSpan as _, Zoned};

use pillion_rules::field::quoted;

/// When something is due, again and again.
///
/// ```
/// use jiff::tz::TimeZone;
/// use pillion_kinds::schedule::Schedule;
///
/// let workdays = Schedule::parse("30 9 * * mon-fri").unwrap();
/// let friday = "2026-01-02T12:00:00Z".parse().unwrap();
/// assert_eq!(workdays.next(friday, &TimeZone::UTC).unwrap().to_string(), "2026-01-05T09:30:00Z");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Whenever all fields match.
    Fields(Fields),
    /// So many seconds after the last time.
    Every(i64),
}

/// The values that match, one bit each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Without a star in either, a day matches by its date or by its weekday.
    day_is_any: bool,
    weekday_is_any: bool,
}

/// A date that does not come within so many years does not come.
const YEARS: i16 = 5;

impl Schedule {
    /// Reads a schedule, or says what is wrong with it in the words of the cron library that Kubernetes uses.
    pub fn parse(schedule: &str) -> Result<Schedule, String> {
        let mut schedule = schedule;
        if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
            // Where the zone ends is where the fields begin. The zone itself is refused elsewhere, with a better message.
            let Some((_, fields)) = schedule.split_once(' ') else {
                let end = schedule.find('=').map_or(0, |at| at + 1);
                return Err(format!("invalid schedule format: runtime error: slice bounds out of range [{end}:-1]"));
            };
            schedule = fields.trim();
        }
        if schedule.starts_with('@') {
            return parse_descriptor(schedule);
        }
        let fields: Vec<&str> = schedule.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let [minute, hour, day, month, weekday] = &FIELDS;
        let ((minutes, _), (hours, _)) = (parse_field(minutes, minute)?, parse_field(hours, hour)?);
        let (days, day_is_any) = parse_field(days, day)?;
        let (months, _) = parse_field(months, month)?;
        let (weekdays, weekday_is_any) = parse_field(weekdays, weekday)?;
        Ok(Schedule::Fields(Fields { minutes, hours, days, months, weekdays, day_is_any, weekday_is_any }))
    }

    /// The first time after `after`, in whole seconds. A time that a zone skips does not come; one that it repeats comes twice.
    pub fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        match self {
            Schedule::Every(seconds) => {
                Timestamp::from_second(after.as_second()).ok()?.checked_add(SignedDuration::from_secs(*seconds)).ok()
            }
            Schedule::Fields(fields) => fields.next(after, zone),
        }
    }
}

impl Fields {
    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let minute = after.as_second().div_euclid(60) + 1;
        let mut at = Timestamp::from_second(minute * 60).ok()?.to_zoned(zone.clone());
        let last_year = at.year().saturating_add(YEARS);
        while at.year() <= last_year {
            let date = at.date();
            if self.is_due_on(date) {
                while at.date() == date {
                    if has(self.hours, at.hour()) && has(self.minutes, at.minute()) {
                        return Some(at.timestamp());
                    }
                    at = at.checked_add(1.minute()).ok()?;
                }
            } else {
                at = start_of_next_day(&at)?;
            }
        }
        None
    }

    fn is_due_on(&self, date: Date) -> bool {
        let day = has(self.days, date.day());
        let weekday = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let matches = if self.day_is_any || self.weekday_is_any { day && weekday } else { day || weekday };
        has(self.months, date.month()) && matches
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 == 1)
}

fn start_of_next_day(at: &Zoned) -> Option<Zoned> {
    at.date().tomorrow().ok()?.to_zoned(at.time_zone().clone()).ok()
}

struct Bounds {
    low: u64,
    high: u64,
    names: &'static [(&'static str, u64)],
}

const MONTHS: &[(&str, u64)] = &[
    ("jan", 1),
    ("feb", 2),
    ("mar", 3),
    ("apr", 4),
    ("may", 5),
    ("jun", 6),
    ("jul", 7),
    ("aug", 8),
    ("sep", 9),
    ("oct", 10),
    ("nov", 11),
    ("dec", 12),
];
const WEEKDAYS: &[(&str, u64)] = &[("sun", 0), ("mon", 1), ("tue", 2), ("wed", 3), ("thu", 4), ("fri", 5), ("sat", 6)];

/// Minute, hour, day of the month, month, day of the week.
const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds { low: 1, high: 12, names: MONTHS },
    Bounds { low: 0, high: 6, names: WEEKDAYS },
];

/// What the descriptors are short for.
const DESCRIPTORS: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

fn parse_descriptor(descriptor: &str) -> Result<Schedule, String> {
    if let Some((_, fields)) = DESCRIPTORS.iter().find(|(name, _)| *name == descriptor) {
        return Schedule::parse(fields);
    }
    let Some(text) = descriptor.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {descriptor}"));
    };
    match duration(text) {
        // Less than a second is a second.
        Some(seconds) => Ok(Schedule::Every(seconds.max(1))),
        None => Err(format!("failed to parse duration {descriptor}: time: invalid duration {}", quoted(text))),
    }
}

/// The whole seconds of a duration of Go: `1h30m`, `1.5s`.
fn duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut nanoseconds = 0_i64;
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = rest.strip_suffix(unit).unwrap_or_default();
        let (after, scale) = UNITS.iter().find_map(|(name, scale)| {
            let after = unit.strip_prefix(name)?;
            let ends = after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.');
            ends.then_some((after, *scale))
        })?;
        nanoseconds = nanoseconds.checked_add(times(number, scale)?)?;
        rest = after;
    }
    Some(sign * nanoseconds / 1_000_000_000)
}

/// A decimal number times a whole one, rounded down.
fn times(number: &str, scale: i64) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let whole = if whole.is_empty() { 0 } else { whole.parse::<i64>().ok()? };
    // No unit is as long as 10^14 ns: what is behind the fourteenth digit does not count.
    let fraction = fraction.get(..14).unwrap_or(fraction);
    let digits = u32::try_from(fraction.len()).ok()?;
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<i128>().ok()? };
    let part = part * i128::from(scale) / 10_i128.pow(digits);
    whole.checked_mul(scale)?.checked_add(i64::try_from(part).ok()?)
}

/// In nanoseconds.
const UNITS: [(&str, i64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The values of a field, and whether it is a star.
fn parse_field(field: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let (mut bits, mut any) = (0, false);
    for range in field.split(',').filter(|range| !range.is_empty()) {
        let (more, star) = parse_range(range, bounds)?;
        bits |= more;
        any |= star;
    }
    Ok((bits, any))
}

fn parse_range(range: &str, bounds: &Bounds) -> Result<(u64, bool), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let limits: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let mut star = false;
    let (start, mut end) = match limits[..] {
        ["*" | "?", ..] => {
            star = true;
            (bounds.low, bounds.high)
        }
        [one] => {
            let value = number_or_name(one, bounds)?;
            (value, value)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        [first, ..] => {
            number_or_name(first, bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
        [] => return Ok((0, false)),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `N/step` goes on to the end.
            if limits.len() == 1 {
                end = bounds.high;
            }
            star &= step <= 1;
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let (low, high) = (bounds.low, bounds.high);
    if start < low {
        return Err(format!("beginning of range ({start}) below minimum ({low}): {range}"));
    }
    if end > high {
        return Err(format!("end of range ({end}) above maximum ({high}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Ok(((start..=end).step_by(step).fold(0, |bits, value| bits | 1 << value), star))
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let name = text.to_lowercase();
    match bounds.names.iter().find(|(known, _)| *known == name) {
        Some((_, value)) => Ok(*value),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u64, String> {
    let failed = |why: &str| format!("failed to parse int from {text}: strconv.Atoi: parsing {}: {why}", quoted(text));
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(failed("invalid syntax"));
    }
    match text.parse::<i64>() {
        Err(_) => Err(failed("value out of range")),
        Ok(number) => u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read_as_upstream() {
        for good in [
            "*/5 * * * *",
            "0 0 1 jan sun",
            "0 0 1 JAN-dec 1,3-5",
            "@hourly",
            "@every 1h30m",
            "@every 1.5s",
            "? ? ? ? ?",
            "5/15 * * * *",
            "TZ=UTC 0 * * * *",
            "*-5 * * * *",
        ] {
            assert!(Schedule::parse(good).is_ok(), "{good}");
        }
        for (bad, complaint) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("a * * * *", r#"failed to parse int from a: strconv.Atoi: parsing "a": invalid syntax"#),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("@never", "unrecognized descriptor: @never"),
            ("@every x", r#"failed to parse duration @every x: time: invalid duration "x""#),
        ] {
            assert_eq!(Schedule::parse(bad).unwrap_err(), complaint, "{bad}");
        }
    }

    /// What the cron library's own tests expect, in UTC.
    #[test]
    fn the_next_time_is_that_of_the_cron_library() {
        for (from, schedule, next) in [
            ("2012-07-09T14:45:00Z", "0/15 * * * *", Some("2012-07-09T15:00:00Z")),
            ("2012-07-09T14:59:59Z", "0/15 * * * *", Some("2012-07-09T15:00:00Z")),
            ("2012-07-09T15:45:00Z", "20-35/15 * * * *", Some("2012-07-09T16:20:00Z")),
            ("2012-07-09T23:46:00Z", "*/15 * * * *", Some("2012-07-10T00:00:00Z")),
            ("2012-07-09T23:35:51Z", "15/35 10/2 * * *", Some("2012-07-10T10:15:00Z")),
            ("2012-07-09T23:35:00Z", "0 0 */10 oct *", Some("2012-10-01T00:00:00Z")),
            ("2012-07-09T23:35:00Z", "0 0 * feb mon", Some("2013-02-04T00:00:00Z")),
            ("2012-07-09T23:35:00Z", "0 0 29 feb ?", Some("2016-02-29T00:00:00Z")),
            ("2012-07-09T23:35:00Z", "0 0 30 feb ?", None),
            ("2012-07-15T00:00:00Z", "0 0 1,15 * sun", Some("2012-07-22T00:00:00Z")),
            ("2012-07-09T00:00:00Z", "0 0 */2 * sun", Some("2012-07-11T00:00:00Z")),
            ("2012-07-09T14:45:00.7Z", "@every 90s", Some("2012-07-09T14:46:30Z")),
            ("2012-07-09T14:45:00Z", "@every 5ns", Some("2012-07-09T14:45:01Z")),
            ("2012-07-09T14:45:00Z", "@weekly", Some("2012-07-15T00:00:00Z")),
        ] {
            let found = Schedule::parse(schedule).unwrap().next(from.parse().unwrap(), &TimeZone::UTC);
            assert_eq!(found.map(|at| at.to_string()).as_deref(), next, "{schedule} after {from}");
        }
    }

    #[test]
    fn a_zone_that_skips_an_hour_skips_what_is_due_in_it_and_one_that_repeats_it_repeats_that() {
        let zone = jiff::tz::TimeZoneDatabase::bundled().get("America/New_York").unwrap();
        let next = |schedule: &str, from: &str| {
            Schedule::parse(schedule).unwrap().next(from.parse().unwrap(), &zone).unwrap().to_string()
        };
        assert_eq!(next("30 2 * * *", "2012-03-11T05:00:00Z"), "2012-03-12T06:30:00Z");
        assert_eq!(next("30 1 * * *", "2012-11-04T04:00:00Z"), "2012-11-04T05:30:00Z");
        assert_eq!(next("30 1 * * *", "2012-11-04T05:30:00Z"), "2012-11-04T06:30:00Z");
    }
}
