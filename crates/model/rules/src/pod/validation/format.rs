//! The forms of texts and numbers in pods: those of every kind, and a few that only pods have.

pub use crate::format::{
    config_key, dns_label, dns_subdomain, in_range, label_value, port_name, port_number, qualified_name,
};

use crate::format::pattern;

/// A DNS subdomain that may have underscores, as search paths may.
pub fn dns_subdomain_with_underscore(value: &str) -> Vec<String> {
    const LABEL: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let is_edge = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_label = |label: &str| {
        let rest = label.strip_prefix('_').unwrap_or(label);
        rest.bytes().next().is_some_and(is_edge)
            && rest.bytes().next_back().is_some_and(is_edge)
            && rest.bytes().all(|b| is_edge(b) || matches!(b, b'-' | b'_'))
    };
    let mut errors = Vec::new();
    if value.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    if !value.split('.').all(is_label) {
        errors.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character",
            &format!(r"{LABEL}(\.{LABEL})*"),
            &["example.com"],
        ));
    }
    errors
}

/// The id of a user or a group.
pub fn user_id(value: i64) -> Vec<String> {
    in_range(value, 0, i64::from(i32::MAX))
}

/// What is said of a number outside its range.
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// The name of an environment variable.
pub fn variable_name(value: &str) -> Vec<String> {
    if value.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if value.bytes().all(|b| (b.is_ascii_graphic() || b == b' ') && b != b'=') {
        return Vec::new();
    }
    vec!["a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()]
}

/// The name of an HTTP header.
pub fn header_name(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    let rule = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern(rule, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From `validation_test.go` of `k8s.io/apimachinery/pkg/util/validation`.
    #[test]
    fn good_names_are_good_and_bad_ones_are_not() {
        for good in ["_sip._tcp.abc_d.example.com", "a.b", "_a", "a-b_c"] {
            assert!(dns_subdomain_with_underscore(good).is_empty(), "{good}");
        }
        for bad in ["", "_", "a_", "__a", "a..b", "A", &"a".repeat(254)] {
            assert!(!dns_subdomain_with_underscore(bad).is_empty(), "{bad}");
        }
        for good in ["a-b", "a.b", "1A", "has space", "$(X)", "..", "-"] {
            assert!(variable_name(good).is_empty(), "{good}");
        }
        for bad in ["", "a=b", "é", "a\tb"] {
            assert!(!variable_name(bad).is_empty(), "{bad}");
        }
        assert!(header_name("X-A").is_empty() && !header_name("X A").is_empty() && !header_name("").is_empty());
    }
}
