//! Parts of timestamps and durations.

use jiff::tz::TimeZone;

use super::{Call, Fault, Outcome, Run};
use crate::cel::time::read_offset;
use crate::cel::value::Value;

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
