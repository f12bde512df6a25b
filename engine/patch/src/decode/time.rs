//! Times as `metav1.Time` and `metav1.MicroTime` read and write them.

use jiff::ToSpan as _;
use jiff::civil::{Date, DateTime};

/// How finely a time is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Precision {
    /// `metav1.Time`
    Seconds,
    /// `metav1.MicroTime`
    Micros,
}

/// The text as Go writes it after having read it: in UTC. `None` is the zero time, which Go writes as `null`.
///
/// # Errors
/// In the words of Go's `time.Parse`.
pub(super) fn canonical(text: &str, precision: Precision) -> Result<Option<String>, String> {
    let time = read(text, precision)?;
    let zero = Date::constant(1, 1, 1).to_datetime(jiff::civil::Time::midnight());
    if time == zero {
        return Ok(None);
    }
    let format = if precision == Precision::Micros { "%Y-%m-%dT%H:%M:%S%.6fZ" } else { "%Y-%m-%dT%H:%M:%SZ" };
    Ok(Some(time.strftime(format).to_string()))
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
    layout: &'static str,
}

fn read(text: &str, precision: Precision) -> Result<DateTime, String> {
    let layout = match precision {
        Precision::Seconds => "2006-01-02T15:04:05Z07:00",
        Precision::Micros => "2006-01-02T15:04:05.000000Z07:00",
    };
    let mut reader = Reader { text, rest: text, layout };
    let year = reader.year()?;
    reader.mark("-")?;
    let month = reader.number("01", 2, "month", 1..=12)?;
    reader.mark("-")?;
    // Whether the month has such a day is checked, and reported, at the end.
    let day = reader.number("02", 2, "day", 0..=99)?;
    reader.mark("T")?;
    let hour = reader.number("15", 1, "hour", 0..=23)?;
    reader.mark(":")?;
    let minute = reader.number("04", 2, "minute", 0..=59)?;
    reader.mark(":")?;
    let second = reader.number("05", 2, "second", 0..=59)?;
    let nanos = match precision {
        Precision::Seconds => reader.fraction(),
        Precision::Micros => reader.micros()?,
    };
    let offset = reader.offset()?;
    if !reader.rest.is_empty() {
        return Err(reader.out(&format!("extra text: {:?}", reader.rest)));
    }
    let date = Date::new(year, month, day).map_err(|_| reader.out("day out of range"))?;
    let time = date.at(hour, minute, second, nanos);
    time.checked_sub(i64::from(offset).minutes()).map_err(|_| reader.out("day out of range"))
}

impl<'a> Reader<'a> {
    fn bad(&self, element: &str) -> String {
        format!("parsing time {:?} as {:?}: cannot parse {:?} as {element:?}", self.text, self.layout, self.rest)
    }

    fn out(&self, what: &str) -> String {
        format!("parsing time {:?}: {what}", self.text)
    }

    fn consume(&mut self, count: usize) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn mark(&mut self, mark: &'static str) -> Result<(), String> {
        self.rest = self.rest.strip_prefix(mark).ok_or_else(|| self.bad(mark))?;
        Ok(())
    }

    fn year(&mut self) -> Result<i16, String> {
        let digits = self.rest.get(..4).filter(|year| year.bytes().all(|byte| byte.is_ascii_digit()));
        let year = digits.and_then(|year| year.parse().ok()).ok_or_else(|| self.bad("2006"))?;
        self.consume(4);
        Ok(year)
    }

    /// Two digits, or one where `least` says so.
    fn number(
        &mut self,
        element: &'static str,
        least: usize,
        what: &str,
        range: std::ops::RangeInclusive<i8>,
    ) -> Result<i8, String> {
        let count = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        if count < least {
            return Err(self.bad(element));
        }
        let number: i8 = self.consume(count).and_then(|digits| digits.parse().ok()).unwrap_or_default();
        if range.contains(&number) { Ok(number) } else { Err(self.out(&format!("{what} out of range"))) }
    }

    /// A fraction of a second that the layout does not ask for. A second later than nine digits tell nothing.
    fn fraction(&mut self) -> i32 {
        let Some(digits) = self.rest.strip_prefix(['.', ',']) else { return 0 };
        let count = digits.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return 0;
        }
        self.consume(1);
        let nanos = self.consume(count).unwrap_or_default();
        format!("{nanos:0<9.9}").parse().unwrap_or_default()
    }

    fn micros(&mut self) -> Result<i32, String> {
        let digits = self.rest.get(..7).and_then(|fraction| fraction.strip_prefix(['.', ',']));
        let micros = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        let micros: i32 = micros.and_then(|micros| micros.parse().ok()).ok_or_else(|| self.bad(".000000"))?;
        self.consume(7);
        Ok(micros * 1000)
    }

    /// In minutes.
    fn offset(&mut self) -> Result<i32, String> {
        const ELEMENT: &str = "Z07:00";
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Ok(0);
        }
        let parts = self.rest.get(..6).and_then(|offset| {
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let number =
                |digits: &str| digits.parse::<u8>().ok().filter(|_| digits.len() == 2 && !digits.starts_with('+'));
            Some((offset.get(..1)?, i32::from(number(hours)?), i32::from(number(minutes)?)))
        });
        let sign = match parts {
            Some(("+", ..)) => 1,
            Some(("-", ..)) => -1,
            _ => return Err(self.bad(ELEMENT)),
        };
        let (_, hours, minutes) = parts.unwrap_or_default();
        if hours > 24 {
            return Err(self.out("time zone offset hour out of range"));
        }
        if minutes > 60 {
            return Err(self.out("time zone offset minute out of range"));
        }
        self.consume(6);
        Ok(sign * (hours * 60 + minutes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_cut_to_their_precision() {
        let seconds = |text| canonical(text, Precision::Seconds).unwrap();
        assert_eq!(seconds("2020-02-29T23:30:00.987654321-01:30").as_deref(), Some("2020-03-01T01:00:00Z"));
        assert_eq!(seconds("2020-01-01T5:00:00Z").as_deref(), Some("2020-01-01T05:00:00Z"));
        assert_eq!(seconds("0001-01-01T00:00:00Z"), None);
        let micros = |text| canonical(text, Precision::Micros).unwrap();
        assert_eq!(micros("2020-01-01T00:00:00.500001+00:00").as_deref(), Some("2020-01-01T00:00:00.500001Z"));
    }

    /// Expected messages are those of Go's `time.Parse`.
    #[test]
    fn errors_are_those_of_go() {
        const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
        for (text, element, rest) in [
            ("foo", "2006", "foo"),
            ("", "2006", ""),
            ("2020", "-", ""),
            ("2020-1-01T00:00:00Z", "01", "1-01T00:00:00Z"),
            ("2020-01-01", "T", ""),
            ("2020-01-01 00:00:00Z", "T", " 00:00:00Z"),
            ("2020-01-01T00:00:00", "Z07:00", ""),
            ("2020-01-01T00:00:00+0100", "Z07:00", "+0100"),
        ] {
            let message = format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {element:?}");
            assert_eq!(canonical(text, Precision::Seconds), Err(message));
        }
        for (text, what) in [
            ("2020-13-01T00:00:00Z", "month out of range"),
            ("2021-02-29T00:00:00Z", "day out of range"),
            ("2021-02-01T24:00:00Z", "hour out of range"),
            ("2021-02-01T00:60:00Z", "minute out of range"),
            ("2021-02-01T00:00:60Z", "second out of range"),
            ("2021-02-01T00:00:00+25:00", "time zone offset hour out of range"),
            ("2021-02-01T00:00:00Zx", "extra text: \"x\""),
        ] {
            assert_eq!(canonical(text, Precision::Seconds), Err(format!("parsing time {text:?}: {what}")));
        }
        assert_eq!(
            canonical("2020-01-01T00:00:00Z", Precision::Micros).unwrap_err(),
            "parsing time \"2020-01-01T00:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as \".000000\""
        );
    }
}
