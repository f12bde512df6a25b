//! Regular expressions as Go's package `regexp` reads them. Kubernetes and OpenKruise are written in Go, so this is what a pattern in a
//! SidecarSet or in a schema means.
//!
//! The syntax is RE2, and so nearly that of the crate `regex`, which does the matching. The two differ where users notice: in Go `\d`,
//! `\s`, `\w` and `\b` are ASCII, `\Q…\E` quotes, `[` and `&&` in a class are plain characters, and a `{` that starts no count is one, too.
//!
//! ```
//! use pillion_regexp::Regexp;
//!
//! let names = Regexp::new(r"^app{|^\Qa.b\E$")?;
//! assert!(names.is_match("app{1") && names.is_match("a.b") && !names.is_match("axb"));
//! assert_eq!(names.as_str(), r"^app{|^\Qa.b\E$");
//!
//! let error = Regexp::new("a(?=b)").unwrap_err();
//! assert_eq!(error.to_string(), "error parsing regexp: invalid or unsupported Perl syntax: `(?=`");
//! # Ok::<(), pillion_regexp::Error>(())
//! ```
//!
//! ```text
//!  Go's pattern ──translate──▶ the same pattern in the syntax of `regex` ──compile──▶ Regexp (keeps Go's pattern)
//!                    └──▶ Error, in the words of Go
//! ```
//!
//! # Invariants
//! - Matching takes linear time, and a compiled pattern has a bounded size.
//! - What Go refuses is refused, with Go's message. What Go accepts is accepted, unless it is too large.
#![forbid(unsafe_code)]

mod translate;

use std::fmt;

/// How much memory a compiled pattern may take.
const SIZE_LIMIT: usize = 10 << 20;

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Regexp {
    source: String,
    compiled: regex::Regex,
}

/// Why a pattern is not one, as Go reports it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("error parsing regexp: {0}")]
pub struct Error(String);

impl Regexp {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// It is malformed or too large.
    pub fn new(pattern: &str) -> Result<Regexp, Error> {
        Regexp::with_size_limit(pattern, SIZE_LIMIT)
    }

    /// Compiles a pattern that may take at most `bytes` of memory.
    ///
    /// # Errors
    /// It is malformed or too large.
    pub fn with_size_limit(pattern: &str, bytes: usize) -> Result<Regexp, Error> {
        let translated = translate::translate(pattern).map_err(Error)?;
        let compiled = regex::RegexBuilder::new(&translated).size_limit(bytes).build();
        let compiled = compiled.map_err(|_| Error(format!("expression too large: `{pattern}`")))?;
        Ok(Regexp { source: pattern.to_owned(), compiled })
    }

    /// Whether the pattern matches anywhere in `text`.
    pub fn is_match(&self, text: &str) -> bool {
        self.compiled.is_match(text)
    }

    /// The matches in `text` from left to right, none of which overlap.
    pub fn find_iter<'r, 't>(&'r self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'r, 't> {
        self.compiled.find_iter(text).map(|found| found.as_str())
    }

    /// The pattern as it was written.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

impl fmt::Display for Regexp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_read_as_go_writes_them() {
        for (pattern, message) in [
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("a(?=b)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?<!b>)", "invalid named capture: `(?<!b>`"),
            ("[a", "missing closing ]: `[a`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            (r"\y", r"invalid escape sequence: `\y`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("((a{10}b){1,11}){10,}", "invalid repeat count: `{10,}`"),
            ("((a{1000})*){2}", "invalid repeat count: `{2}`"),
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            (r"\p{Nonsense}", r"invalid character class range: `\p{Nonsense}`"),
        ] {
            let error = Regexp::new(pattern).unwrap_err().to_string();
            assert_eq!(error, format!("error parsing regexp: {message}"), "{pattern}");
        }
    }

    #[test]
    fn patterns_match_as_in_go() {
        for (pattern, text, matches) in [
            (r"^\d+$", "12", true),
            (r"^\d+$", "٣", false),
            (r"^\w$", "é", false),
            (r"^[\w-]+$", "a-b", true),
            ("^[[&&b]$", "&", true),
            ("^[[]$", "[", true),
            ("^app{", "app{", true),
            ("^a{,2}$", "a{,2}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"^\Q\E$", "", true),
            (r"^\Qab\E+$", "abb", true),
            ("^[[:alpha:]]+$", "abc", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-9", true),
            ("^(?i)abc$", "ABC", true),
            ("a$", "a\n", false),
            (r"\bfoo\b", "a foo", true),
            ("^(a{10}){100}$", "a", false),
            ("^(a{1000}){0}$", "", true),
        ] {
            let compiled = Regexp::new(pattern);
            assert_eq!(compiled.map(|compiled| compiled.is_match(text)), Ok(matches), "{pattern} on {text}");
        }
    }

    #[test]
    fn a_pattern_that_takes_too_much_memory_is_refused() {
        let error = Regexp::with_size_limit(r"\pL{1000}", 1 << 20).unwrap_err();
        assert_eq!(error.to_string(), r"error parsing regexp: expression too large: `\pL{1000}`");
    }
}
