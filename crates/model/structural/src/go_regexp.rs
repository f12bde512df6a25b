//! Regular expressions as Go reads them (RE2), rewritten for the `regex` crate; with Go's messages for what is wrong in them.
//!
//! The two differ where users meet it: in Go `\d`, `\s`, `\w` and `\b` are ASCII, `[` and `&&` in a class are plain characters, and a `{` that
//! starts no count is a plain character.

use std::fmt::Write;

use regex::Regex;

/// Go's bound on counts such as `a{1000}`.
const MAX_REPEAT: u32 = 1000;

/// Compiles a pattern.
///
/// # Errors
/// What is wrong with it, as Go says it.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = Translator::new(pattern).run().map_err(|fault| format!("error parsing regexp: {fault}"))?;
    Regex::new(&translated).map_err(|_| format!("error parsing regexp: expression too large: `{pattern}`"))
}

struct Translator<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    open: usize,
    /// Whether there is something that a `*` could repeat.
    repeatable: bool,
    /// Where the last repetition operator began, if nothing came after it.
    repetition: Option<&'a str>,
}

impl<'a> Translator<'a> {
    fn new(pattern: &'a str) -> Translator<'a> {
        Translator {
            whole: pattern,
            rest: pattern,
            out: String::with_capacity(pattern.len() + 16),
            open: 0,
            repeatable: false,
            repetition: None,
        }
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(c) = self.rest.chars().next() {
            let start = self.rest;
            let mut repetition = None;
            match c {
                '(' => self.open_group()?,
                ')' => self.close_group()?,
                '|' => {
                    self.skip(1);
                    self.out.push('|');
                    self.repeatable = false;
                }
                '[' => self.class()?,
                '*' | '+' | '?' => {
                    self.skip(1);
                    self.out.push(c);
                    self.repeat(start)?;
                    repetition = Some(start);
                }
                '{' => {
                    if self.count(start)? {
                        repetition = Some(start);
                    }
                }
                '\\' => self.escape()?,
                '^' | '$' | '.' => {
                    self.skip(1);
                    self.out.push(c);
                    self.repeatable = true;
                }
                c => {
                    self.skip(c.len_utf8());
                    self.literal(c);
                }
            }
            self.repetition = repetition;
        }
        if self.open > 0 {
            return Err(format!("missing closing ): `{}`", self.whole));
        }
        Ok(self.out)
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn eat(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).map(|rest| self.rest = rest).is_some()
    }

    /// What was read since `start`.
    fn since(&self, start: &'a str) -> &'a str {
        start.get(..start.len() - self.rest.len()).unwrap_or(start)
    }

    fn literal(&mut self, c: char) {
        push_literal(&mut self.out, c);
        self.repeatable = true;
    }

    fn open_group(&mut self) -> Result<(), String> {
        let start = self.rest;
        self.skip(1);
        if !self.rest.starts_with('?') {
            self.out.push('(');
        } else if self.rest.starts_with("?P<") || self.rest.starts_with("?<") {
            let name_start = self.rest.find('<').map_or(0, |at| at + 1);
            let named = self.rest.get(name_start..).unwrap_or_default();
            let Some((name, rest)) = named.split_once('>') else {
                return Err(format!("invalid named capture: `{start}`"));
            };
            self.rest = rest;
            if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
                return Err(format!("invalid named capture: `{}`", self.since(start)));
            }
            self.out.push('(');
        } else {
            return self.flags(start);
        }
        self.open += 1;
        self.repeatable = false;
        Ok(())
    }

    /// `(?i)`, `(?i:`, `(?:`.
    fn flags(&mut self, start: &'a str) -> Result<(), String> {
        self.skip(1);
        let (mut negative, mut any) = (false, false);
        self.out.push_str("(?");
        while let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
            match c {
                'i' | 'm' | 's' | 'U' => any = true,
                '-' if !negative => {
                    negative = true;
                    any = false;
                }
                ':' | ')' if !negative || any => {
                    self.out.push(c);
                    if c == ':' {
                        self.open += 1;
                        self.repeatable = false;
                    }
                    return Ok(());
                }
                _ => return Err(format!("invalid or unsupported Perl syntax: `{}`", self.since(start))),
            }
            self.out.push(c);
        }
        Err(format!("missing closing ): `{}`", self.whole))
    }

    fn close_group(&mut self) -> Result<(), String> {
        self.skip(1);
        self.open = self.open.checked_sub(1).ok_or_else(|| format!("unexpected ): `{}`", self.whole))?;
        self.out.push(')');
        self.repeatable = true;
        Ok(())
    }

    /// After a repetition operator that began at `start`.
    fn repeat(&mut self, start: &'a str) -> Result<(), String> {
        if self.eat("?") {
            self.out.push('?');
        }
        if let Some(earlier) = self.repetition {
            return Err(format!("invalid nested repetition operator: `{}`", self.since(earlier)));
        }
        if self.repeatable {
            Ok(())
        } else {
            Err(format!("missing argument to repetition operator: `{}`", self.since(start)))
        }
    }

    /// `{n}`, `{n,}`, `{n,m}`; anything else is a plain brace. Whether it was a count.
    fn count(&mut self, start: &'a str) -> Result<bool, String> {
        let Some((low, high, length)) = counts(self.rest) else {
            self.skip(1);
            self.literal('{');
            return Ok(false);
        };
        let text = self.rest.get(..length).unwrap_or_default();
        self.skip(length);
        if low > MAX_REPEAT || high.is_some_and(|high| high > MAX_REPEAT || high < low) {
            return Err(format!("invalid repeat count: `{text}`"));
        }
        self.out.push_str(text);
        self.repeat(start)?;
        Ok(true)
    }

    fn escape(&mut self) -> Result<(), String> {
        let start = self.rest;
        self.skip(1);
        let Some(c) = self.rest.chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        self.repeatable = true;
        match c {
            'A' | 'z' => {
                self.skip(1);
                self.out.push('\\');
                self.out.push(c);
            }
            'b' => {
                self.skip(1);
                self.out.push_str(r"(?-u:\b)");
            }
            'B' => {
                self.skip(1);
                self.out.push_str(r"\B");
            }
            'Q' => {
                self.skip(1);
                let quoted = self.rest;
                let end = quoted.find("\\E");
                self.rest = end.and_then(|end| quoted.get(end + 2..)).unwrap_or_default();
                for c in quoted.get(..end.unwrap_or(quoted.len())).unwrap_or_default().chars() {
                    push_literal(&mut self.out, c);
                }
            }
            _ => {
                if let Some(class) = perl_class(c) {
                    self.skip(1);
                    self.out.push_str(class);
                } else if matches!(c, 'p' | 'P') {
                    let class = self.unicode_class(start)?;
                    self.out.push_str(&class);
                } else {
                    let c = self.escaped(start)?;
                    self.literal(c);
                }
            }
        }
        Ok(())
    }

    /// `\pL`, `\p{Greek}`, with the backslash read.
    fn unicode_class(&mut self, start: &'a str) -> Result<String, String> {
        self.skip(1);
        if self.rest.starts_with('{') {
            let Some(end) = self.rest.find('}') else {
                return Err(format!("invalid character class range: `{start}`"));
            };
            self.skip(end + 1);
        } else if let Some(c) = self.rest.chars().next() {
            self.skip(c.len_utf8());
        }
        let text = self.since(start);
        if Regex::new(text).is_ok() {
            Ok(text.to_owned())
        } else {
            Err(format!("invalid character class range: `{text}`"))
        }
    }

    /// One escaped character, with the backslash read.
    fn escaped(&mut self, start: &'a str) -> Result<char, String> {
        let Some(c) = self.rest.chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        self.skip(c.len_utf8());
        let found = match c {
            '0'..='7' if c == '0' || self.rest.starts_with(|next: char| ('0'..='7').contains(&next)) => {
                let mut code = c.to_digit(8).unwrap_or_default();
                for _ in 0..2 {
                    let Some(digit) = self.rest.chars().next().and_then(|next| next.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.skip(1);
                }
                char::from_u32(code)
            }
            'x' => self.hexadecimal(),
            'a' => Some('\u{7}'),
            'f' => Some('\u{c}'),
            'n' => Some('\n'),
            'r' => Some('\r'),
            't' => Some('\t'),
            'v' => Some('\u{b}'),
            c if c.is_ascii_punctuation() => Some(c),
            _ => None,
        };
        found.ok_or_else(|| format!("invalid escape sequence: `{}`", self.since(start)))
    }

    /// `x7F` or `x{10FFFF}`, with the `x` read.
    fn hexadecimal(&mut self) -> Option<char> {
        if self.eat("{") {
            let (digits, rest) = self.rest.split_once('}')?;
            self.rest = rest;
            return u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        }
        let digits = self.rest.get(..2)?;
        self.skip(2);
        u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
    }

    fn class(&mut self) -> Result<(), String> {
        let start = self.rest;
        self.skip(1);
        self.out.push('[');
        if self.eat("^") {
            self.out.push('^');
        }
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            if self.rest.is_empty() {
                return Err(format!("missing closing ]: `{start}`"));
            }
            first = false;
            let item = self.rest;
            if item.starts_with("[:") && item.get(2..).is_some_and(|rest| rest.contains(":]")) {
                self.posix_class()?;
                continue;
            }
            if let Some(escape) = item.strip_prefix('\\').and_then(|rest| rest.chars().next()) {
                if let Some(class) = perl_class(escape) {
                    self.skip(2);
                    self.out.push_str(class);
                    continue;
                }
                if matches!(escape, 'p' | 'P') {
                    self.skip(1);
                    let class = self.unicode_class(item)?;
                    self.out.push_str(&class);
                    continue;
                }
            }
            self.class_range(start)?;
        }
        self.skip(1);
        self.out.push(']');
        self.repeatable = true;
        Ok(())
    }

    fn posix_class(&mut self) -> Result<(), String> {
        let start = self.rest;
        let end = start.find(":]").map_or(start.len(), |at| at + 2);
        self.skip(end);
        let text = self.since(start);
        if Regex::new(&format!("[{text}]")).is_ok() {
            self.out.push_str(text);
            Ok(())
        } else {
            Err(format!("invalid character class range: `{text}`"))
        }
    }

    /// `a` or `a-z`.
    fn class_range(&mut self, class: &'a str) -> Result<(), String> {
        let start = self.rest;
        let low = self.class_char(class)?;
        let mut high = low;
        if self.rest.starts_with('-') && self.rest.len() >= 2 && !self.rest.starts_with("-]") {
            self.skip(1);
            high = self.class_char(class)?;
            if high < low {
                return Err(format!("invalid character class range: `{}`", self.since(start)));
            }
        }
        push_literal(&mut self.out, low);
        if high != low {
            self.out.push('-');
            push_literal(&mut self.out, high);
        }
        Ok(())
    }

    fn class_char(&mut self, class: &'a str) -> Result<char, String> {
        let start = self.rest;
        match start.chars().next() {
            None => Err(format!("missing closing ]: `{class}`")),
            Some('\\') => {
                self.skip(1);
                self.escaped(start)
            }
            Some(c) => {
                self.skip(c.len_utf8());
                Ok(c)
            }
        }
    }
}

/// The counts that `text` begins with, and their length.
fn counts(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let (inside, _) = text.strip_prefix('{')?.split_once('}')?;
    let number = |digits: &str| -> Option<u32> {
        let sensible = !digits.is_empty()
            && digits.bytes().all(|b| b.is_ascii_digit())
            && (digits == "0" || !digits.starts_with('0'));
        // More digits than any count that is allowed.
        sensible.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let length = inside.len() + 2;
    match inside.split_once(',') {
        None => number(inside).map(|low| (low, Some(low), length)),
        Some((low, "")) => number(low).map(|low| (low, None, length)),
        Some((low, high)) => Some((number(low)?, Some(number(high)?), length)),
    }
}

/// The classes of Perl, which Go keeps to ASCII.
fn perl_class(c: char) -> Option<&'static str> {
    Some(match c {
        'd' => "[0-9]",
        'D' => "[^0-9]",
        's' => r"[\t\n\x0C\r ]",
        'S' => r"[^\t\n\x0C\r ]",
        'w' => "[0-9A-Za-z_]",
        'W' => "[^0-9A-Za-z_]",
        _ => return None,
    })
}

fn push_literal(out: &mut String, c: char) {
    if c.is_ascii_alphanumeric() || (!c.is_ascii() && !c.is_whitespace()) {
        out.push(c);
    } else {
        // Writing to a String cannot fail.
        let _ = write!(out, "\\x{{{:X}}}", u32::from(c));
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
            ("a\\", "trailing backslash at end of expression: ``"),
            ("(?x)a", "invalid or unsupported Perl syntax: `(?x`"),
            (r"\p{Nonsense}", r"invalid character class range: `\p{Nonsense}`"),
        ] {
            assert_eq!(compile(pattern).unwrap_err(), format!("error parsing regexp: {message}"), "{pattern}");
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
            ("^a{,2}$", "a{,2}", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            ("^[[:alpha:]]+$", "abc", true),
            (r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "a-9", true),
            ("^(?i)abc$", "ABC", true),
            ("a$", "a\n", false),
            (r"\bfoo\b", "a foo", true),
        ] {
            assert_eq!(compile(pattern).unwrap().is_match(text), matches, "{pattern} on {text}");
        }
    }
}
