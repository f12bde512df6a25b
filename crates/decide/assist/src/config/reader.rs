//! Reads fields of a document and collects what is wrong with them, each with its place.

use std::cell::RefCell;

use pillion_yaml::{Document, Mistake, Position, Step, describe};
use serde_json::Value;

use super::expand::Fields;

/// A document that is being read.
pub(super) struct Reader<'a> {
    document: &'a Document,
    fields: Option<&'a Fields>,
    mistakes: RefCell<Vec<Mistake>>,
    warnings: RefCell<Vec<String>>,
}

/// A value of the document, and the way to it.
#[derive(Clone)]
pub(super) struct Field<'a> {
    reader: &'a Reader<'a>,
    value: &'a Value,
    path: Vec<Step<'a>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(document: &'a Document, fields: Option<&'a Fields>) -> Reader<'a> {
        Reader { document, fields, mistakes: RefCell::default(), warnings: RefCell::default() }
    }

    pub(super) fn root(&'a self) -> Field<'a> {
        Field { reader: self, value: &self.document.value, path: Vec::new() }
    }

    pub(super) fn finish(self) -> (Vec<Mistake>, Vec<String>) {
        (self.mistakes.into_inner(), self.warnings.into_inner())
    }
}

impl<'a> Field<'a> {
    pub(super) fn position(&self) -> Position {
        self.reader.document.position(self.path.iter().copied())
    }

    pub(super) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns what `${SELF:NAME}` stands for, or the variable itself if that is not known.
    pub(super) fn variable(&self, name: &str) -> String {
        let known = self.reader.fields.and_then(|fields| fields.get(name));
        known.cloned().unwrap_or_else(|| format!("${{SELF:{name}}}"))
    }

    /// Reports a mistake at this place.
    pub(super) fn wrong(&self, message: impl Into<String>) {
        self.reader.mistakes.borrow_mut().push(Mistake::new(self.position(), message.into()));
    }

    /// Reports something that is ignored or dangerous.
    pub(super) fn warn(&self, message: impl AsRef<str>) {
        self.reader.warnings.borrow_mut().push(format!("{}: {}", self.position(), message.as_ref()));
    }

    /// The first of these keys that is set. Keys are compared without case, as Go's JSON decoder does.
    pub(super) fn get(&self, names: &[&str]) -> Option<Field<'a>> {
        let object = self.value.as_object()?;
        let wanted = |key: &&String| names.iter().any(|name| name.eq_ignore_ascii_case(key));
        let key = object.keys().find(wanted)?;
        let value = object.get(key).filter(|value| !value.is_null())?;
        let mut path = self.path.clone();
        path.push(Step::Key(key));
        Some(Field { reader: self.reader, value, path })
    }

    /// Warns of keys that are not among these, and of a list or a scalar where a mapping belongs.
    pub(super) fn mapping(&self, known: &[&str]) -> bool {
        let Some(object) = self.value.as_object() else {
            self.wrong(format!("this is {}, and must be a mapping", describe(self.value)));
            return false;
        };
        for key in object.keys().filter(|key| !known.iter().any(|name| name.eq_ignore_ascii_case(key))) {
            let mut path = self.path.clone();
            path.push(Step::Key(key));
            let field = Field { reader: self.reader, value: &object[key], path };
            field.warn(format!("the key {key:?} is not known here and is ignored; known are {}", known.join(", ")));
        }
        true
    }

    /// The elements of a list.
    pub(super) fn items(&self) -> Vec<Field<'a>> {
        let Some(items) = self.value.as_array() else {
            self.wrong(format!("this is {}, and must be a list", describe(self.value)));
            return Vec::new();
        };
        let field = |(index, value)| {
            let mut path = self.path.clone();
            path.push(Step::Index(index));
            Field { reader: self.reader, value, path }
        };
        items.iter().enumerate().map(field).collect()
    }

    /// The values of a mapping with any keys.
    pub(super) fn entries(&self) -> Vec<(&'a str, Field<'a>)> {
        let Some(object) = self.value.as_object() else {
            self.wrong(format!("this is {}, and must be a mapping", describe(self.value)));
            return Vec::new();
        };
        let field = |(key, value): (&'a String, &'a Value)| {
            let mut path = self.path.clone();
            path.push(Step::Key(key));
            (key.as_str(), Field { reader: self.reader, value, path })
        };
        object.iter().map(field).collect()
    }

    /// A string. Numbers and booleans without quotes are taken as they are written.
    pub(super) fn text(&self) -> String {
        match self.value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(value) => value.to_string(),
            other => {
                self.wrong(format!("this is {}, and must be a string", describe(other)));
                String::new()
            }
        }
    }

    /// A string that is not empty.
    pub(super) fn word(&self) -> String {
        let text = self.text();
        if text.is_empty() && self.value.is_string() {
            self.wrong("this is empty; set it, or remove the key");
        }
        text
    }

    /// A whole number from `least` to `most`, also as text.
    pub(super) fn number(&self, least: u64, most: u64) -> u64 {
        let number = match self.value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        match number {
            Some(number) if (least..=most).contains(&number) => number,
            _ => {
                self.wrong(format!("this must be a whole number from {least} to {most}"));
                least
            }
        }
    }

    /// The mode of a file, as Kubernetes has it: octal as text, and the bits themselves as a number, which `0644` without quotes is in YAML.
    pub(super) fn mode(&self) -> u32 {
        let mode = match self.value {
            Value::Number(bits) => bits.as_u64().and_then(|bits| u32::try_from(bits).ok()),
            Value::String(text) => u32::from_str_radix(text, 8).ok(),
            _ => None,
        };
        mode.filter(|bits| *bits <= 0o777).unwrap_or_else(|| {
            self.wrong("this must be an octal mode, such as \"0644\"");
            0o644
        })
    }

    pub(super) fn flag(&self) -> bool {
        match self.value {
            Value::Bool(value) => *value,
            Value::String(text) if text == "true" => true,
            Value::String(text) if text == "false" => false,
            _ => {
                self.wrong("this must be true or false");
                false
            }
        }
    }

    /// One of a few words, compared without case.
    pub(super) fn one_of<T: Copy>(&self, table: &[(&str, T)]) -> Option<T> {
        let text = self.text();
        let found = table.iter().find(|(name, _)| name.eq_ignore_ascii_case(&text)).map(|(_, value)| *value);
        if found.is_none() {
            let names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            self.wrong(format!("{text:?} is not one of {}", names.join(", ")));
        }
        found
    }

    /// A list of strings, or one string.
    pub(super) fn words(&self) -> Vec<String> {
        if self.value.is_string() { vec![self.word()] } else { self.items().iter().map(Field::word).collect() }
    }
}
