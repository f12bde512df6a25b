//! The expression itself.

use std::fmt;

use crate::amount::{Amount, Resource};
use crate::check::{Checked, check};
use crate::error::ExprError;
use crate::evaluate::{Outcome, evaluate};
use crate::explain::{Step, explain};
use crate::parse::parse;

/// A parsed and checked expression. `Display` is its source text.
#[derive(Clone, Debug)]
pub struct Expr {
    source: String,
    checked: Checked,
}

impl Expr {
    /// Parses and checks an expression for a resource, whose variable it may use.
    pub fn parse(source: &str, resource: Resource) -> Result<Self, ExprError> {
        Self::parse_for(source, Some(resource))
    }

    /// Parses and checks an expression that may use either variable, but not both.
    pub fn parse_any(source: &str) -> Result<Self, ExprError> {
        Self::parse_for(source, None)
    }

    fn parse_for(source: &str, resource: Option<Resource>) -> Result<Self, ExprError> {
        match parse(source).and_then(|operations| check(operations, resource)) {
            Ok(checked) => Ok(Self { source: source.to_owned(), checked }),
            Err(fault) => Err(ExprError::new(source, fault)),
        }
    }

    /// The text that was parsed.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The variable that it uses, if any.
    pub fn variable(&self) -> Option<Resource> {
        self.checked.variable
    }

    /// The result for this value of the variable, rounded as the resource is.
    pub fn evaluate(&self, variable: Amount, resource: Resource) -> Outcome {
        evaluate(&self.checked, variable, resource)
    }

    /// The steps of [`evaluate`](Self::evaluate): each part of the expression with its exact value, then the result.
    pub fn explain(&self, variable: Amount, resource: Resource) -> Vec<Step> {
        explain(&self.source, &self.checked, variable, resource)
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.source)
    }
}
