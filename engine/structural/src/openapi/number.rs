//! `minimum`, `maximum` and `multipleOf`. Against an integer they are cut to integers themselves, as the API server does it.

use serde_json::{Number, Value};

use super::outcome::{At, Failure, Kind, Outcome};
use crate::schema::Schema;

/// Whether the API server reads the number as an integer.
pub(super) fn is_integer(number: &Number) -> bool {
    number.as_i64().is_some()
}

#[allow(clippy::cast_possible_truncation, reason = "as Go converts a float to an integer")]
fn cut(float: f64) -> i64 {
    float as i64
}

/// Whether a number, made the type of `allowed`, is it.
pub(super) fn converts_to(number: &Number, allowed: &Number) -> bool {
    match (number.as_i64(), allowed.as_i64()) {
        (Some(number), Some(allowed)) => number == allowed,
        (None, Some(allowed)) => number.as_f64().is_some_and(|float| cut(float) == allowed),
        (_, None) => number.as_f64() == allowed.as_f64(),
    }
}

/// Whether a float is an integer that JSON carries exactly.
#[allow(clippy::float_cmp, reason = "exactness is the question")]
pub(super) fn is_json_integer(float: f64) -> bool {
    const MOST: f64 = 9_007_199_254_740_991.0;
    if !(-MOST..=MOST).contains(&float) {
        return false;
    }
    let whole = float.trunc();
    float == whole || ((float - whole).abs() / (float.abs() + whole.abs()).min(f64::MAX)) < 1e-9
}

pub(super) fn check(schema: &Schema, number: &Number, at: &At<'_>) -> Outcome {
    let mut result = Outcome::counted(1);
    let bounds = [
        schema.multiple_of.and_then(|factor| check_multiple(number, factor, at)),
        schema.minimum.and_then(|least| check_minimum(number, least, schema.exclusive_minimum, at)),
        schema.maximum.and_then(|most| check_maximum(number, most, schema.exclusive_maximum, at)),
    ];
    for failure in bounds.into_iter().flatten() {
        result.fail(failure);
    }
    result
}

fn check_multiple(number: &Number, factor: f64, at: &At<'_>) -> Option<Failure> {
    if let Some(integer) = number.as_i64() {
        let factor = cut(factor);
        if factor <= 0 {
            return Some(Failure::multiple_of_must_be_positive(at, &factor.to_string(), factor.into()));
        }
        return (integer % factor != 0).then(|| invalid(number, at, &format!("should be a multiple of {factor}")));
    }
    if factor <= 0.0 {
        return Some(Failure::multiple_of_must_be_positive(at, &go_float(factor), factor.into()));
    }
    let value = number.as_f64()?;
    let quotient = if factor < 1.0 { 1.0 / factor * value } else { value / factor };
    (!is_json_integer(quotient)).then(|| invalid(number, at, &format!("should be a multiple of {}", go_float(factor))))
}

fn check_minimum(number: &Number, least: f64, exclusive: bool, at: &At<'_>) -> Option<Failure> {
    let (below, shown) = match number.as_i64() {
        Some(integer) => (integer < cut(least) || exclusive && integer == cut(least), cut(least).to_string()),
        None => (number.as_f64().is_some_and(|float| float < least || exclusive && float <= least), go_float(least)),
    };
    let words = if exclusive { "should be greater than" } else { "should be greater than or equal to" };
    below.then(|| invalid(number, at, &format!("{words} {shown}")))
}

fn check_maximum(number: &Number, most: f64, exclusive: bool, at: &At<'_>) -> Option<Failure> {
    let (above, shown) = match number.as_i64() {
        Some(integer) => (integer > cut(most) || exclusive && integer == cut(most), cut(most).to_string()),
        None => (number.as_f64().is_some_and(|float| float > most || exclusive && float >= most), go_float(most)),
    };
    let words = if exclusive { "should be less than" } else { "should be less than or equal to" };
    above.then(|| invalid(number, at, &format!("{words} {shown}")))
}

fn invalid(number: &Number, at: &At<'_>, message: &str) -> Failure {
    Failure::new(at, Kind::Invalid(Value::Number(number.clone())), message)
}

/// A float as Go's `%v` writes it.
fn go_float(float: f64) -> String {
    crate::go_float::shortest(float, 21)
}
