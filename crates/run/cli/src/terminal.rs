//! Text that comes from a cluster, fit for a terminal.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The text without characters that a terminal acts on. They are shown as `cat -v` shows them: `^[` for the escape character. Line ends and
/// tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let is_harmful = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    for letter in text.chars() {
        match u32::from(letter) {
            _ if !is_harmful(letter) => cleaned.push(letter),
            0x7f => cleaned.push_str("^?"),
            code if code < 0x20 => {
                cleaned.push('^');
                cleaned.extend(char::from_u32(code + 0x40));
            }
            // Writing to a String cannot fail.
            code => _ = write!(cleaned, "\\u{{{code:x}}}"),
        }
    }
    Cow::Owned(cleaned)
}

/// The same on one line.
pub(crate) fn clean_line(text: &str) -> String {
    clean(text).replace(['\n', '\t'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_act_on_is_shown_instead() {
        assert_eq!(clean("red \u{1b}[31m\u{7} bell\r\u{7f}\u{9b}2J"), "red ^[[31m^G bell^M^?\\u{9b}2J");
        assert_eq!(clean("two\nlines\tand ▸ ü"), "two\nlines\tand ▸ ü");
        assert_eq!(clean_line("two\nlines\u{1b}"), "two lines^[");
    }
}
