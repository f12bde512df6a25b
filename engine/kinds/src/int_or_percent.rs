//! Fields that are a number or a percentage.

use serde_json::Value;

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{non_negative, percent};

/// Refuses a negative number and a text that is no percentage.
pub(crate) fn validate_positive(value: &Value, path: &Path, errors: &mut Vec<Error>) {
    match value {
        Value::String(text) => {
            errors.extend(percent(text).into_iter().map(|complaint| Error::invalid(path, value.clone(), complaint)));
        }
        _ => non_negative(value.as_i64().unwrap_or_default(), path, errors),
    }
}

/// Refuses a percentage above 100.
pub(crate) fn validate_not_above_100_percent(value: &Value, path: &Path, errors: &mut Vec<Error>) {
    if value.is_string() && number(value) > 100 && percentage(value).is_some() {
        errors.push(Error::invalid(path, value.clone(), "must not be greater than 100%"));
    }
}

/// The number, or the number before the percent sign; 0 for a text that is neither.
pub(crate) fn number(value: &Value) -> i64 {
    match value {
        Value::String(text) => percentage(value).unwrap_or_else(|| text.parse().unwrap_or_default()),
        _ => value.as_i64().unwrap_or_default(),
    }
}

fn percentage(value: &Value) -> Option<i64> {
    let text = value.as_str().filter(|text| percent(text).is_empty())?;
    // More digits than a number holds are more than any bound.
    Some(text.strip_suffix('%')?.parse().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn complaints(value: Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate_positive(&value, &Path::new("a"), &mut errors);
        validate_not_above_100_percent(&value, &Path::new("a"), &mut errors);
        errors.iter().map(|error| error.detail.clone()).collect()
    }

    /// Rows of `TestValidatePodDisruptionBudgetSpec` and of the strategies of Deployments.
    #[test]
    fn numbers_and_percentages_are_told_apart() {
        for good in [json!(0), json!(5), json!("0%"), json!("100%")] {
            assert_eq!(complaints(good.clone()), [""; 0], "{good}");
        }
        assert_eq!(complaints(json!(-1)), ["must be greater than or equal to 0"]);
        assert_eq!(complaints(json!("101%")), ["must not be greater than 100%"]);
        assert_eq!(complaints(json!("99999999999999999999%")), ["must not be greater than 100%"]);
        for bad in ["", "5", "%", "-1%", "1.1%", "a"] {
            let expected = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            assert_eq!(complaints(json!(bad)), [expected], "{bad}");
        }
        assert_eq!((number(&json!(3)), number(&json!("25%")), number(&json!("x"))), (3, 25, 0));
    }
}
