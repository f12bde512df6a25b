//! A checked expression, ready to run: sums, maxima and minima of multiples of the variable.
//!
//! Nothing is multiplied but by constants, so a product costs nothing when the expression runs: it only changes the
//! factor of a term. Denominators are cleared beforehand, and what remains is integers: `max(cpu*50%, 50m)` is
//! `max(1·cpu, 2·50m)` over 2.

use std::cmp::Ordering;

use pillion_quantity::Format;

use crate::rational::Rational;
use crate::value::{Integer, Value};

/// What a term is a multiple of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Base {
    /// One nano: the term is a constant, written in this format if it is a quantity.
    Nano(Option<Format>),
    Variable,
    /// The result of a combination, by its index.
    Result(usize),
}

/// A multiple of something.
#[derive(Clone, Debug)]
pub(crate) struct Term<T> {
    pub(crate) base: Base,
    pub(crate) factor: T,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Combinator {
    Sum,
    Max,
    Min,
}

#[derive(Clone, Debug)]
struct Combination<T> {
    combinator: Combinator,
    left: Term<T>,
    right: Term<T>,
}

/// Combinations, each of terms that only refer to earlier ones. All factors are integers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Linear<T> {
    combinations: Vec<Combination<T>>,
}

impl Linear<Rational> {
    /// Appends a combination of two terms and returns the term for its result.
    pub(crate) fn combine(
        &mut self,
        combinator: Combinator,
        left: &Term<Rational>,
        right: &Term<Rational>,
    ) -> Term<Rational> {
        let (left_factor, right_factor, denominator) = left.factor.over_common_denominator(&right.factor);
        self.combinations.push(Combination {
            combinator,
            left: Term { base: left.base, factor: left_factor },
            right: Term { base: right.base, factor: right_factor },
        });
        let base = Base::Result(self.combinations.len() - 1);
        Term { base, factor: denominator.reciprocal().unwrap_or_default() }
    }
}

impl<T> Linear<T> {
    /// The same with factors of another type; none if one cannot be converted.
    pub(crate) fn convert<U>(&self, factor: impl Fn(&T) -> Option<U>) -> Option<Linear<U>> {
        let term = |term: &Term<T>| Some(Term { base: term.base, factor: factor(&term.factor)? });
        let combinations = self.combinations.iter().map(|Combination { combinator, left, right }| {
            Some(Combination { combinator: *combinator, left: term(left)?, right: term(right)? })
        });
        Some(Linear { combinations: combinations.collect::<Option<_>>()? })
    }
}

impl<T: Integer> Linear<T> {
    /// The results of all combinations; none if a machine integer overflows.
    pub(crate) fn run(&self, variable: &Value<T>) -> Option<Vec<Value<T>>> {
        let mut results = Vec::with_capacity(self.combinations.len());
        for Combination { combinator, left, right } in &self.combinations {
            let (left, right) = (left.value(variable, &results)?, right.value(variable, &results)?);
            // Of equal values the left one is taken.
            results.push(match combinator {
                Combinator::Sum => left.add(&right)?,
                Combinator::Max if right.compare(&left) == Ordering::Greater => right,
                Combinator::Min if right.compare(&left) == Ordering::Less => right,
                Combinator::Max | Combinator::Min => left,
            });
        }
        Some(results)
    }
}

impl Base {
    /// The value, given the results that it may refer to.
    pub(crate) fn value<T: Integer>(self, variable: &Value<T>, results: &[Value<T>]) -> Option<Value<T>> {
        match self {
            Self::Nano(format) => Some(Value::finite(T::one(), format)),
            Self::Variable => Some(variable.clone()),
            Self::Result(index) => results.get(index).cloned(),
        }
    }
}

impl<T: Integer> Term<T> {
    /// The value, given the results that it may refer to; none if a machine integer overflows.
    fn value(&self, variable: &Value<T>, results: &[Value<T>]) -> Option<Value<T>> {
        self.base.value(variable, results)?.scale(&self.factor)
    }
}
