//! The value of the variable into a result.

use std::cmp::Ordering;
use std::fmt;

use pillion_quantity::Quantity;

use crate::amount::{Amount, Resource, UNLIMITED};
use crate::check::Checked;
use crate::rational::Rational;
use crate::value::Value;

/// What an expression comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// More than any quantity: nothing is to be set.
    Unlimited,
    /// The quantity, rounded up to 1m of CPU or 1 byte of memory.
    Value(Quantity),
    /// Less than zero, which no container can have; the exact value as text.
    Negative(String),
}

impl Outcome {
    pub(crate) fn of(value: &Value<Rational>, resource: Resource) -> Self {
        match (value.unlimited.sign(), value.finite.sign()) {
            (Ordering::Greater, _) => Self::Unlimited,
            (Ordering::Less, _) | (Ordering::Equal, Ordering::Less) => Self::Negative(value.describe(resource)),
            _ => Self::Value(value.round_up(resource)),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.pad(UNLIMITED),
            Self::Value(quantity) => quantity.fmt(f),
            Self::Negative(value) => write!(f, "negative ({value})"),
        }
    }
}

pub(crate) fn evaluate(checked: &Checked, variable: Amount, resource: Resource) -> Outcome {
    Outcome::of(&checked.program.value(&checked.result, variable), resource)
}
