//! Paths to fields that a `CustomResourceDefinition` names: where the error of a rule is, and what field selectors may select.

use pillion_rules::field::{Error, Path};
use serde_json::Value;

use crate::schema::{Schema, too_deep};

/// The most fields that field selectors may name.
const MAX_SELECTABLE: usize = 8;

/// The path that `.spec.name` or `.spec['a.b']` means, and the schema there.
///
/// # Errors
/// Why it is no path to a field of the schema.
pub(crate) fn read<'a>(text: &str, schema: &'a Schema, brackets: bool) -> Result<(Path, &'a Schema), String> {
    const END: &str = "unexpected end of JSON path";
    let mut path = Path::root();
    let mut at = schema;
    let mut tokens = tokens(text).into_iter();
    while let Some(token) = tokens.next() {
        let name = match token.as_str() {
            "." => tokens.next().ok_or(END)?,
            "[" if !brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let inside = quoted.strip_prefix('\'').and_then(|quoted| quoted.strip_suffix('\''));
                let Some(inside) = inside.filter(|_| quoted.len() >= 2) else {
                    return Err(format!("expected single quoted string but got {quoted}"));
                };
                let name = unescape(inside).map_err(|reason| format!("invalid string literal: {reason}"))?;
                match tokens.next() {
                    None => return Err(END.to_owned()),
                    Some(close) if close != "]" => return Err(format!("expected ] but got {close}")),
                    Some(_) => name,
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        if !at.properties.is_empty() {
            at = at.properties.get(&name).ok_or("does not refer to a valid field")?;
            path = path.child(name);
        } else if let Some(additional) = at.additional_schema() {
            at = additional;
            path = path.key(name);
        } else {
            return Err("does not refer to a valid field".to_owned());
        }
    }
    Ok((path, at))
}

/// Dots, brackets, quoted text, and what is between.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut current = String::new();
    let mut quoted = false;
    let mut previous = ' ';
    for c in text.chars() {
        if quoted {
            current.push(c);
            if c == '\'' && previous != '\\' {
                quoted = false;
                tokens.push(std::mem::take(&mut current));
            }
        } else if matches!(c, '.' | '[' | ']') {
            tokens.extend((!current.is_empty()).then(|| std::mem::take(&mut current)));
            tokens.push(c.to_string());
        } else {
            quoted = c == '\'' && current.is_empty();
            current.push(c);
        }
        previous = c;
    }
    tokens.extend((!current.is_empty()).then_some(current));
    tokens
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        out.push(match characters.next() {
            Some('a') => '\u{7}',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\u{b}',
            Some('\'') => '\'',
            Some('\\') => '\\',
            other => return Err(format!("invalid escape char \\{}", other.map(String::from).unwrap_or_default())),
        });
    }
    Ok(out)
}

/// Checks `selectableFields` of a version against its `openAPIV3Schema`. `path` is that of the list.
pub fn validate_selectable_fields(fields: &Value, schema: &Value, path: &Path) -> Vec<Error> {
    let Some(schema) = Schema::read(schema) else { return vec![too_deep(path)] };
    let mut errors = Vec::new();
    let mut seen: Vec<String> = Vec::new();
    for (index, field) in fields.as_array().into_iter().flatten().enumerate() {
        let path = path.index(index).child("jsonPath");
        let written = field["jsonPath"].as_str().unwrap_or_default();
        if written.is_empty() {
            errors.push(Error::required(&path, ""));
            continue;
        }
        let (found, schema) = match read(written, &schema, false) {
            Ok(found) => found,
            Err(reason) => {
                errors.push(Error::invalid(&path, written, format!("is an invalid path: {reason}")));
                continue;
            }
        };
        let found = found.to_string();
        if found == "metadata" || found.starts_with("metadata.") {
            errors.push(Error::invalid(&path, written, "must not point to fields in metadata"));
        }
        if !matches!(schema.kind.as_str(), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(Error::invalid(&path, written, detail));
        }
        if seen.contains(&found) {
            errors.push(Error::duplicate(&path, written));
        } else {
            seen.push(found);
        }
    }
    if seen.len() > MAX_SELECTABLE {
        errors.push(Error::too_many(path, seen.len(), MAX_SELECTABLE));
    }
    errors
}
