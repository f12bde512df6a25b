//! A compiled schema, and what it does with objects.

use pillion_rules::field::{Error, ErrorKind, Path};
use serde_json::Value;

use crate::rules::{self, Rules};
use crate::schema::{Schema, too_deep};
use crate::{embedded, list_type, no_path, object_meta, openapi, prune};

/// The schema of one version of a custom resource, compiled.
#[derive(Debug)]
pub struct Structural {
    root: Schema,
    rules: Option<Rules>,
}

/// What of an object a request writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    #[default]
    Object,
    /// Its status, through the subresource.
    Status,
}

/// What a check found.
#[derive(Debug, Default)]
pub struct Report {
    /// Why the request is refused.
    pub errors: Vec<Error>,
    /// What is wrong, and was so before.
    pub warnings: Vec<String>,
}

impl Structural {
    /// Reads `openAPIV3Schema`. It is not checked again: that is done when the `CustomResourceDefinition` is written, by
    /// [`crd::validate_schema`](crate::crd::validate_schema).
    ///
    /// # Errors
    /// It nests too deeply.
    pub fn compile(schema: &Value) -> Result<Structural, Vec<Error>> {
        let root = Schema::read(schema).ok_or_else(|| vec![too_deep(&Path::new("openAPIV3Schema"))])?;
        let rules = Rules::compile(&root, true);
        Ok(Structural { root, rules })
    }

    /// Reads an object as it was sent: metadata is read as that of any object, unknown fields and forbidden nulls are dropped. Returns the
    /// paths of the dropped fields, in the order in which strict field validation reports them.
    ///
    /// # Errors
    /// Metadata of the object, or of one embedded in it, has the wrong type.
    pub fn coerce(&self, object: &mut Value) -> Result<Vec<String>, String> {
        let mut unknown = Vec::new();
        if let Some(metadata) = object.get_mut("metadata") {
            let mut names = Vec::new();
            *metadata = object_meta::coerce(metadata, &mut names)?;
            unknown.extend(names.into_iter().map(|name| format!("metadata.{name}")));
        }
        unknown.extend(self.prune(object));
        prune::prune_nulls(Some(&self.root), object);
        prune::normalize_numbers(object);
        let mut embedded = Vec::new();
        embedded::coerce(&self.root, object, false, &Path::root(), &mut embedded).map_err(|error| error.to_string())?;
        embedded.sort();
        unknown.extend(embedded);
        Ok(unknown)
    }

    /// Drops the fields that the schema does not know. Returns their paths, in order.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        prune::prune(&self.root, object)
    }

    /// Fills in what is missing and has a default.
    pub fn apply_defaults(&self, object: &mut Value) {
        prune::apply_defaults(&self.root, object);
    }

    /// Checks an object, or an update of one; see [`Structural::validate_into`].
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<Error> {
        let mut report = Report::default();
        self.validate_into(new, old, Part::Object, &mut report);
        report.errors
    }

    /// Checks an object against the schema, its list types and its rules. With `old`, what was wrong before and has not changed is let pass.
    /// Errors that the report has already, such as those of metadata, count: after some kinds of them rules are not evaluated.
    pub fn validate_into(&self, new: &Value, old: Option<&Value>, part: Part, report: &mut Report) {
        match part {
            Part::Object => report.errors.extend(openapi::validate(&self.root, new, old, None)),
            Part::Status => {
                if let (Some(schema), Some(status)) = (self.root.properties.get("status"), new.get("status")) {
                    let old = old.map(|old| &old["status"]);
                    report.errors.extend(openapi::validate(schema, status, old, Some(&Path::new("status"))));
                }
            }
        }
        embedded::validate(&self.root, new, false, &Path::root(), &mut report.errors);
        let mut before = Vec::new();
        if let Some(old) = old {
            list_type::validate(&self.root, old, &Path::root(), &mut before);
        }
        if before.is_empty() {
            list_type::validate(&self.root, new, &Path::root(), &mut report.errors);
        }
        let Some(rules) = &self.rules else { return };
        if report.errors.iter().any(blocks_rules) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            report.errors.push(Error::invalid(&no_path(), Value::Null, detail));
            return;
        }
        let found = rules::evaluate(rules, &self.root, new, old, &Path::root());
        report.errors.extend(found.errors);
        report.warnings.extend(found.warnings);
    }
}

/// Rules rely on types, required fields and sizes.
fn blocks_rules(error: &Error) -> bool {
    use ErrorKind::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
    matches!(error.kind, NotSupported(..) | Required | TooLong(_) | TooMany(..) | TypeInvalid(_))
}
