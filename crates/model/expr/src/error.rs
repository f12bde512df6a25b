//! What is wrong with an expression, where, and how to fix it.

use std::fmt;

use crate::amount::Resource;
use crate::limits::{MAX_DEPTH, MAX_DIGITS, MAX_LENGTH};
use crate::text::short;

/// Why a text is no expression. The message is one line, without the column.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExprErrorKind {
    /// Nothing but white space.
    #[error("the expression is empty")]
    Empty,
    /// More than [`MAX_LENGTH`] bytes.
    #[error("the expression has {length} bytes, the limit is {MAX_LENGTH}")]
    TooLong {
        /// The length in bytes.
        length: usize,
    },
    /// More than [`MAX_DEPTH`] parentheses, function calls and minus signs around each other.
    #[error("more than {MAX_DEPTH} parentheses and minus signs are nested")]
    TooDeep,
    /// More than [`MAX_DIGITS`] digits in all numbers together, written out without exponents.
    #[error("written out without exponents, the numbers up to here have more than {MAX_DIGITS} digits")]
    TooManyDigits,
    /// A character that no expression has in this place.
    #[error("unexpected character {}", quote_character(*character))]
    UnexpectedCharacter { character: char },
    /// Digits and points that are no number.
    #[error("`{}` is not a number", short(text))]
    InvalidNumber { text: String },
    /// A number with something behind it that is no unit of Kubernetes.
    #[error("unknown unit `{}`", short(unit))]
    UnknownUnit {
        /// The text behind the number.
        unit: String,
    },
    /// A number with an exponent and a unit.
    #[error("a number has either an exponent or a unit, not both")]
    ExponentAndUnit,
    /// Neither a variable nor a function.
    #[error("unknown name `{}`", short(name))]
    UnknownName { name: String },
    /// A call of something that is no function.
    #[error("unknown function `{}`", short(name))]
    UnknownFunction { name: String },
    /// The variable of the other resource.
    #[error("`{variable}` cannot be used in a {resource} expression")]
    WrongVariable {
        variable: Resource,
        /// The resource that the expression is for.
        resource: Resource,
    },
    /// Both variables in one expression.
    #[error("`cpu` and `memory` cannot be used in the same expression")]
    TwoVariables,
    /// A function name that is not followed by arguments.
    #[error("`{function}` is a function and needs arguments in parentheses")]
    MissingArguments { function: &'static str },
    /// A function call with fewer than two arguments.
    #[error("`{function}` takes two or more arguments, not {found}")]
    ArgumentCount {
        function: &'static str,
        /// How many there are.
        found: usize,
    },
    /// Two values next to each other.
    #[error("an operator is missing before `{}`", short(before))]
    MissingOperator {
        /// The second value, as far as it is needed to recognise it.
        before: String,
    },
    /// An operator, comma, parenthesis or the end where a value should be.
    #[error("a value is expected here, {}", instead_of_value(*found))]
    ExpectedValue {
        /// What is there; nothing at the end.
        found: Option<char>,
    },
    /// A comma that separates no arguments.
    #[error("a comma only separates the arguments of a function")]
    UnexpectedComma,
    /// An opening parenthesis without a closing one.
    #[error("this parenthesis is never closed")]
    UnclosedParenthesis,
    /// A closing parenthesis without an opening one.
    #[error("this parenthesis was never opened")]
    UnopenedParenthesis,
    /// A product of two quantities.
    #[error("two quantities cannot be multiplied")]
    QuantityTimesQuantity,
    /// A quotient by a quantity.
    #[error("nothing can be divided by a quantity")]
    DivisionByQuantity,
    /// A quotient by zero.
    #[error("division by zero")]
    DivisionByZero,
}

/// An error and its place in bytes, before the source is at hand to find the column.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ExprErrorKind,
    pub(crate) at: usize,
    pub(crate) help: Option<String>,
}

impl Fault {
    pub(crate) fn new(at: usize, kind: ExprErrorKind) -> Self {
        Self { kind, at, help: None }
    }

    pub(crate) fn help(self, help: impl Into<String>) -> Self {
        Self { help: Some(help.into()), ..self }
    }
}

/// A text that is no expression: the reason, the place, and often the fix.
///
/// `Display` is one line; [`render`](Self::render) shows the place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError(Box<Details>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Details {
    kind: ExprErrorKind,
    /// Only where the source has several lines.
    line: Option<usize>,
    column: usize,
    help: Option<String>,
    excerpt: String,
    /// How many characters of the excerpt are left of the caret.
    caret: usize,
}

impl ExprError {
    pub(crate) fn new(source: &str, fault: Fault) -> Self {
        let (before, after) = source.split_at_checked(fault.at).unwrap_or((source, ""));
        let (previous_lines, before) =
            before.rsplit_once('\n').map_or((None, before), |(lines, rest)| (Some(lines), rest));
        let line = previous_lines.map_or(1, |lines| lines.matches('\n').count() + 2);
        let several_lines = previous_lines.is_some() || after.trim_end().contains('\n');
        let after = after.lines().next().unwrap_or_default();
        let (excerpt, caret) = excerpt(before, after);
        Self(Box::new(Details {
            kind: fault.kind,
            line: several_lines.then_some(line),
            column: before.chars().count() + 1,
            help: fault.help,
            excerpt,
            caret,
        }))
    }

    /// What is wrong.
    pub fn kind(&self) -> &ExprErrorKind {
        &self.0.kind
    }

    /// The column of the offence in its line: characters, from 1.
    pub fn column(&self) -> usize {
        self.0.column
    }

    /// How to fix it, where that is known.
    pub fn help(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// Several lines: the message, the source with a caret under the column, and the help.
    pub fn render(&self) -> String {
        let Details { excerpt, caret, help, .. } = self.0.as_ref();
        let mut lines = vec![self.to_string()];
        if !excerpt.trim().is_empty() {
            lines.push(format!("  {}", excerpt.trim_end()));
            lines.push(format!("  {:caret$}^", ""));
        }
        lines.extend(help.as_ref().map(|help| format!("  help: {help}")));
        lines.join("\n")
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.0.line {
            write!(f, "line {line}, ")?;
        }
        write!(f, "column {}: {}", self.0.column, self.0.kind)
    }
}

impl std::error::Error for ExprError {}

/// At most this many characters of the source are shown on either side of the caret.
const CONTEXT: usize = 50;

/// The part of a line around the caret, and how many of its characters are left of the caret.
fn excerpt(before: &str, after: &str) -> (String, usize) {
    let hidden = before.chars().count().saturating_sub(CONTEXT);
    let mut text = String::from(if hidden > 0 { "…" } else { "" });
    text.extend(before.chars().skip(hidden).map(visible));
    let caret = text.chars().count();
    let mut rest = after.chars();
    text.extend(rest.by_ref().take(CONTEXT).map(visible));
    if rest.next().is_some() {
        text.push('…');
    }
    (text, caret)
}

/// One printable character for each: the caret stays in its column, and no terminal obeys what a manifest says.
fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(character)).unwrap_or(char::REPLACEMENT_CHARACTER),
        character if character.is_control() => char::REPLACEMENT_CHARACTER,
        character => character,
    }
}

fn instead_of_value(found: Option<char>) -> String {
    found.map_or("but the expression ends".to_owned(), |found| format!("not `{found}`"))
}

fn quote_character(character: char) -> String {
    if character.is_control() || character.is_whitespace() {
        format!("U+{:04X}", u32::from(character))
    } else {
        format!("`{character}`")
    }
}
