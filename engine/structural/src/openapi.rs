//! Checks a value against a schema, keyword by keyword, in the order and the words of the API server.
//!
//! `anyOf` and `oneOf` report the branch that came closest, so every check counts its successes as the API server does.

mod number;
mod outcome;

use std::collections::HashSet;

use outcome::{At, Failure, Kind, Outcome};
use pillion_rules::field;
use serde_json::{Map, Value};

use crate::ratchet::Correlated;
use crate::schema::{Additional, Schema};

/// Checks `new`. With `old`, what is wrong and was so before is let pass. Errors are below `base`.
pub(crate) fn validate(
    schema: &Schema,
    new: &Value,
    old: Option<&Value>,
    base: Option<&field::Path>,
) -> Vec<field::Error> {
    let outcome = match old {
        Some(old) => ratcheted(schema, new, &At::root(), Correlated { schema, new, old }),
        None => node(schema, new, &At::root(), None),
    };
    outcome.failures.into_iter().map(|failure| failure.into_error(base)).collect()
}

/// What was wrong before and has not changed is not held against an update.
fn ratcheted(schema: &Schema, value: &Value, at: &At<'_>, link: Correlated<'_>) -> Outcome {
    let mut outcome = node(schema, value, at, Some(link));
    if !outcome.failures.is_empty() && link.unchanged() {
        outcome.failures.clear();
    }
    outcome
}

/// A child: ratcheted where the old object has it too.
fn child(schema: &Schema, value: &Value, at: &At<'_>, link: Option<Correlated<'_>>) -> Outcome {
    match link {
        Some(link) => ratcheted(schema, value, at, link),
        None => node(schema, value, at, None),
    }
}

fn node(schema: &Schema, value: &Value, at: &At<'_>, link: Option<Correlated<'_>>) -> Outcome {
    let mut result = Outcome::default();
    if value.is_null() {
        result.merge(check_null(schema, at));
        result.merge(check_enum(schema, value, at));
        return result;
    }
    let has_type = !schema.types().is_empty() || schema.format.is_some();
    if has_type {
        result.merge_counted(check_type(schema, value, at));
    }
    result.merge_counted(check_branches(schema, value, at, link));
    match value {
        Value::String(text) => {
            result.merge_counted(check_text(schema, text, at));
            if let Some(format) = schema.format {
                let failure = (!format.matches(text)).then(|| Failure::wrong_type(at, &schema.format_name, text));
                result.merge_counted(Outcome::of(failure));
            }
        }
        Value::Number(number) => result.merge_counted(number::check(schema, number, at)),
        Value::Array(items) => result.merge_counted(check_items(schema, items, at, link)),
        _ => {}
    }
    result.merge_counted(check_enum(schema, value, at));
    if let Value::Object(entries) = value {
        result.merge_counted(check_entries(schema, entries, at, link));
    }
    result.count();
    result
}

fn check_null(schema: &Schema, at: &At<'_>) -> Outcome {
    let types = schema.types();
    if types.is_empty() || schema.nullable {
        return Outcome::counted(1);
    }
    Outcome::of(Some(Failure::wrong_type(at, &types.join(","), "null")))
}

fn check_type(schema: &Schema, value: &Value, at: &At<'_>) -> Outcome {
    let types = schema.types();
    let has = |name: &str| types.contains(&name);
    let (found, found_format) = match value {
        Value::Bool(_) => ("boolean", ""),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Number(number) if number::is_integer(number) => ("integer", "int64"),
        Value::Number(_) => ("number", "float64"),
        Value::Object(_) | Value::Null => ("object", ""),
    };
    let fits = has(found)
        || found == "integer" && has("number")
        || found == "number" && has("integer") && value.as_f64().is_some_and(number::is_json_integer);
    let is_text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    if schema.format.is_some() && !is_text_or_list && !fits && found_format != schema.format_name {
        return Outcome::of(Some(Failure::wrong_type(at, &schema.format_name, found_format)));
    }
    if schema.format.is_some() && is_text_or_list && !has("number") && !has("integer") {
        return Outcome::counted(1);
    }
    if fits { Outcome::counted(1) } else { Outcome::of(Some(Failure::wrong_type(at, &types.join(","), found))) }
}

/// `anyOf`, `oneOf`, `allOf` and `not`.
fn check_branches(schema: &Schema, value: &Value, at: &At<'_>, link: Option<Correlated<'_>>) -> Outcome {
    let mut result = Outcome::default();
    if !schema.any_of.is_empty() {
        check_any_of(schema, value, at, link, &mut result);
    }
    if !schema.one_of.is_empty() {
        check_one_of(schema, value, at, link, &mut result);
    }
    if !schema.all_of.is_empty() {
        let mut valid = 0;
        for branch in &schema.all_of {
            let outcome = node(branch, value, at, link);
            valid += usize::from(outcome.failures.is_empty());
            result.merge(outcome);
        }
        if valid != schema.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            result.fail(Failure::composite(at, &format!("must validate all the schemas (allOf){none}")));
        }
    }
    if let Some(not) = &schema.not
        && node(not, value, at, link).failures.is_empty()
    {
        result.fail(Failure::composite(at, "must not validate the schema (not)"));
    }
    result.count();
    result
}

fn check_any_of(schema: &Schema, value: &Value, at: &At<'_>, link: Option<Correlated<'_>>, result: &mut Outcome) {
    let mut best: Option<Outcome> = None;
    for branch in &schema.any_of {
        let outcome = node(branch, value, at, link);
        if outcome.failures.is_empty() {
            result.merge(outcome);
            return;
        }
        if best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            best = Some(outcome);
        }
    }
    result.fail(Failure::composite(at, "must validate at least one schema (anyOf)"));
    result.merge(best.unwrap_or_default());
}

fn check_one_of(schema: &Schema, value: &Value, at: &At<'_>, link: Option<Correlated<'_>>, result: &mut Outcome) {
    let mut best: Option<Outcome> = None;
    let mut first_valid = None;
    let mut valid = 0;
    for branch in &schema.one_of {
        let outcome = node(branch, value, at, link);
        if outcome.failures.is_empty() {
            valid += 1;
            best = None;
            first_valid.get_or_insert(outcome);
        } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
            best = Some(outcome);
        }
    }
    if valid == 1 {
        result.merge(first_valid.unwrap_or_default());
        return;
    }
    let found = if valid == 0 { "Found none valid".to_owned() } else { format!("Found {valid} valid alternatives") };
    result.fail(Failure::composite(at, &format!("must validate one and only one schema (oneOf). {found}")));
    result.merge(best.unwrap_or_default());
}

fn check_text(schema: &Schema, text: &str, at: &At<'_>) -> Outcome {
    let fits =
        |limit: i64, too: fn(i64, i64) -> bool| !too(i64::try_from(text.chars().count()).unwrap_or(i64::MAX), limit);
    let failure = if let Some(most) = schema.max_length.filter(|most| !fits(*most, |length, most| length > most)) {
        Some(Failure::new(at, Kind::TooLong(most), &format!("should be at most {most} chars long")))
    } else if let Some(least) = schema.min_length.filter(|least| !fits(*least, |length, least| length < least)) {
        Some(Failure::new(at, Kind::Invalid(text.into()), &format!("should be at least {least} chars long")))
    } else if let Some(pattern) = &schema.pattern {
        let source = &pattern.source;
        match &pattern.regex {
            Ok(regex) if regex.is_match(text) => None,
            Ok(_) => Some(Failure::new(at, Kind::Invalid(text.into()), &format!("should match '{source}'"))),
            Err(reason) => {
                let message = format!("should match '{source}, but pattern is invalid: {reason}'");
                Some(Failure::new(at, Kind::Invalid(text.into()), &message))
            }
        }
    } else {
        None
    };
    Outcome::of(failure)
}

fn check_items(schema: &Schema, items: &[Value], at: &At<'_>, link: Option<Correlated<'_>>) -> Outcome {
    let mut result = Outcome::default();
    if let Some(item_schema) = &schema.items {
        let links = link.and_then(Correlated::items);
        for (index, item) in items.iter().enumerate() {
            let link = links.as_ref().and_then(|links| links.get(item));
            result.merge(child(item_schema, item, &at.index(index), link));
        }
    }
    let size = i64::try_from(items.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.min_items.filter(|least| size < *least) {
        result.fail(Failure::new(at, Kind::Invalid(size.into()), &format!("should have at least {least} items")));
    }
    if let Some(most) = schema.max_items.filter(|most| size > *most) {
        result.fail(Failure::new(at, Kind::TooMany(size, most), &format!("should have at most {most} items")));
    }
    if schema.unique_items && items.iter().collect::<HashSet<_>>().len() < items.len() {
        result.fail(Failure::new(at, Kind::Invalid("".into()), "shouldn't contain duplicates"));
    }
    result.count();
    result
}

fn check_enum(schema: &Schema, value: &Value, at: &At<'_>) -> Outcome {
    let is = |allowed: &Value| match (value, allowed) {
        // The API server converts the value to the type of the allowed one.
        (Value::Number(number), Value::Number(allowed)) => number::converts_to(number, allowed),
        _ => !value.is_null() && value == allowed,
    };
    if schema.enumeration.is_empty() || schema.enumeration.iter().any(is) {
        return Outcome::default();
    }
    let kind = Kind::Enum(value.clone(), schema.enumeration.clone());
    let allowed = Value::from(schema.enumeration.clone());
    Outcome::of(Some(Failure::new(at, kind, &format!("should be one of {allowed}"))))
}

fn check_entries(schema: &Schema, entries: &Map<String, Value>, at: &At<'_>, link: Option<Correlated<'_>>) -> Outcome {
    let mut result = Outcome::default();
    let size = i64::try_from(entries.len()).unwrap_or(i64::MAX);
    if let Some(least) = schema.min_properties.filter(|least| size < *least) {
        result.fail(Failure::new(at, Kind::Invalid(size.into()), &format!("should have at least {least} properties")));
    }
    if let Some(most) = schema.max_properties.filter(|most| size > *most) {
        result.fail(Failure::new(at, Kind::TooMany(size, most), &format!("should have at most {most} properties")));
    }
    for (key, value) in entries.iter().filter(|(key, _)| !schema.properties.contains_key(*key)) {
        match &schema.additional_properties {
            Some(Additional::Schema(additional)) => {
                result.merge(child(additional, value, &at.entry(key), link.and_then(|link| link.key(key))));
            }
            Some(Additional::Allowed(false)) => result.fail(Failure::forbidden_property(at, key)),
            _ => {}
        }
    }
    for (name, property) in &schema.properties {
        let Some(value) = entries.get(name) else { continue };
        // Both objects were brought to the version that is asked for, so a wrong one cannot be told from a changed one.
        let is_type_meta = at.is_root() && matches!(name.as_str(), "kind" | "apiVersion");
        let link = link.filter(|_| !is_type_meta).and_then(|link| link.key(name));
        result.merge(child(property, value, &at.field(name), link));
    }
    for name in schema.required.iter().filter(|name| !entries.contains_key(*name)) {
        result.fail(Failure::new(&at.entry(name), Kind::Required, "is required"));
    }
    result
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn errors(schema: Value, value: Value) -> Vec<String> {
        let schema = Schema::read(&schema).unwrap();
        validate(&schema, &value, None, None).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn of_branches_that_are_equally_close_the_first_is_reported() {
        let schema = json!({"type": "object", "oneOf": [
            {"properties": {"kind": {"enum": ["a"]}}, "required": ["a"]},
            {"properties": {"kind": {"enum": ["b"]}}, "required": ["b"]},
        ]});
        assert_eq!(
            errors(schema, json!({"kind": "b"})),
            [
                r#"<nil>: Invalid value: "": "" must validate one and only one schema (oneOf). Found none valid"#,
                r#"kind: Unsupported value: "b": supported values: "a""#,
                "a: Required value"
            ]
        );
    }

    #[test]
    fn errors_at_the_root_have_an_empty_name() {
        assert_eq!(
            errors(json!({"type": "object"}), json!(1)),
            [r#"<nil>: Invalid value: "integer":  in body must be of type object: "integer""#]
        );
        assert_eq!(errors(json!({"required": ["spec"]}), json!({})), ["spec: Required value"]);
    }
}
