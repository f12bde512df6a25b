//! YAML bodies, as `kubectl apply --server-side` sends them.

use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::parse::MAX_DEPTH;
use super::write::number;
use super::{Parsed, SyntaxError, sorted};

/// Reads YAML as `sigs.k8s.io/yaml` does: keys are sorted, whole numbers are whole, and of a key that is given twice the last value counts.
/// JSON is YAML, too.
///
/// # Errors
/// It is not YAML, or too deep.
pub fn parse_yaml(text: &[u8]) -> Result<Parsed, SyntaxError> {
    read(text, DuplicateKeyPolicy::LastWins)
}

/// As [`parse_yaml`], but a key that is given twice is an error.
///
/// # Errors
/// It is not YAML, or too deep, or a key is given twice.
pub fn parse_yaml_strict(text: &[u8]) -> Result<Parsed, SyntaxError> {
    read(text, DuplicateKeyPolicy::Error)
}

fn read(text: &[u8], duplicate_keys: DuplicateKeyPolicy) -> Result<Parsed, SyntaxError> {
    let text = std::str::from_utf8(text).map_err(|_| SyntaxError::Yaml("invalid Unicode character".to_owned()))?;
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_depth: MAX_DEPTH },
        duplicate_keys: duplicate_keys,
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    let value: Option<Value> = serde_saphyr::from_str_with_options(text, options).map_err(|error| match error {
        serde_saphyr::Error::DuplicateMappingKey { key, location } => {
            let key = key.unwrap_or_default();
            SyntaxError::Yaml(format!("unmarshal errors:\n  line {}: key {key:?} already set in map", location.line()))
        }
        error => SyntaxError::Yaml(error.to_string()),
    })?;
    let mut value = value.unwrap_or_default();
    write_whole_numbers(&mut value);
    Ok(sorted(value).into())
}

/// Go writes a whole number without a fraction.
fn write_whole_numbers(value: &mut Value) {
    match value {
        Value::Object(object) => object.values_mut().for_each(write_whole_numbers),
        Value::Array(items) => items.iter_mut().for_each(write_whole_numbers),
        Value::Number(_) => *value = number(value),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn yaml_is_read_as_kubernetes_reads_it() {
        let text = "b: yes\na: {y: 010, x: 1e3}\nc: 1.5\nd: ~\ne: '5'\nf: &x [1]\ng: *x\n";
        assert_eq!(
            serde_json::to_string(&parse_yaml(text.as_bytes()).unwrap().value).unwrap(),
            r#"{"a":{"x":1000,"y":8},"b":true,"c":1.5,"d":null,"e":"5","f":[1],"g":[1]}"#
        );
        assert_eq!(parse_yaml(b"").unwrap().value, Value::Null);
        assert_eq!(parse_yaml(br#"{"a": [1, {}]}"#).unwrap().value, json!({"a": [1, {}]}));
    }

    #[test]
    fn a_key_that_is_given_twice_counts_once_or_is_refused() {
        assert_eq!(parse_yaml(b"a: 1\na: 2\n").unwrap().value, json!({"a": 2}));
        let error = parse_yaml_strict(b"a: 1\na: 2\n").unwrap_err();
        assert_eq!(error.to_string(), "yaml: unmarshal errors:\n  line 2: key \"a\" already set in map");
    }

    #[test]
    fn yaml_within_yaml_ends_somewhere() {
        let text = format!("a: {}{}", "[".repeat(1000), "]".repeat(1000));
        assert!(parse_yaml(text.as_bytes()).is_err());
    }
}
