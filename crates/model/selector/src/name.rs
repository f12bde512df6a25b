//! The forms that Kubernetes allows for names, label keys and label values.

const NAME_RULE: &str =
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";

/// Whether `key` can be the key of a label or an annotation: `name` or `prefix/name`.
///
/// # Errors
/// What is wrong with it, in the words of the API server.
pub fn qualified_name(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, rest)) if rest.contains('/') => {
            return Err("a qualified name must consist of a name with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')".into());
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    if let Some(prefix) = prefix {
        if prefix.is_empty() {
            return Err("prefix part must be non-empty".into());
        }
        dns_subdomain(prefix).map_err(|reason| format!("prefix part {reason}"))?;
    }
    match name.len() {
        0 => Err("name part must be non-empty".into()),
        64.. => Err("name part must be no more than 63 bytes".into()),
        _ if !is_name(name) => Err(format!("name part {NAME_RULE}")),
        _ => Ok(()),
    }
}

/// Whether `value` can be the value of a label.
///
/// # Errors
/// What is wrong with it, in the words of the API server.
pub fn label_value(value: &str) -> Result<(), String> {
    if value.len() > 63 {
        Err("must be no more than 63 bytes".into())
    } else if value.is_empty() || is_name(value) {
        Ok(())
    } else {
        Err(format!("a valid label must be an empty string or {}", NAME_RULE.trim_start_matches("must ")))
    }
}

/// Whether `name` is a DNS subdomain (RFC 1123), as most object names are.
///
/// # Errors
/// What is wrong with it, in the words of the API server.
fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 bytes".into());
    }
    if name.split('.').all(is_dns_label) {
        Ok(())
    } else {
        Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character".into())
    }
}

/// All that kube-apiserver finds wrong with `key` as the key of a label, with its examples.
pub fn label_key_complaints(key: &str) -> Vec<String> {
    let rule = format!(
        "{NAME_RULE} (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    );
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((_, rest)) if rest.contains('/') => {
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
        Some((prefix, name)) => (Some(prefix), name),
    };
    let mut complaints = Vec::new();
    match prefix.map(|prefix| (prefix, dns_subdomain(prefix))) {
        Some(("", _)) => complaints.push("prefix part must be non-empty".to_owned()),
        Some((prefix, Err(reason))) if prefix.len() > 253 => complaints.push(format!("prefix part {reason}")),
        Some((_, Err(reason))) => complaints.push(format!(
            "prefix part {reason} (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
        )),
        None | Some((_, Ok(()))) => {}
    }
    match name.len() {
        0 => complaints.push("name part must be non-empty".to_owned()),
        64.. => complaints.push("name part must be no more than 63 bytes".to_owned()),
        _ => {}
    }
    if !is_name(name) {
        complaints.push(format!("name part {rule}"));
    }
    complaints
}

/// All that kube-apiserver finds wrong with `value` as the value of a label, with its examples.
pub fn label_value_complaints(value: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if value.len() > 63 {
        complaints.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        complaints.push(format!(
            "a valid label must be an empty string or {} (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')",
            NAME_RULE.trim_start_matches("must ")
        ));
    }
    complaints
}

fn is_dns_label(label: &str) -> bool {
    let edge = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let bytes = label.as_bytes();
    bytes.first().is_some_and(edge) && bytes.last().is_some_and(edge) && bytes.iter().all(|b| edge(b) || *b == b'-')
}

fn is_name(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric)
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rules_of_the_api_server() {
        for good in ["a", "A.b_c-d", "example.com/Name", &"a".repeat(63)] {
            assert_eq!(qualified_name(good), Ok(()), "{good}");
        }
        for bad in ["", "-a", "a-", "a/b/c", "/a", "a/", "Ex.com/a", "ü", &"a".repeat(64)] {
            assert!(qualified_name(bad).is_err(), "{bad}");
        }
        assert_eq!(label_value(""), Ok(()));
        assert!(label_value("a b").is_err());
        assert!(dns_subdomain("a..b").is_err());
    }
}
