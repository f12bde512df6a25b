//! From Go's syntax to that of the crate `regex`, with Go's messages for mistakes.

use std::fmt::Write;

use regex::Regex;

/// Go's bound on counts such as `a{1000}`, and on the product of counts within each other.
const MAX_REPEAT: u32 = 1000;

/// Rewrites a pattern.
///
/// # Errors
/// What is wrong with it, as Go reports it.
pub(crate) fn translate(pattern: &str) -> Result<String, String> {
    Translator::new(pattern).run()
}

struct Translator<'a> {
    whole: &'a str,
    rest: &'a str,
    out: String,
    /// For each open group, the largest product of counts in what was read of it.
    open: Vec<u32>,
    /// The product of counts in what a `*` would repeat.
    product: u32,
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
            open: Vec::new(),
            product: 1,
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
                    self.atom(1);
                }
                c => {
                    self.skip(c.len_utf8());
                    self.literal(c);
                }
            }
            self.repetition = repetition;
        }
        if !self.open.is_empty() {
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
        self.atom(1);
    }

    /// After something that can be repeated, with the product of counts in it.
    fn atom(&mut self, product: u32) {
        self.repeatable = true;
        self.product = product;
        if let Some(group) = self.open.last_mut() {
            *group = product.max(*group);
        }
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
        self.open.push(1);
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
                        self.open.push(1);
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
        let product = self.open.pop().ok_or_else(|| format!("unexpected ): `{}`", self.whole))?;
        self.out.push(')');
        self.atom(product);
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
        match high.unwrap_or(low) {
            // Without a repetition nothing in it counts.
            0 if high.is_some() => self.atom(1),
            count => self.atom(self.product.saturating_mul(count.max(1))),
        }
        if self.product > MAX_REPEAT {
            return Err(format!("invalid repeat count: `{text}`"));
        }
        Ok(true)
    }

    fn escape(&mut self) -> Result<(), String> {
        let start = self.rest;
        self.skip(1);
        let Some(c) = self.rest.chars().next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        self.atom(1);
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
        self.atom(1);
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

/// The classes of Perl, which are ASCII in Go.
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
