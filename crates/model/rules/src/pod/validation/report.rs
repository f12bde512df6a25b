//! A list of mistakes that grows while an object is looked at.

use serde_json::Value;

use crate::field::{Error, Path};

/// The mistakes found so far, in the order in which the API server looks.
pub type Errors = Vec<Error>;

/// Where a mistake is that is about the whole pod, as the API server shows it.
pub fn nowhere() -> Path {
    Path::root().key("")
}

/// How mistakes are added.
pub trait Report {
    /// A value is needed.
    fn required(&mut self, path: &Path, detail: &str);
    /// A value is malformed.
    fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>);
    /// A value may not be set.
    fn forbidden(&mut self, path: &Path, detail: impl Into<String>);
    /// A value is not one of those listed.
    fn unsupported(&mut self, path: &Path, value: &str, supported: &[&str]);
    /// A value is there twice.
    fn duplicate(&mut self, path: &Path, value: &str);
    /// A value names nothing that is there.
    fn not_found(&mut self, path: &Path, value: &str);

    /// A value must be one of those listed.
    fn one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if !supported.contains(&value) {
            self.unsupported(path, value, supported);
        }
    }

    /// A value must be there, and be one of those listed.
    fn required_one_of(&mut self, path: &Path, value: &str, supported: &[&str]) {
        if value.is_empty() {
            self.required(path, "");
        } else {
            self.one_of(path, value, supported);
        }
    }

    /// A text must not be empty.
    fn non_empty(&mut self, path: &Path, value: &str) {
        if value.is_empty() {
            self.required(path, "");
        }
    }

    /// All objections to the form of a value.
    fn each(&mut self, path: &Path, value: impl Into<Value>, objections: Vec<String>) {
        if objections.is_empty() {
            return;
        }
        let value = value.into();
        for objection in objections {
            self.invalid(path, value.clone(), objection);
        }
    }

    /// A number must not be below zero.
    fn non_negative(&mut self, path: &Path, value: i64) {
        if value < 0 {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    /// A number must be above zero.
    fn positive(&mut self, path: &Path, value: i64) {
        if value <= 0 {
            self.invalid(path, value, "must be greater than zero");
        }
    }
}

impl Report for Errors {
    fn required(&mut self, path: &Path, detail: &str) {
        self.push(Error::required(path, detail));
    }

    fn invalid(&mut self, path: &Path, value: impl Into<Value>, detail: impl Into<String>) {
        self.push(Error::invalid(path, value, detail));
    }

    fn forbidden(&mut self, path: &Path, detail: impl Into<String>) {
        self.push(Error::forbidden(path, detail));
    }

    fn unsupported(&mut self, path: &Path, value: &str, supported: &[&str]) {
        self.push(Error::not_supported(path, value, supported));
    }

    fn duplicate(&mut self, path: &Path, value: &str) {
        self.push(Error::duplicate(path, value));
    }

    fn not_found(&mut self, path: &Path, value: &str) {
        self.push(Error::not_found(path, value));
    }
}
