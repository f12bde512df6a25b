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
pub fn dns_subdomain(name: &str) -> Result<(), String> {
    if name.len() > 253 {
        return Err("must be no more than 253 bytes".into());
    }
    if name.split('.').all(is_dns_label) {
        Ok(())
    } else {
        Err("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character".into())
    }
}

/// Whether `name` is a DNS label (RFC 1123), as container and volume names are.
///
/// # Errors
/// What is wrong with it, in the words of the API server.
pub fn dns_label(name: &str) -> Result<(), String> {
    if name.len() > 63 {
        return Err("must be no more than 63 bytes".into());
    }
    if is_dns_label(name) {
        Ok(())
    } else {
        Err("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character".into())
    }
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
        assert!(dns_label("a.b").is_err());
        assert!(dns_subdomain("a..b").is_err());
    }
}
