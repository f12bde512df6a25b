//! Lengths of time in two or three significant figures.

use jiff::SignedDuration;

/// Writes a length of time: `47s`, `3m20s`, `5d8h`. Small negative ones are differences between clocks and count as 0.
pub fn human(duration: SignedDuration) -> String {
    let seconds = duration.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if seconds < -1 => "<invalid>".to_owned(),
        () if seconds < 0 => "0s".to_owned(),
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 2 * 365 => format!("{days}d"),
        () if days < 8 * 365 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

fn two(large: i64, unit: &str, small: i64, small_unit: &str) -> String {
    if small == 0 { format!("{large}{unit}") } else { format!("{large}{unit}{small}{small_unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_as_in_duration_test_go() {
        const MINUTE: i64 = 60;
        const HOUR: i64 = 60 * MINUTE;
        const DAY: i64 = 24 * HOUR;
        const YEAR: i64 = 365 * DAY;
        let table = [
            (1, "1s"),
            (70, "70s"),
            (190, "3m10s"),
            (9 * MINUTE, "9m"),
            (69 * MINUTE, "69m"),
            (180 * MINUTE, "3h"),
            (70 * MINUTE + 29, "70m"),
            (47 * HOUR, "47h"),
            (7 * HOUR + 5 * MINUTE, "7h5m"),
            (49 * HOUR, "2d1h"),
            (8 * DAY + 2 * HOUR, "8d"),
            (7 * DAY, "7d"),
            (367 * DAY, "367d"),
            (2 * YEAR, "2y"),
            (2 * YEAR + 25 * HOUR, "2y1d"),
            (4 * YEAR + 52 * DAY, "4y52d"),
            (8 * YEAR + 20 * DAY, "8y"),
            (0, "0s"),
            (-1, "0s"),
            (-2, "<invalid>"),
        ];
        for (seconds, want) in table {
            assert_eq!(human(SignedDuration::from_secs(seconds)), want, "{seconds} seconds");
        }
        assert_eq!(human(SignedDuration::from_millis(-1900)), "0s");
    }
}
