//! Quantities inside objects.

use pillion_quantity::Quantity;
use serde_json::Value;

use crate::field::{Error, Path};

/// The quantity in a value; `None` for what is none, or is not there.
pub fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => text.parse().ok(),
        Value::Number(number) => number.to_string().parse().ok(),
        _ => None,
    }
}

/// A quantity as the API server shows it.
pub fn shown(value: &Value) -> String {
    quantity(value).map(|quantity| quantity.to_string()).unwrap_or_default()
}

/// Refuses a negative quantity, and a part of something that only comes whole.
pub fn validate_value(whole: bool, value: &Value, path: &Path, errors: &mut Vec<Error>) {
    let Some(quantity) = quantity(value) else { return };
    if quantity.is_negative() {
        errors.push(Error::invalid(path, quantity.to_string(), "must be greater than or equal to 0"));
    }
    if whole && quantity.milli_value() % 1000 != 0 {
        errors.push(Error::invalid(path, quantity.to_string(), "must be an integer"));
    }
}

/// Refuses a quantity that is not above 0.
pub fn validate_positive(value: &Value, path: &Path, errors: &mut Vec<Error>) -> bool {
    let positive = quantity(value).is_some_and(Quantity::is_positive);
    if !positive {
        errors.push(Error::invalid(path, shown(value), "must be greater than zero"));
    }
    positive
}
