//! What can be wrong with the text of a quantity, where, and how to fix it.

use std::fmt;

use thiserror::Error;

use crate::suffix;

/// Why a text is not a quantity. Offsets are in bytes from the start of the text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseQuantityError {
    /// There is no text.
    #[error("a quantity cannot be empty: write a number such as 500m, 2 or 1Gi")]
    Empty,
    /// White space before, inside or after the quantity.
    #[error("white space at byte {offset}: write number and suffix as one word, such as 1Gi")]
    WhiteSpace {
        /// Where the white space is.
        offset: usize,
    },
    /// No digit where the number should be.
    #[error("expected a digit at byte {offset}: a quantity starts with a number, such as 500m, 2 or 1Gi")]
    MissingDigits {
        /// Where the first digit should be.
        offset: usize,
    },
    /// A sign, point or separator that cannot stand where it does in a number.
    #[error("unexpected `{found}` at byte {offset}: a number is digits with at most one sign in front and one `.`")]
    BadNumber {
        /// Where the character is.
        offset: usize,
        /// The character.
        found: char,
    },
    /// Letters after the number that are no suffix.
    #[error("unknown suffix {} at byte {offset}: {}", Quoted(suffix), SuffixHint(suffix))]
    UnknownSuffix {
        /// Where the suffix begins.
        offset: usize,
        /// The suffix as written.
        suffix: String,
    },
    /// An `e` that no whole number follows.
    #[error("bad exponent at byte {offset}: after `e` comes a whole number of 32 bits, such as 12e6 or 5e-3")]
    BadExponent {
        /// Where the exponent begins, after the `e`.
        offset: usize,
    },
}

impl ParseQuantityError {
    /// Where in the text the error is, in bytes.
    pub const fn offset(&self) -> usize {
        match self {
            Self::Empty => 0,
            Self::WhiteSpace { offset }
            | Self::MissingDigits { offset }
            | Self::BadNumber { offset, .. }
            | Self::UnknownSuffix { offset, .. }
            | Self::BadExponent { offset } => *offset,
        }
    }
}

/// The suffix in backquotes, cut where a message would drown in it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ENOUGH: usize = 16;
        let more = if self.0.chars().nth(ENOUGH).is_some() { "…" } else { "" };
        write!(f, "`{self:.ENOUGH$}{more}`", self = self.0)
    }
}

/// How to fix an unknown suffix.
struct SuffixHint<'a>(&'a str);

impl fmt::Display for SuffixHint<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match suffix::near(self.0) {
            [] => write!(f, "the suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"),
            near => write!(f, "did you mean {}?", near.join(" or ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Quantity;

    #[test]
    fn a_message_says_how_to_mend_the_text() {
        for (text, message) in [
            ("", "a quantity cannot be empty: write a number such as 500m, 2 or 1Gi"),
            ("1 Gi", "white space at byte 1: write number and suffix as one word, such as 1Gi"),
            ("Mi", "expected a digit at byte 0: a quantity starts with a number, such as 500m, 2 or 1Gi"),
            ("1,5", "unexpected `,` at byte 1: a number is digits with at most one sign in front and one `.`"),
            ("1e", "bad exponent at byte 2: after `e` comes a whole number of 32 bits, such as 12e6 or 5e-3"),
            ("1GiMi", "unknown suffix `GiMi` at byte 1: the suffixes are n u m k M G T P E and Ki Mi Gi Ti Pi Ei"),
        ] {
            assert_eq!(text.parse::<Quantity>().unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn a_near_suffix_is_suggested() {
        for (suffix, near) in [
            ("mi", "`Mi` (mebi, 2^20) or `m` (milli, 1/1000)"),
            ("MI", "`Mi` (mebi, 2^20)"),
            ("MB", "`M` (mega, 10^6) or `Mi` (mebi, 2^20)"),
            ("mb", "`M` (mega, 10^6) or `Mi` (mebi, 2^20)"),
            ("MiB", "`Mi` (mebi, 2^20)"),
            ("mib", "`Mi` (mebi, 2^20)"),
            ("K", "`k` (kilo, 1000) or `Ki` (kibi, 1024)"),
            ("KB", "`k` (kilo, 1000) or `Ki` (kibi, 1024)"),
            ("ki", "`Ki` (kibi, 1024)"),
            ("g", "`G` (giga, 10^9) or `Gi` (gibi, 2^30)"),
            ("GIB", "`Gi` (gibi, 2^30)"),
            ("ti", "`Ti` (tebi, 2^40)"),
            ("eb", "`E` (exa, 10^18) or `Ei` (exbi, 2^60)"),
            ("U", "`u` (micro, 10^-6)"),
            ("\u{b5}", "`u` (micro, 10^-6)"),
            ("\u{3bc}", "`u` (micro, 10^-6)"),
        ] {
            let message = format!("100{suffix}").parse::<Quantity>().unwrap_err().to_string();
            assert_eq!(message, format!("unknown suffix `{suffix}` at byte 3: did you mean {near}?"));
        }
    }

    #[test]
    fn a_byte_sign_alone_is_to_be_dropped() {
        let message = "100B".parse::<Quantity>().unwrap_err().to_string();
        assert_eq!(message, "unknown suffix `B` at byte 3: did you mean no suffix (a byte is the unit)?");
    }

    #[test]
    fn a_long_suffix_is_cut_in_the_message() {
        let message = format!("1{}", "é".repeat(1000)).parse::<Quantity>().unwrap_err().to_string();
        assert!(message.starts_with(&format!("unknown suffix `{}…` at byte 1: ", "é".repeat(16))), "{message}");
    }

    #[test]
    fn the_offset_is_where_the_message_says() {
        for (text, offset) in [("", 0), ("1 ", 1), ("+", 1), ("1..", 2), ("1.5x", 3), ("7e", 2)] {
            assert_eq!(text.parse::<Quantity>().unwrap_err().offset(), offset, "{text}");
        }
    }
}
