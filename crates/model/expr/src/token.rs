//! Source text into tokens.

use std::str::Chars;

use pillion_quantity::{Format, Quantity};

use crate::error::{ExprErrorKind, Fault};
use crate::limits::MAX_DIGITS;
use crate::rational::Rational;
use crate::suggest;

/// A part of the source, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn to(self, last: Self) -> Self {
        Self { start: self.start, end: last.end }
    }

    pub(crate) fn of(self, source: &str) -> &str {
        source.get(self.start..self.end).unwrap_or_default()
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Token {
    /// A number, or with a unit a quantity.
    Literal(Literal),
    /// A variable or a function, not yet looked up.
    Name,
    /// One of `+ - * / ( ) ,`.
    Symbol(char),
}

#[derive(Clone, Debug)]
pub(crate) struct Literal {
    /// In nanos if it is a quantity.
    pub(crate) value: Rational,
    /// The family of its unit: with one it is a quantity, without it is a number.
    pub(crate) format: Option<Format>,
}

/// Cuts tokens off the front of the source.
pub(crate) struct Lexer<'a> {
    source: &'a str,
    rest: Chars<'a>,
    /// Digits of all numbers so far.
    digits: usize,
}

impl<'a> Lexer<'a> {
    pub(crate) fn new(source: &'a str) -> Self {
        Self { source, rest: source.chars(), digits: 0 }
    }

    /// The next token and where it is; nothing at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(Token, Span)>, Fault> {
        self.take_while(char::is_whitespace);
        let start = self.position();
        let token = match self.peek() {
            None => return Ok(None),
            Some('0'..='9' | '.') => Token::Literal(self.literal()?),
            Some(symbol @ ('+' | '-' | '*' | '/' | '(' | ')' | ',')) => {
                self.rest.next();
                Token::Symbol(symbol)
            }
            Some(letter) if letter.is_alphabetic() || letter == '_' => {
                self.take_while(is_name);
                Token::Name
            }
            Some(character) => {
                let fault = Fault::new(start, ExprErrorKind::UnexpectedCharacter { character });
                return Err(match suggest::for_character(character) {
                    Some(help) => fault.help(help),
                    None => fault,
                });
            }
        };
        Ok(Some((token, Span { start, end: self.position() })))
    }

    /// `12`, `.5`, `1.`, `1e-3`, `50%`, `50 %`, `100Mi`. An `e` or `E` begins an exponent only if digits follow: `1E3` is a
    /// thousand, `1E` is an exa, as in Kubernetes.
    fn literal(&mut self) -> Result<Literal, Fault> {
        let start = self.position();
        let whole = self.take_while(|c| c.is_ascii_digit());
        let fraction = if self.eat('.') { self.take_while(|c| c.is_ascii_digit()) } else { "" };
        if whole.is_empty() && fraction.is_empty() || self.peek() == Some('.') {
            self.take_while(|c| c.is_ascii_digit() || c == '.');
            return Err(Fault::new(start, ExprErrorKind::InvalidNumber { text: self.since(start).to_owned() }));
        }
        let exponent = self.exponent();
        let exponent_digits = exponent.map_or(0, i32::unsigned_abs) as usize;
        self.digits = self.digits.saturating_add(whole.len() + fraction.len()).saturating_add(exponent_digits);
        if self.digits > MAX_DIGITS {
            let fault = Fault::new(start, ExprErrorKind::TooManyDigits);
            return Err(fault.help("quantities of Kubernetes end at 2^63-1, about 9.2e18, and at 1n, which is 1e-9"));
        }
        let number = |exponent| Rational::decimal(whole, fraction, exponent);
        let number_end = self.position();
        let behind = self.rest.clone();
        self.take_while(char::is_whitespace);
        if self.eat('%') {
            return Ok(Literal { value: number(exponent.unwrap_or(0) - 2), format: None });
        }
        self.rest = behind.clone();
        let number = number(exponent.unwrap_or(0));
        let suffix = self.take_while(is_name);
        if suffix.is_empty() {
            return Ok(Literal { value: number, format: None });
        }
        if suggest::is_name(suffix) {
            // `0.5cpu` is a number and a name; the parser misses the operator between them.
            self.rest = behind;
            return Ok(Literal { value: number, format: None });
        }
        match unit(suffix) {
            Some(_) if exponent.is_some() => Err(Fault::new(number_end, ExprErrorKind::ExponentAndUnit)),
            Some(one) => {
                Ok(Literal { value: number.multiply(&Rational::integer(one.nanos())), format: Some(one.format()) })
            }
            None => {
                let number = Span { start, end: number_end }.of(self.source);
                let fault = Fault::new(number_end, ExprErrorKind::UnknownUnit { unit: suffix.to_owned() });
                Err(fault.help(suggest::for_unit(number, suffix)))
            }
        }
    }

    /// The exponent at the front, if there is a whole one.
    fn exponent(&mut self) -> Option<i32> {
        let digits = self.rest.as_str().strip_prefix(['e', 'E'])?;
        let negative = digits.starts_with('-');
        let digits = digits.strip_prefix(['+', '-']).unwrap_or(digits);
        if !digits.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = digits.chars();
        // Absurd exponents only have to stay absurd: the limit on digits refuses them.
        let exponent = self.take_while(|c| c.is_ascii_digit()).parse().unwrap_or(i32::MAX);
        Some(if negative { -exponent } else { exponent })
    }

    fn position(&self) -> usize {
        self.source.len() - self.rest.as_str().len()
    }

    fn peek(&self) -> Option<char> {
        self.rest.clone().next()
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.rest.next();
        }
        found
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let start = self.position();
        while self.peek().is_some_and(&wanted) {
            self.rest.next();
        }
        self.since(start)
    }

    fn since(&self, start: usize) -> &'a str {
        self.source.get(start..self.position()).unwrap_or_default()
    }
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// One of a unit of Kubernetes. (Without the test for letters, `e3` would be one.)
pub(crate) fn unit(suffix: &str) -> Option<Quantity> {
    let letters = !suffix.is_empty() && suffix.bytes().all(|byte| byte.is_ascii_alphabetic());
    if letters { format!("1{suffix}").parse().ok() } else { None }
}
