//! Functions on text. Places are counted in characters.

use pillion_regexp::Regexp;

use super::{Call, Fault, Outcome, Run, format_string};
use crate::cel::shown::shown;
use crate::cel::value::{List, Value};

pub(super) fn implementation(name: &str) -> Option<Run> {
    Some(match name {
        "contains" => |call| on_texts(&call, |text, part| Value::Bool(text.contains(part))),
        "startsWith" => |call| on_texts(&call, |text, part| Value::Bool(text.starts_with(part))),
        "endsWith" => |call| on_texts(&call, |text, part| Value::Bool(text.ends_with(part))),
        "matches" => |call| with_regex(&call, |text, regex, _| Value::Bool(regex.is_match(text)), "matches"),
        "find" => |call| {
            with_regex(&call, |text, regex, _| Value::text(regex.find_iter(text).next().unwrap_or_default()), "find")
        },
        "findAll" => |call| with_regex(&call, find_all, "find"),
        "charAt" => char_at,
        "lowerAscii" => |call| on_text(&call, |text| Value::text(text.to_ascii_lowercase())),
        "upperAscii" => |call| on_text(&call, |text| Value::text(text.to_ascii_uppercase())),
        "trim" => |call| on_text(&call, |text| Value::text(text.trim())),
        "replace" => replace,
        "split" => split,
        "substring" => substring,
        "join" => join,
        "format" => format_string::run,
        "strings.quote" => |call| on_text(&call, |text| Value::text(format_string::quote(text))),
        _ => return None,
    })
}

fn on_text<'a>(call: &Call<'a>, run: fn(&str) -> Value<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::String(text)] => Ok(run(text)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn on_texts<'a>(call: &Call<'a>, run: fn(&str, &str) -> Value<'static>) -> Outcome<'a> {
    match call.args.as_slice() {
        [Value::String(text), Value::String(part)] => Ok(run(text, part)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn with_regex<'a>(call: &Call<'a>, run: fn(&str, &Regexp, i64) -> Value<'static>, function: &str) -> Outcome<'a> {
    let (text, pattern, limit) = match call.args.as_slice() {
        [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
        [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(Fault::no_such_overload()),
    };
    if let Some(regex) = call.regex {
        return Ok(run(text, regex, limit));
    }
    match Regexp::new(pattern) {
        Ok(regex) => Ok(run(text, &regex, limit)),
        Err(reason) if function == "matches" => Err(Fault::error(reason.to_string())),
        Err(reason) => Err(Fault::error(format!("Illegal regex: {reason}"))),
    }
}

fn find_all(text: &str, regex: &Regexp, limit: i64) -> Value<'static> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Value::list(regex.find_iter(text).take(limit).map(Value::text).collect())
}

fn out_of_range(index: i64) -> Fault {
    Fault::error(format!("index out of range: {index}"))
}

fn char_at(call: Call<'_>) -> Outcome<'_> {
    let [Value::String(text), Value::Int(index)] = call.args.as_slice() else { return Err(Fault::no_such_overload()) };
    let characters = text.chars().count();
    let place =
        usize::try_from(*index).ok().filter(|place| *place <= characters).ok_or_else(|| out_of_range(*index))?;
    Ok(Value::text(text.chars().nth(place).map(String::from).unwrap_or_default()))
}

/// The first place of `part` in `text`, from a place on.
pub(super) fn index_of(text: &str, part: &str, from: i64) -> Result<i64, Fault> {
    if part.is_empty() {
        return Ok(from);
    }
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if from < 0 {
        return Err(out_of_range(from));
    }
    if from >= length {
        return Ok(-1);
    }
    let start = byte_of(text, from).unwrap_or(text.len());
    let rest = text.get(start..).unwrap_or_default();
    Ok(rest.find(part).map_or(-1, |at| from + characters_before(rest, at)))
}

/// The last place of `part` in `text`, up to a place.
pub(super) fn last_index_of(text: &str, part: &str, to: Option<i64>) -> Result<i64, Fault> {
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if part.is_empty() {
        return Ok(to.unwrap_or(length));
    }
    if let Some(to) = to.filter(|to| *to < 0 || *to >= length) {
        return if to >= length { Ok(-1) } else { Err(out_of_range(to)) };
    }
    let part_length = i64::try_from(part.chars().count()).unwrap_or(i64::MAX);
    let end = to.map_or(text.len(), |to| byte_of(text, to.saturating_add(part_length)).unwrap_or(text.len()));
    let head = text.get(..end).unwrap_or(text);
    Ok(head.rfind(part).map_or(-1, |at| characters_before(text, at)))
}

/// Where the character of that place begins; `None` behind the last.
fn byte_of(text: &str, place: i64) -> Option<usize> {
    usize::try_from(place).ok().and_then(|place| text.char_indices().nth(place)).map(|(at, _)| at)
}

fn characters_before(text: &str, at: usize) -> i64 {
    i64::try_from(text.get(..at).unwrap_or_default().chars().count()).unwrap_or(i64::MAX)
}

fn replace(call: Call<'_>) -> Outcome<'_> {
    match call.args.as_slice() {
        [Value::String(text), Value::String(from), Value::String(to)] => Ok(Value::text(text.replace(&**from, to))),
        [Value::String(text), Value::String(from), Value::String(to), Value::Int(limit)] => {
            Ok(Value::text(match usize::try_from(*limit) {
                Ok(limit) => text.replacen(&**from, to, limit),
                Err(_) => text.replace(&**from, to),
            }))
        }
        _ => Err(Fault::no_such_overload()),
    }
}

fn split(call: Call<'_>) -> Outcome<'_> {
    let (text, separator, limit) = match call.args.as_slice() {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(Fault::no_such_overload()),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    if !separator.is_empty() {
        return Ok(Value::list(text.splitn(limit, &**separator).map(Value::text).collect()));
    }
    // Between all characters; the last part has what is left.
    let mut parts: Vec<Value<'_>> = Vec::new();
    let mut rest: &str = text;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(Value::text(rest));
            break;
        }
        parts.push(Value::text(c.to_string()));
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
    }
    Ok(Value::list(parts))
}

fn substring(call: Call<'_>) -> Outcome<'_> {
    let (text, start, end) = match call.args.as_slice() {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Fault::no_such_overload()),
    };
    let length = i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Fault::error(format!("invalid substring range. start: {start}, end: {end}")));
    }
    if !(0..=length).contains(&start) {
        return Err(out_of_range(start));
    }
    let end = end.unwrap_or(length);
    if !(0..=length).contains(&end) {
        return Err(out_of_range(end));
    }
    let (from, to) = (byte_of(text, start).unwrap_or(text.len()), byte_of(text, end).unwrap_or(text.len()));
    Ok(Value::text(text.get(from..to).unwrap_or_default()))
}

fn join(call: Call<'_>) -> Outcome<'_> {
    let (list, separator): (&List<'_>, &str) = match call.args.as_slice() {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, separator),
        _ => return Err(Fault::no_such_overload()),
    };
    let mut out = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            out.push_str(separator);
        }
        match item? {
            Value::String(text) => out.push_str(&text),
            other => return Err(Fault::error(format!("join: invalid input: {}", shown(&other)))),
        }
    }
    Ok(Value::text(out))
}
