//! YAML bodies, as `kubectl apply --server-side` sends them.

use pillion_yaml::{Mistake, Options, Problem};
use serde_json::Value;

use super::write::number;
use super::{Parsed, SyntaxError, parse, sorted};

/// Reads YAML as `sigs.k8s.io/yaml` does: keys are sorted, whole numbers are whole, and of a key that is given twice the last value counts.
/// JSON is YAML, too. Of several documents the first counts.
///
/// # Errors
/// It is not YAML, or too deep, or its aliases expand to too much.
pub fn parse_yaml(text: &[u8]) -> Result<Parsed, SyntaxError> {
    read(text, true)
}

/// As [`parse_yaml`], but a key that is given twice is an error.
///
/// # Errors
/// Those of [`parse_yaml`], or a key is given twice.
pub fn parse_yaml_strict(text: &[u8]) -> Result<Parsed, SyntaxError> {
    read(text, false)
}

fn read(text: &[u8], last_key_wins: bool) -> Result<Parsed, SyntaxError> {
    // Most clients send JSON here, which is read faster as what it is.
    let json = text.starts_with(b"{").then(|| parse(text)).and_then(Result::ok);
    let mut value = match json.filter(|json| json.duplicates.is_empty()) {
        Some(json) => json.value,
        None => read_yaml(text, last_key_wins)?,
    };
    write_whole_numbers(&mut value);
    Ok(sorted(value).into())
}

fn read_yaml(text: &[u8], last_key_wins: bool) -> Result<Value, SyntaxError> {
    let text = std::str::from_utf8(text).map_err(|_| SyntaxError::Yaml("invalid Unicode character".to_owned()))?;
    let (documents, mistakes) = pillion_yaml::parse_lossy(text, Options { last_key_wins, ..Options::default() });
    if let Some(Mistake { position, problem }) = mistakes.into_iter().next() {
        let line = position.line;
        return Err(SyntaxError::Yaml(match problem {
            Problem::DuplicateKey { key, .. } => {
                format!("unmarshal errors:\n  line {line}: key {key:?} already set in map")
            }
            Problem::Other(message) => format!("line {line}: {message}"),
        }));
    }
    Ok(documents.into_iter().next().map(|document| document.value).unwrap_or_default())
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
        let text = "b: yes\na: {z: 010, x: 1e3}\nc: 1.5\nd: ~\ne: '5'\nf: &x [1]\ng: *x\n";
        assert_eq!(
            serde_json::to_string(&parse_yaml(text.as_bytes()).unwrap().value).unwrap(),
            r#"{"a":{"x":1000,"z":8},"b":true,"c":1.5,"d":null,"e":"5","f":[1],"g":[1]}"#
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

    #[test]
    fn aliases_that_expand_to_too_much_are_refused() {
        let levels = (1..20).map(|i| format!("a{i}: &a{i} [{}]\n", vec![format!("*a{}", i - 1); 10].join(",")));
        let text = format!("a0: &a0 [x,x]\n{}", levels.collect::<String>());
        let error = parse_yaml(text.as_bytes()).unwrap_err().to_string();
        assert!(error.ends_with("the aliases expand to too much; write out what they stand for"), "{error}");
    }

    #[test]
    fn of_several_documents_the_first_counts() {
        assert_eq!(parse_yaml(b"a: 1\n---\na: 2\n").unwrap().value, json!({"a": 1}));
    }
}
