//! Errors about a field of an object, in the words of the Kubernetes API server.
//!
//! ```
//! use pillion_rules::field::{Error, Path};
//! let image = Path::new("spec").child("containers").index(0).child("image");
//! assert_eq!(Error::required(&image, "").to_string(), "spec.containers[0].image: Required value");
//! ```

use std::fmt;

use serde_json::Value;

/// What is said of a field that an update may not change.
pub const IMMUTABLE: &str = "field is immutable";

/// Where in an object: `spec.containers[0].image`, `metadata.labels[app]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    segments: Vec<Segment>,
}

/// One step of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Segment {
    /// A named field.
    Field(String),
    /// A place in a list.
    Index(usize),
    /// A key of a map.
    Key(String),
}

impl Path {
    /// A path of one field.
    pub fn new(name: impl Into<String>) -> Path {
        Path { segments: vec![Segment::Field(name.into())] }
    }

    /// The object itself.
    pub fn root() -> Path {
        Path::default()
    }

    /// The field `name` below this path.
    #[must_use]
    pub fn child(&self, name: impl Into<String>) -> Path {
        self.with(Segment::Field(name.into()))
    }

    /// The element `index` of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Path {
        self.with(Segment::Index(index))
    }

    /// The entry `key` of the map at this path.
    #[must_use]
    pub fn key(&self, key: impl Into<String>) -> Path {
        self.with(Segment::Key(key.into()))
    }

    /// The steps from the root.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn with(&self, segment: Segment) -> Path {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.extend_from_slice(&self.segments);
        segments.push(segment);
        Path { segments }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, segment) in self.segments.iter().enumerate() {
            match segment {
                Segment::Field(name) if i == 0 => write!(f, "{name}")?,
                Segment::Field(name) => write!(f, ".{name}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
                Segment::Key(key) => write!(f, "[{key}]")?,
            }
        }
        Ok(())
    }
}

/// What kind of mistake; each has the API server's own phrase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// A value is needed and missing.
    Required,
    /// The value (shown) is malformed.
    Invalid(Box<Value>),
    /// The value (not shown: it is large, or says nothing) is malformed.
    Malformed,
    /// The value (shown) is not one of the listed ones.
    NotSupported(Box<Value>, Vec<String>),
    /// The value (shown) is there twice.
    Duplicate(Box<Value>),
    /// The value may not be set here.
    Forbidden,
    /// The value (shown) names something that is not there.
    NotFound(Box<Value>),
    /// The value is longer than this many bytes.
    TooLong(usize),
    /// The list has so many items (first), and may have only so many (second).
    TooMany(usize, usize),
    /// Something else than the value went wrong.
    Internal,
    /// The value has the wrong JSON type.
    TypeInvalid(Box<Value>),
}

impl ErrorKind {
    /// The word for machines, in the causes of a `Status`.
    pub fn reason(&self) -> &'static str {
        match self {
            ErrorKind::Required => "FieldValueRequired",
            ErrorKind::Invalid(_) | ErrorKind::Malformed => "FieldValueInvalid",
            ErrorKind::NotSupported(..) => "FieldValueNotSupported",
            ErrorKind::Duplicate(_) => "FieldValueDuplicate",
            ErrorKind::Forbidden => "FieldValueForbidden",
            ErrorKind::NotFound(_) => "FieldValueNotFound",
            ErrorKind::TooLong(_) => "FieldValueTooLong",
            ErrorKind::TooMany(..) => "FieldValueTooMany",
            ErrorKind::Internal => "InternalError",
            ErrorKind::TypeInvalid(_) => "FieldValueTypeInvalid",
        }
    }
}

/// One mistake, at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Where.
    pub path: Path,
    /// What sort.
    pub kind: ErrorKind,
    /// Why, and how to fix it. May be empty.
    pub detail: String,
}

impl Error {
    /// A needed value is missing.
    pub fn required(path: &Path, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Required, detail: detail.into() }
    }

    /// A value is malformed.
    pub fn invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Invalid(Box::new(value.into())), detail: detail.into() }
    }

    /// A value is malformed, and is not shown.
    pub fn malformed(path: &Path, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Malformed, detail: detail.into() }
    }

    /// A value is not one of `supported`.
    pub fn not_supported<S: AsRef<str>>(path: &Path, value: impl Into<Value>, supported: &[S]) -> Error {
        let supported = supported.iter().map(|s| s.as_ref().to_owned()).collect();
        Error {
            path: path.clone(),
            kind: ErrorKind::NotSupported(Box::new(value.into()), supported),
            detail: String::new(),
        }
    }

    /// A value is there twice.
    pub fn duplicate(path: &Path, value: impl Into<Value>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Duplicate(Box::new(value.into())), detail: String::new() }
    }

    /// A value may not be set here.
    pub fn forbidden(path: &Path, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Forbidden, detail: detail.into() }
    }

    /// A value names something that is not there.
    pub fn not_found(path: &Path, value: impl Into<Value>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::NotFound(Box::new(value.into())), detail: String::new() }
    }

    /// A value is too long.
    pub fn too_long(path: &Path, limit: usize) -> Error {
        Error { path: path.clone(), kind: ErrorKind::TooLong(limit), detail: String::new() }
    }

    /// A list has more than `limit` items.
    pub fn too_many(path: &Path, items: usize, limit: usize) -> Error {
        Error { path: path.clone(), kind: ErrorKind::TooMany(items, limit), detail: String::new() }
    }

    /// Something else than the value went wrong.
    pub fn internal(path: &Path, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::Internal, detail: detail.into() }
    }

    /// A value has the wrong JSON type.
    pub fn type_invalid(path: &Path, value: impl Into<Value>, detail: impl Into<String>) -> Error {
        Error { path: path.clone(), kind: ErrorKind::TypeInvalid(Box::new(value.into())), detail: detail.into() }
    }

    /// The message without the path.
    pub fn message(&self) -> String {
        let head = match &self.kind {
            ErrorKind::Required => "Required value".to_owned(),
            // The API server has no word of its own for a wrong type.
            ErrorKind::Invalid(value) | ErrorKind::TypeInvalid(value) => format!("Invalid value: {}", shown(value)),
            ErrorKind::Malformed => "Invalid value".to_owned(),
            // The value is of a type of its own here, and Go only quotes plain text itself.
            ErrorKind::NotSupported(value, supported) if supported.is_empty() => {
                format!("Unsupported value: {}", json(value))
            }
            ErrorKind::NotSupported(value, supported) => {
                let listed: Vec<String> = supported.iter().map(|s| quoted(s)).collect();
                format!("Unsupported value: {}: supported values: {}", json(value), listed.join(", "))
            }
            ErrorKind::Duplicate(value) => format!("Duplicate value: {}", shown(value)),
            ErrorKind::Forbidden => "Forbidden".to_owned(),
            ErrorKind::NotFound(value) => format!("Not found: {}", shown(value)),
            ErrorKind::TooLong(limit) => {
                format!("Too long: may not be more than {limit} {}", if *limit == 1 { "byte" } else { "bytes" })
            }
            ErrorKind::TooMany(items, limit) => {
                let unit = if *limit == 1 { "item" } else { "items" };
                format!("Too many: {items}: must have at most {limit} {unit}")
            }
            ErrorKind::Internal => "Internal error".to_owned(),
        };
        if self.detail.is_empty() { head } else { format!("{head}: {}", self.detail) }
    }
}

/// A value as the API server shows it: text quoted as Go quotes it, the rest as Go writes JSON.
fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        _ => json(value),
    }
}

/// A value as Go writes JSON: what HTML would read as markup is escaped.
fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Text in quotes, as Go's `%q` writes it.
pub fn quoted(text: &str) -> String {
    use fmt::Write;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            // Writing to a String cannot fail.
            c if c.is_ascii_control() => drop(write!(out, "\\x{:02x}", u32::from(c))),
            c if c.is_control() => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.segments.is_empty() {
            write!(f, "{}", self.message())
        } else {
            write!(f, "{}: {}", self.path, self.message())
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_read_as_the_api_server_writes_them() {
        let path = Path::new("spec").child("updateStrategy").child("type");
        assert_eq!(
            Error::not_supported(&path, "Rolling", &["RollingUpdate", "NotUpdate"]).to_string(),
            r#"spec.updateStrategy.type: Unsupported value: "Rolling": supported values: "RollingUpdate", "NotUpdate""#
        );
        assert_eq!(
            Error::invalid(&Path::new("metadata").child("labels").key("app"), "a b", "must be a label").to_string(),
            r#"metadata.labels[app]: Invalid value: "a b": must be a label"#
        );
        assert_eq!(Error::forbidden(&Path::root(), "no").to_string(), "Forbidden: no");
        let items = Path::new("items");
        assert_eq!(Error::too_many(&items, 3, 1).to_string(), "items: Too many: 3: must have at most 1 item");
        assert_eq!(Error::too_long(&items, 1).to_string(), "items: Too long: may not be more than 1 byte");
        assert_eq!(Error::internal(&items, "no name").to_string(), "items: Internal error: no name");
    }

    #[test]
    fn values_are_shown_as_go_shows_them() {
        let shown = |value: Value| Error::invalid(&Path::new("a"), value, "").message();
        assert_eq!(shown("q\"\u{1}\u{85}é<".into()), r#"Invalid value: "q\"\x01\u0085é<""#);
        assert_eq!(shown(serde_json::json!({"a": "<b>&"})), r#"Invalid value: {"a":"\u003cb\u003e\u0026"}"#);
        assert_eq!(shown(Value::Null), "Invalid value: null");
        let unsupported = Error::not_supported(&Path::new("a"), "<", &["b"]);
        assert_eq!(unsupported.message(), r#"Unsupported value: "\u003c": supported values: "b""#);
    }
}
