//! Which start of a CronJob is due, and when the next one is.

use std::time::Duration;

use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;
use pillion_kinds::schedule::Schedule;

use crate::cron_job_view::CronJobView;

/// A start is looked for this much after its time, so that no clock is behind.
const AFTER: SignedDuration = SignedDuration::from_millis(100);

/// How many starts were missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missed {
    None,
    Few,
    /// More than a hundred: something is wrong, and not all of them are counted.
    Many,
}

/// The last start that is due, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    earliest: Timestamp,
    pub(super) at: Option<Timestamp>,
    pub(super) missed: Missed,
}

/// The zone in which the schedule is meant.
pub(super) fn zone(cron_job: &CronJobView) -> Option<TimeZone> {
    match cron_job.spec.time_zone.as_deref() {
        None => Some(TimeZone::UTC),
        Some(name) => TimeZoneDatabase::bundled().get(name).ok(),
    }
}

/// Finds the last start that is due. `with_deadline` leaves out those that are too late to be made.
pub(super) fn due(
    cron_job: &CronJobView,
    schedule: &Schedule,
    zone: &TimeZone,
    now: Timestamp,
    with_deadline: bool,
) -> Result<Due, String> {
    let mut earliest = cron_job.creation_timestamp().map(|at| at.0).unwrap_or_default();
    if let Some(last) = &cron_job.status.last_schedule_time {
        earliest = last.0;
    }
    if let Some(seconds) = cron_job.spec.starting_deadline_seconds.filter(|_| with_deadline) {
        let deadline = now.checked_sub(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        earliest = earliest.max(deadline);
    }
    let none = Due { earliest, at: None, missed: Missed::None };
    let Some(first) = schedule.next(earliest, zone) else {
        return Err("time difference between two schedules is less than 1 second".to_owned());
    };
    if now < first {
        return Ok(none);
    }
    let second = schedule.next(first, zone).unwrap_or(Timestamp::MAX);
    if now < second {
        return Ok(Due { at: Some(first), ..none });
    }
    let between = second.duration_since(first).as_secs().max(1);
    let count = now.duration_since(first).as_secs() / between + 1;
    // One step further back than the count says: starts are not always as far from each other.
    let jump = SignedDuration::from_secs((count - 2) * between);
    let mut at = None;
    let mut candidate = schedule.next(first.checked_add(jump).unwrap_or(first), zone);
    while let Some(time) = candidate.filter(|time| *time <= now) {
        at = Some(time);
        candidate = schedule.next(time, zone);
    }
    Ok(Due { earliest, at, missed: if count > 100 { Missed::Many } else { Missed::Few } })
}

/// How long it is until the next start has to be looked for.
pub(super) fn wait(cron_job: &CronJobView, schedule: &Schedule, zone: &TimeZone, now: Timestamp) -> Option<Duration> {
    let last = match due(cron_job, schedule, zone, now, false) {
        Ok(Due { at: Some(at), .. }) => at,
        Ok(Due { earliest, missed: Missed::None, .. }) => earliest,
        _ => now,
    };
    let next = schedule.next(last, zone)?;
    let wait = next.duration_since(now) + AFTER;
    Some(wait.try_into().unwrap_or(Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cron_job(created: &str, last: Option<&str>, deadline: Option<i64>) -> CronJobView {
        serde_json::from_value(json!({
            "metadata": {"creationTimestamp": created},
            "spec": {"startingDeadlineSeconds": deadline},
            "status": {"lastScheduleTime": last},
        }))
        .unwrap()
    }

    /// The cases of Kubernetes' test of `mostRecentScheduleTime`, and more of their kind.
    #[test]
    fn the_last_start_that_is_due_is_found() {
        use Missed::{Few, Many, None as NoneMissed};
        let hour = "0 * * * *";
        for (what, created, last, deadline, schedule, now, at, missed) in [
            ("none yet", "10:00:10", None, None, hour, "10:30:00", None, NoneMissed),
            ("one", "09:00:00", None, None, hour, "10:00:00", Some("10:00:00"), NoneMissed),
            ("since the last", "09:00:00", Some("10:00:00"), None, hour, "11:00:00", Some("11:00:00"), NoneMissed),
            ("two", "09:00:00", Some("09:00:00"), None, hour, "11:02:00", Some("11:00:00"), Few),
            ("many", "00:00:00", None, None, "* * * * *", "11:02:00", Some("11:02:00"), Many),
            ("a deadline forgets", "00:00:00", None, Some(600), "* * * * *", "11:02:00", Some("11:02:00"), Few),
            ("every", "08:00:00", None, None, "@every 1h", "10:30:00", Some("10:00:00"), Few),
            ("irregular", "06:00:00", None, None, "30 6-16/4 * * 1-5", "15:00:00", Some("14:30:00"), Few),
        ] {
            let full = |time: &str| format!("2016-05-19T{time}Z");
            let job = cron_job(&full(created), last.map(full).as_deref(), deadline);
            let schedule = Schedule::parse(schedule).unwrap();
            let due = due(&job, &schedule, &TimeZone::UTC, full(now).parse().unwrap(), true).unwrap();
            assert_eq!(due.at.map(|at| at.to_string()), at.map(full), "{what}");
            assert_eq!(due.missed, missed, "{what}");
        }
    }

    #[test]
    fn the_next_look_is_just_after_the_next_start() {
        let job = cron_job("2016-05-19T10:00:10Z", None, None);
        let schedule = Schedule::parse("0 * * * *").unwrap();
        let wait = wait(&job, &schedule, &TimeZone::UTC, "2016-05-19T10:59:00Z".parse().unwrap());
        assert_eq!(wait, Some(Duration::from_millis(60_100)));
    }

    #[test]
    fn a_date_that_never_comes_is_an_error() {
        let schedule = Schedule::parse("59 23 31 2 *").unwrap();
        let job = cron_job("2016-05-19T10:00:10Z", None, None);
        assert!(due(&job, &schedule, &TimeZone::UTC, "2016-05-20T10:00:00Z".parse().unwrap(), true).is_err());
    }
}
