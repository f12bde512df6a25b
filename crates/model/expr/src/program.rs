//! Runs a checked expression, in machine integers where they suffice.

use num_bigint::BigInt;

use crate::amount::Amount;
use crate::linear::{Linear, Term};
use crate::rational::Rational;
use crate::value::Value;

/// A linear program in the integers that its factors need.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// Machine integers, as long as they do not overflow.
    Machine(Linear<i128>),
    /// Unbounded integers.
    Big(Linear<BigInt>),
}

impl Program {
    pub(crate) fn new(linear: &Linear<Rational>) -> Self {
        match linear.convert(Rational::to_i128) {
            Some(linear) => Self::Machine(linear),
            None => Self::Big(linear.convert(|factor| Some(factor.to_bigint())).unwrap_or_default()),
        }
    }

    /// The exact value of a term, fast where machine integers suffice.
    pub(crate) fn value(&self, term: &Term<Rational>, variable: Amount) -> Value<Rational> {
        let fast = || match self {
            Self::Machine(linear) => {
                let variable = Value::of(variable);
                Some(term.base.value(&variable, &linear.run(&variable)?)?.exact(&term.factor))
            }
            Self::Big(_) => None,
        };
        fast().unwrap_or_else(|| self.values(variable)(term))
    }

    /// The exact values of any number of terms. Unbounded integers never overflow, so there always is a value.
    pub(crate) fn values(&self, variable: Amount) -> impl Fn(&Term<Rational>) -> Value<Rational> {
        let variable: Value<BigInt> = Value::of(variable);
        let results = match self {
            Self::Machine(linear) => linear.convert(|factor| Some((*factor).into())).and_then(|big| big.run(&variable)),
            Self::Big(linear) => linear.run(&variable),
        };
        let results = results.unwrap_or_default();
        move |term| term.base.value(&variable, &results).map_or_else(Value::default, |value| value.exact(&term.factor))
    }
}
