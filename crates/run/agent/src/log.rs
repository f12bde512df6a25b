//! Lines on standard error.

/// Writes a line with the time, for `kubectl logs`.
pub(crate) fn line(text: impl std::fmt::Display) {
    let now = jiff::Timestamp::from_millisecond(jiff::Timestamp::now().as_millisecond()).unwrap_or_default();
    eprintln!("{now} {text}");
}
