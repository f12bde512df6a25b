//! The way to a result, step by step.

use std::fmt;

use crate::amount::{Amount, Resource};
use crate::check::{Checked, Typed};
use crate::evaluate::Outcome;
use crate::text::one_line;

/// One step of an evaluation. `Display` is `what → value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// A part of the expression as it was written, or what was done to the result.
    pub what: String,
    /// The exact value of that part, or the result.
    pub value: String,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} → {}", self.what, self.value)
    }
}

/// Each part of the expression once, in the order of evaluation, then the result. Literals explain themselves.
pub(crate) fn explain(source: &str, checked: &Checked, variable: Amount, resource: Resource) -> Vec<Step> {
    let value_of = checked.program.values(variable);
    let mut steps: Vec<Step> = Vec::new();
    for (span, part) in &checked.parts {
        let what = one_line(span.of(source));
        if steps.iter().all(|step| step.what != what) {
            let value = match part {
                Typed::Number(number) => number.to_string(),
                Typed::Quantity(term) => value_of(term).describe(resource),
            };
            steps.push(Step { what, value });
        }
    }
    let value = value_of(&checked.result);
    let outcome = Outcome::of(&value, resource);
    let what = match outcome {
        Outcome::Value(_) if value.is_beyond_kubernetes() => "lowered to the greatest quantity, 2^63-1".to_owned(),
        Outcome::Value(_) => format!("rounded up to {}", resource.step_name()),
        Outcome::Unlimited | Outcome::Negative(_) => "result".to_owned(),
    };
    steps.push(Step { what, value: outcome.to_string() });
    steps
}
