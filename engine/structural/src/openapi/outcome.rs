//! What a check found, and how the API server words it.

use std::fmt::Write;

use pillion_rules::field;
use serde_json::Value;

/// Failures, and how many checks succeeded.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) failures: Vec<Failure>,
    pub(super) matches: usize,
}

impl Outcome {
    pub(super) fn counted(matches: usize) -> Outcome {
        Outcome { failures: Vec::new(), matches }
    }

    pub(super) fn of(failure: Option<Failure>) -> Outcome {
        Outcome { failures: failure.into_iter().collect(), matches: 0 }
    }

    pub(super) fn count(&mut self) {
        self.matches += 1;
    }

    /// Adds a failure, unless one of the same words is there.
    pub(super) fn fail(&mut self, failure: Failure) {
        if !self.failures.iter().any(|known| known.message == failure.message) {
            self.failures.push(failure);
        }
    }

    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches += other.matches;
        for failure in other.failures {
            self.fail(failure);
        }
    }

    /// Merges the outcome of a check that applied, which counts even if it failed.
    pub(super) fn merge_counted(&mut self, other: Outcome) {
        self.merge(other);
        self.count();
    }
}

/// Where a check is, written out only when something is wrong.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    /// An entry of a map, which has its dot even at the root.
    Entry(&'a str),
    Index(usize),
}

impl<'a> At<'a> {
    pub(super) fn root() -> At<'static> {
        At { parent: None, step: Step::Root }
    }

    pub(super) fn field<'b>(&'b self, name: &'b str) -> At<'b> {
        At { parent: Some(self), step: Step::Field(name) }
    }

    pub(super) fn entry<'b>(&'b self, key: &'b str) -> At<'b> {
        At { parent: Some(self), step: Step::Entry(key) }
    }

    pub(super) fn index(&'a self, index: usize) -> At<'a> {
        At { parent: Some(self), step: Step::Index(index) }
    }

    pub(super) fn is_root(&self) -> bool {
        matches!(self.step, Step::Root)
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        match self.step {
            Step::Root => {}
            Step::Field(name) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(name);
            }
            Step::Entry(key) => {
                out.push('.');
                out.push_str(key);
            }
            // Writing to a String cannot fail.
            Step::Index(index) => drop(write!(out, "[{index}]")),
        }
    }

    fn name(&self) -> String {
        let mut name = String::new();
        self.write(&mut name);
        name
    }
}

/// What sort of failure: it decides the error's reason.
pub(super) enum Kind {
    Required,
    TooLong(i64),
    TooMany(i64, i64),
    Enum(Value, Vec<Value>),
    Type(Value),
    Invalid(Value),
    /// Of `allOf`, `anyOf`, `oneOf` and `not`, which have no place of their own.
    Composite,
}

/// One failed check.
pub(super) struct Failure {
    name: String,
    kind: Kind,
    message: String,
}

impl Failure {
    pub(super) fn new(at: &At<'_>, kind: Kind, message: &str) -> Failure {
        let name = at.name();
        let message = format!("{name} in body {message}");
        Failure { name, kind, message }
    }

    pub(super) fn wrong_type(at: &At<'_>, wanted: &str, found: &str) -> Failure {
        Failure::new(at, Kind::Type(found.into()), &format!("must be of type {wanted}: {}", field::quoted(found)))
    }

    pub(super) fn composite(at: &At<'_>, message: &str) -> Failure {
        let name = at.name();
        let message = format!("{} {message}", field::quoted(&name));
        Failure { name, kind: Kind::Composite, message }
    }

    pub(super) fn forbidden_property(at: &At<'_>, key: &str) -> Failure {
        let name = at.name();
        let message = format!("{name}.{key} in body is a forbidden property");
        Failure { name, kind: Kind::Invalid(key.into()), message }
    }

    pub(super) fn multiple_of_must_be_positive(at: &At<'_>, shown: &str, factor: Value) -> Failure {
        let name = at.name();
        let message = format!("factor MultipleOf declared for {name} must be positive: {shown}");
        Failure { name, kind: Kind::Invalid(factor), message }
    }

    pub(super) fn into_error(self, base: Option<&field::Path>) -> field::Error {
        let name = self.name.strip_prefix('.').unwrap_or(&self.name);
        let path = match (base, name) {
            (Some(base), "") => base.clone(),
            (Some(base), name) => base.child(name),
            (None, "") => crate::no_path(),
            (None, name) => field::Path::new(name),
        };
        let size = |size: i64| usize::try_from(size).unwrap_or_default();
        match self.kind {
            Kind::Required => field::Error::required(&path, ""),
            Kind::TooLong(most) => field::Error::too_long(&path, size(most)),
            Kind::TooMany(actual, most) => field::Error::too_many(&path, size(actual), size(most)),
            Kind::Enum(value, allowed) => {
                let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                field::Error::not_supported(&path, value, &allowed.iter().map(shown).collect::<Vec<_>>())
            }
            Kind::Type(value) => field::Error::type_invalid(&path, value, self.message),
            Kind::Invalid(value) => field::Error::invalid(&path, crate::schema::sorted(&value), self.message),
            Kind::Composite => {
                let path = base.cloned().unwrap_or_else(crate::no_path);
                field::Error::invalid(&path, "", self.message)
            }
        }
    }
}
