//! `jsonPathConfig`: which part of a body is the state.

use pillion_jsonpath::JsonPath;
use serde_json::Value;

use super::reader::Field;

/// A way into a JSON body: a `JSONPath` (`{.a.b}`, `.a.b`, `$.a.b`), a JSON Pointer (`/a/b`), or the dotted path of the Go agent (`a.b.0`).
#[derive(Clone, Debug, PartialEq)]
pub struct Extract {
    text: String,
    way: Way,
}

#[derive(Clone, Debug, PartialEq)]
enum Way {
    Path(JsonPath),
    Pointer(String),
    Dotted(Vec<String>),
}

impl Extract {
    pub(super) fn read(field: &Field<'_>) -> Option<Extract> {
        if !field.mapping(&["jsonPath", "fieldType", "value"]) {
            return None;
        }
        let Some(path) = field.get(&["jsonPath"]) else {
            field.wrong("this needs a `jsonPath`");
            return None;
        };
        Extract::parse(&path.word()).map_err(|problem| path.wrong(problem)).ok()
    }

    /// Reads a path.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Extract, String> {
        let way = if text.starts_with('/') {
            Way::Pointer(text.to_owned())
        } else if text.starts_with(['.', '$', '{', '[']) {
            let inner = text.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')).unwrap_or(text);
            Way::Path(JsonPath::parse(inner).map_err(|error| error.to_string())?)
        } else if text.contains(['#', '*', '?', '|', '@']) {
            return Err(format!(
                "{text:?}: queries and modifiers of GJSON are not supported; write a JSONPath, such as {{.items[0].state}}"
            ));
        } else {
            Way::Dotted(dotted(text))
        };
        Ok(Extract { text: text.to_owned(), way })
    }

    /// The part of a body as text: strings without quotes, everything else as JSON.
    ///
    /// # Errors
    /// The body is not JSON, or has no such part.
    pub fn of(&self, body: &str) -> Result<String, String> {
        let value: Value = serde_json::from_str(body).map_err(|error| format!("the answer is not JSON: {error}"))?;
        let found = match &self.way {
            Way::Pointer(pointer) => value.pointer(pointer).cloned(),
            Way::Dotted(names) => names.iter().try_fold(&value, |value, name| step(value, name)).cloned(),
            Way::Path(path) => {
                let found = path.find(&value).map_err(|error| error.to_string())?;
                found.into_iter().next().map(std::borrow::Cow::into_owned)
            }
        };
        match found {
            None => Err(format!("the answer has nothing at {}", self.text)),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Ok(other.to_string()),
        }
    }
}

fn step<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Array(items) => items.get(name.parse::<usize>().ok()?),
        other => other.get(name),
    }
}

/// `a.b\.c` is `a` and `b.c`.
fn dotted(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        match (c, names.last_mut()) {
            ('.', _) => names.push(String::new()),
            ('\\', Some(name)) => name.extend(characters.next()),
            (c, Some(name)) => name.push(c),
            (_, None) => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_body_is_found_in_every_dialect() {
        let body = r#"{"state": "idle", "players": 3, "room": {"free": true, "a.b": null}, "list": [{"x": 1}]}"#;
        let table = [
            ("state", Ok("idle")),
            ("{.state}", Ok("idle")),
            (".players", Ok("3")),
            ("$.room.free", Ok("true")),
            ("/room/free", Ok("true")),
            (r"room.a\.b", Ok("null")),
            ("list.0.x", Ok("1")),
            ("{.list[0].x}", Ok("1")),
            ("room.none", Err(())),
            ("list.7", Err(())),
        ];
        for (path, expected) in table {
            assert_eq!(
                Extract::parse(path).unwrap().of(body).map_err(drop).as_deref(),
                expected.as_ref().copied(),
                "{path}"
            );
        }
        assert!(Extract::parse("list.#.x").is_err());
        assert!(Extract::parse(".a[").is_err());
        assert_eq!(
            Extract::parse("a").unwrap().of("<html>").map_err(|error| error.starts_with("the answer is not JSON")),
            Err(true)
        );
    }
}
