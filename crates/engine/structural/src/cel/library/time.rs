//! Parts of timestamps and durations.

use jiff::Timestamp;
use jiff::tz::{Offset, TimeZone};

use super::{Call, Fault, Outcome, Run};
use crate::cel::value::{Time, Value};

const NANOSECONDS: i64 = 1_000_000_000;

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "getFullYear" => |call| part(&call, |time| i64::from(time.year()), None),
        "getMonth" => |call| part(&call, |time| i64::from(time.month()) - 1, None),
        "getDayOfYear" => |call| part(&call, |time| i64::from(time.day_of_year()) - 1, None),
        "getDayOfMonth" => |call| part(&call, |time| i64::from(time.day()) - 1, None),
        "getDate" => |call| part(&call, |time| i64::from(time.day()), None),
        "getDayOfWeek" => |call| part(&call, |time| i64::from(time.weekday().to_sunday_zero_offset()), None),
        "getHours" => |call| part(&call, |time| i64::from(time.hour()), Some(3600 * NANOSECONDS)),
        "getMinutes" => |call| part(&call, |time| i64::from(time.minute()), Some(60 * NANOSECONDS)),
        "getSeconds" => |call| part(&call, |time| i64::from(time.second()), Some(NANOSECONDS)),
        "getMilliseconds" => |call| part(&call, |time| i64::from(time.millisecond()), Some(NANOSECONDS / 1000)),
        _ => return None,
    })
}

/// A part of a time, in UTC or the zone of the second argument; or how often a unit is in a duration.
fn part<'a>(call: &Call<'a>, of: fn(&jiff::Zoned) -> i64, unit: Option<i64>) -> Outcome<'a> {
    let (time, zone) = match (call.args.as_slice(), unit) {
        ([Value::Timestamp(time)], _) => (time, TimeZone::UTC),
        ([Value::Timestamp(time), Value::String(zone)], _) => (time, read_zone(zone)?),
        ([Value::Duration(nanoseconds)], Some(unit)) => return Ok(Value::Int(nanoseconds / unit)),
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(Value::Int(of(&time.at.to_zoned(zone))))
}

/// UTC or an offset such as `-08:00`. The database of zones is a file of the machine, and evaluation reads none.
fn read_zone(name: &str) -> Result<TimeZone, Fault> {
    if matches!(name, "" | "UTC") {
        return Ok(TimeZone::UTC);
    }
    read_offset(name).map(TimeZone::fixed).ok_or_else(|| Fault::error(format!("unknown time zone {name}")))
}

/// `-08:00`.
fn read_offset(text: &str) -> Option<Offset> {
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
pub(crate) fn parse_timestamp(text: &str) -> Option<Time> {
    let shape = text.len() >= 20 && text.get(10..11) == Some("T") && text.get(4..5) == Some("-");
    let at = shape.then(|| text.parse().ok()).flatten()?;
    let zone = text.len().checked_sub(6).and_then(|start| text.get(start..)).unwrap_or_default();
    let offset = if text.ends_with('Z') { Some(Offset::UTC) } else { read_offset(zone) };
    Some(Time { at, offset: offset? })
}

/// A time so many seconds after 1970; of the years that CEL knows.
pub(crate) fn timestamp_of(seconds: i64) -> Option<Time> {
    let is_known = (-62_135_596_800..=253_402_300_799).contains(&seconds);
    let at = is_known.then(|| Timestamp::from_second(seconds).ok()).flatten()?;
    Some(Time { at, offset: Offset::UTC })
}

/// Nanoseconds as a decimal number of seconds.
pub(super) fn seconds(nanoseconds: i64) -> String {
    let (whole, part) = (nanoseconds / NANOSECONDS, (nanoseconds % NANOSECONDS).unsigned_abs());
    if part == 0 {
        return whole.to_string();
    }
    let sign = if nanoseconds < 0 && whole == 0 { "-" } else { "" };
    format!("{sign}{whole}.{}", format!("{part:09}").trim_end_matches('0'))
}
