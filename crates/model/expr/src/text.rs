//! Source text in messages.

use std::borrow::Cow;

/// With single spaces for all white space.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Only the beginning of what would drown a message.
pub(crate) fn short(text: &str) -> Cow<'_, str> {
    const ENOUGH: usize = 40;
    match text.char_indices().nth(ENOUGH) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()).into(),
        None => text.into(),
    }
}
