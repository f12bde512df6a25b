//! The schedule of a CronJob: five fields, or a descriptor. Only whether it can be read is asked here.

use crate::field::quoted;

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

const DESCRIPTORS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// What is wrong with a schedule, in the words of the cron library that Kubernetes uses.
pub(super) fn complaint(schedule: &str) -> Option<String> {
    check(schedule).err()
}

fn check(schedule: &str) -> Result<(), String> {
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
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&descriptor) {
        return Ok(());
    }
    match descriptor.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            Err(format!("failed to parse duration {descriptor}: time: invalid duration {}", quoted(duration)))
        }
        None => Err(format!("unrecognized descriptor: {descriptor}")),
    }
}

/// A duration of Go: `1h30m`, `1.5s`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let unit = rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let number = rest.strip_suffix(unit).unwrap_or_default();
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        let Some(after) = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].iter().find_map(|name| {
            unit.strip_prefix(name)
                .filter(|after| after.is_empty() || after.starts_with(|c: char| c.is_ascii_digit() || c == '.'))
        }) else {
            return false;
        };
        rest = after;
    }
    true
}

fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = range.split('/').collect();
    let limits: Vec<&str> = parts.first().copied().unwrap_or_default().split('-').collect();
    let (start, mut end) = match limits[..] {
        ["*" | "?", ..] => (bounds.low, bounds.high),
        [one] => {
            let value = number_or_name(one, bounds)?;
            (value, value)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        [first, ..] => {
            number_or_name(first, bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
        [] => return Ok(()),
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            // `N/step` goes on to the end.
            if limits.len() == 1 {
                end = bounds.high;
            }
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
    Ok(())
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
            assert_eq!(complaint(good), None, "{good}");
        }
        for (bad, complaint_about_it) in [
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
            assert_eq!(complaint(bad).as_deref(), Some(complaint_about_it), "{bad}");
        }
    }
}
