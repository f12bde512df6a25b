//! From text to steps.

use serde_json::Value;

use super::path::{JsonPath, Slice, Step};

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path:?} is not a JSONPath: {rest:?} cannot be read")]
pub struct ParseError {
    /// The whole text.
    pub path: String,
    /// The text from the first step on that cannot be read.
    pub rest: String,
}

impl JsonPath {
    /// Parses a path, such as `.spec.containers[*].image`.
    ///
    /// # Errors
    /// The first step that cannot be read.
    pub fn parse(text: &str) -> Result<JsonPath, ParseError> {
        steps(text).map_err(|rest| ParseError { path: text.to_owned(), rest: rest.to_owned() })
    }
}

/// The path that is `text`, or the rest of it that cannot be read.
fn steps(text: &str) -> Result<JsonPath, &str> {
    let mut rest = text;
    let mut steps = Vec::new();
    while let Some(first) = rest.chars().next().filter(|first| *first != '}') {
        rest = step(first, rest, &mut steps).ok_or(rest)?;
    }
    Ok(JsonPath { steps })
}

/// Reads the step that `rest` begins with, and returns what is behind it.
fn step<'a>(first: char, rest: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    match first {
        ' ' | '@' | '$' => rest.get(1..),
        '[' if rest.starts_with("[?(") => filter(rest.get(3..)?, steps),
        '[' => array(rest.get(1..)?, steps),
        '.' if rest.starts_with("..") => recursive(rest.get(2..)?, steps),
        '.' => Some(field(rest.get(1..)?, steps)),
        '"' | '\'' => quoted(rest, steps),
        '+' | '-' => number(rest, steps),
        first if first.is_numeric() => number(rest, steps),
        first if first == '_' || first.is_alphabetic() => Some(word(rest, steps)),
        _ => None,
    }
}

/// A path within a path.
fn inner(text: &str) -> Option<JsonPath> {
    steps(text).ok()
}

fn is_terminator(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

/// A name up to the next sign that has a meaning; `\` takes the meaning away.
fn field<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let mut escaped = false;
    let end = text.find(|c| {
        let ends = !escaped && is_terminator(c);
        escaped = !escaped && c == '\\';
        ends
    });
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    steps.push(if name == "*" { Step::Wildcard } else { Step::Field(name.replace('\\', "")) });
    rest
}

fn recursive<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    if steps.last() == Some(&Step::Recursive) {
        return None;
    }
    steps.push(Step::Recursive);
    let names = |c: char| c == '_' || c.is_alphanumeric();
    Some(if text.starts_with(names) { field(text, steps) } else { text })
}

fn word<'a>(text: &'a str, steps: &mut Vec<Step>) -> &'a str {
    let (word, rest) = text.split_at(text.find(is_terminator).unwrap_or(text.len()));
    steps.push(match word {
        "true" => Step::Literal(Value::Bool(true)),
        "false" => Step::Literal(Value::Bool(false)),
        _ => Step::Word,
    });
    rest
}

fn number<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let digits = unsigned.find(|c: char| c != '.' && !c.is_numeric()).unwrap_or(unsigned.len());
    let (number, rest) = text.split_at_checked(text.len() - unsigned.len() + digits)?;
    let value = match number.parse::<i64>() {
        Ok(whole) => Value::from(whole),
        Err(_) => Value::from(number.parse::<f64>().ok()?),
    };
    steps.push(Step::Literal(value));
    Some(rest)
}

/// The position of the quote that ends the text which begins with one.
fn closing_quote(text: &str) -> Option<usize> {
    let quote = text.chars().next()?;
    let mut before = quote;
    for (index, c) in text.char_indices().skip(1) {
        match c {
            '\n' => return None,
            c if c == quote && before != '\\' => return Some(index),
            c => before = c,
        }
    }
    None
}

fn quoted<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let end = closing_quote(text)?;
    steps.push(Step::Literal(unescape(text.get(1..end)?)?.into()));
    text.get(end + 1..)
}

/// Undoes the escapes of a Go string.
fn unescape(text: &str) -> Option<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        plain.push(if c == '\\' {
            match rest.next()? {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c @ ('\\' | '"' | '\'') => c,
                _ => return None,
            }
        } else {
            c
        });
    }
    Some(plain)
}

/// After `[`: an index, a slice, a quoted name, or several of them.
fn array<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let (inside, rest) = text.split_once(']')?;
    let inside = if inside == "*" { ":" } else { inside };
    if inside.contains('\n') {
        return None;
    }
    if inside.contains(',') {
        let paths = inside.split(',').map(|part| inner(&format!("[{}]", part.trim_matches(' '))));
        steps.push(Step::Union(paths.collect::<Option<_>>()?));
    } else if let Some(name) = inside.strip_prefix('\'').and_then(|name| name.strip_suffix('\'')) {
        // A name in quotes is read like one after a point, so a point in it still separates.
        steps.extend(inner(&format!(".{name}"))?.steps);
    } else {
        steps.push(Step::Slice(slice(inside)?));
    }
    Some(rest)
}

fn slice(text: &str) -> Option<Slice> {
    let mut parts = text.split(':');
    let part = |part: Option<&str>| match part {
        None | Some("") => Some(None),
        Some(digits) => digits.parse::<i64>().ok().filter(|_| !digits.starts_with('+')).map(Some),
    };
    let from = part(parts.next())?;
    let single = !text.contains(':');
    let to = part(parts.next())?;
    let step = part(parts.next())?;
    if parts.next().is_some() {
        return None;
    }
    let to = if single { from.unwrap_or(0).checked_add(1) } else { to };
    Some(Slice { from, to, single, step })
}

/// After `[?(`: a path that must lead somewhere, or a comparison.
fn filter<'a>(text: &'a str, steps: &mut Vec<Step>) -> Option<&'a str> {
    let end = closing_bracket(text)?;
    let (inside, rest) = text.split_at_checked(end)?;
    let rest = rest.strip_prefix(")]")?;
    let is_operator = |c| matches!(c, '!' | '<' | '>' | '=');
    let comparison = inside.find(is_operator).filter(|&start| start > 0).and_then(|start| {
        let (left, after) = inside.split_at_checked(start)?;
        let (operator, right) = after.split_at(after.find(|c| !is_operator(c)).unwrap_or(after.len()));
        (!right.is_empty()).then_some((left, operator, right))
    });
    steps.push(match comparison {
        Some((left, operator, right)) => {
            Step::Filter { left: inner(left)?, comparison: Some((operator.to_owned(), inner(right)?)) }
        }
        None => Step::Filter { left: inner(inside)?, comparison: None },
    });
    Some(rest)
}

/// The position of the `)` that is not inside quotes.
fn closing_bracket(text: &str) -> Option<usize> {
    let mut index = 0;
    loop {
        let rest = text.get(index..)?;
        match rest.chars().next()? {
            ')' => return Some(index),
            '\n' => return None,
            '"' | '\'' => index += closing_quote(rest)? + 1,
            c => index += c.len_utf8(),
        }
    }
}
