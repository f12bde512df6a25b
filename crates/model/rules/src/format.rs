//! The forms that texts must have: names, label keys and values, ports, addresses. Each function returns what is wrong, in the API server's
//! words; nothing where nothing is.

use crate::field::{Error, Path};

/// What is wrong with a text.
pub type Complaints = Vec<String>;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Adds each complaint about `value` as an `Invalid` error.
pub fn check(complaints: Complaints, value: &str, path: &Path, errors: &mut Vec<Error>) {
    errors.extend(complaints.into_iter().map(|complaint| Error::invalid(path, value, complaint)));
}

/// The API server's sentence for a text that does not match a pattern.
pub fn pattern(sentence: &str, pattern: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{sentence} (regex used for validation is '{pattern}')");
    }
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{sentence} (e.g. {}regex used for validation is '{pattern}')", examples.join(" or "))
}

fn lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether all is of `inner`, the first and last byte of `outer`, and there is at least one.
fn framed(value: &str, outer: impl Fn(u8) -> bool, inner: impl Fn(u8) -> bool) -> bool {
    let bytes = value.as_bytes();
    bytes.first().is_some_and(|&b| outer(b))
        && bytes.last().is_some_and(|&b| outer(b))
        && bytes.iter().all(|&b| inner(b))
}

fn is_label(value: &str) -> bool {
    framed(value, lower, |b| lower(b) || b == b'-')
}

fn is_subdomain(value: &str) -> bool {
    value.split('.').all(is_label)
}

fn is_qualified(value: &str) -> bool {
    framed(value, |b| b.is_ascii_alphanumeric(), |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

fn too_long(value: &str, limit: usize) -> Option<String> {
    (value.len() > limit).then(|| format!("must be no more than {limit} characters"))
}

fn too_many_bytes(value: &str, limit: usize) -> Option<String> {
    (value.len() > limit).then(|| format!("must be no more than {limit} bytes"))
}

/// A label of a DNS name (RFC 1123): `my-name`.
pub fn dns_label(value: &str) -> Complaints {
    let mut complaints = Vec::from_iter(too_long(value, 63));
    if !is_label(value) {
        complaints.push(if is_subdomain(value) {
            "must not contain dots".to_owned()
        } else {
            pattern(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL,
                &["my-name", "123-abc"],
            )
        });
    }
    complaints
}

/// A DNS name (RFC 1123): `example.com`.
pub fn dns_subdomain(value: &str) -> Complaints {
    subdomain(value, too_long(value, 253))
}

fn subdomain(value: &str, too_long: Option<String>) -> Complaints {
    let mut complaints = Vec::from_iter(too_long);
    if !is_subdomain(value) {
        complaints.push(pattern(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            SUBDOMAIN,
            &["example.com"],
        ));
    }
    complaints
}

/// A label of a DNS name that starts with a letter (RFC 1035): `my-name`.
pub fn dns1035_label(value: &str) -> Complaints {
    let mut complaints = Vec::from_iter(too_long(value, 63));
    if !(is_label(value) && value.starts_with(|c: char| c.is_ascii_lowercase())) {
        complaints.push(pattern(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    complaints
}

/// A DNS name of at least `segments` labels, each of them checked.
pub fn qualified_domain(value: &str, path: &Path, segments: usize, errors: &mut Vec<Error>) {
    if value.is_empty() {
        return errors.push(Error::required(path, ""));
    }
    let complaints = dns_subdomain(value);
    if !complaints.is_empty() {
        return errors.push(Error::invalid(path, value, complaints.join(",")));
    }
    if value.split('.').count() < segments {
        let words = ["", "one", "two", "three"];
        let count = words.get(segments).copied().unwrap_or_default();
        let detail = format!("should be a domain with at least {count} segments separated by dots");
        errors.push(Error::invalid(path, value, detail));
    }
}

/// A path below a domain: `example.com/path`.
pub fn domain_prefixed_path(value: &str, path: &Path, errors: &mut Vec<Error>) {
    match value.split_once('/') {
        _ if value.is_empty() => errors.push(Error::required(path, "")),
        Some((host, rest)) if !host.is_empty() && !rest.is_empty() => {
            check(dns_subdomain(host), host, path, errors);
            let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
            if !rest.bytes().all(allowed) {
                let detail = pattern("Invalid path", r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+", &[]);
                errors.push(Error::invalid(path, rest, detail));
            }
        }
        _ => {
            let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            errors.push(Error::invalid(path, value, detail));
        }
    }
}

/// The key of a label, or another name with an optional domain before it: `app.kubernetes.io/name`.
pub fn qualified_name(value: &str) -> Complaints {
    const SENTENCE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let sentence = pattern(SENTENCE, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut complaints = Complaints::new();
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts[..] {
        [name] => name,
        ["", name] => {
            complaints.push("prefix part must be non-empty".to_owned());
            name
        }
        [prefix, name] => {
            let about_prefix = subdomain(prefix, too_many_bytes(prefix, 253));
            complaints.extend(about_prefix.into_iter().map(|complaint| format!("prefix part {complaint}")));
            name
        }
        _ => {
            return vec![format!(
                "a valid label key {sentence} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        complaints.push("name part must be non-empty".to_owned());
    }
    complaints.extend(too_many_bytes(name, 63).map(|complaint| format!("name part {complaint}")));
    if !is_qualified(name) {
        complaints.push(format!("name part {sentence}"));
    }
    complaints
}

pub fn label_value(value: &str) -> Complaints {
    let mut complaints = Vec::from_iter(too_many_bytes(value, 63));
    if !value.is_empty() && !is_qualified(value) {
        complaints.push(pattern(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({QUALIFIED})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    complaints
}

/// A key in the data of a ConfigMap or Secret.
pub fn config_key(value: &str) -> Complaints {
    let mut complaints = Vec::from_iter(too_long(value, 253));
    if value.is_empty() || !value.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        complaints.push(pattern(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match value {
        "." => complaints.push("must not be '.'".to_owned()),
        ".." => complaints.push("must not be '..'".to_owned()),
        _ if value.starts_with("..") => complaints.push("must not start with '..'".to_owned()),
        _ => {}
    }
    complaints
}

/// The name of a port: `http`.
pub fn port_name(value: &str) -> Complaints {
    let mut complaints = Vec::from_iter(too_long(value, 15));
    if value.is_empty() || !value.bytes().all(|b| lower(b) || b == b'-') {
        complaints.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        complaints.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        complaints.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        complaints.push("must not begin or end with a hyphen".to_owned());
    }
    complaints
}

pub fn port_number(value: i64) -> Complaints {
    in_range(value, 1, 65535)
}

/// A number between two others.
pub fn in_range(value: i64, low: i64, high: i64) -> Complaints {
    if (low..=high).contains(&value) {
        Vec::new()
    } else {
        vec![format!("must be between {low} and {high}, inclusive")]
    }
}

/// A percentage: `25%`.
pub fn percent(value: &str) -> Complaints {
    let digits = value.strip_suffix('%').unwrap_or_default();
    if !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Vec::new();
    }
    vec![pattern(
        "a valid percent string must be a numeric string followed by an ending '%'",
        "[0-9]+%",
        &["1%", "93%"],
    )]
}

/// A part of a path in a URL: neither a step nor a separator.
pub fn path_segment(value: &str) -> Complaints {
    if value == "." || value == ".." {
        return vec![format!("may not be '{value}'")];
    }
    let illegal = ["/", "%"].iter().filter(|part| value.contains(**part));
    illegal.map(|part| format!("may not contain '{part}'")).collect()
}

/// Refuses a number below 0.
pub fn non_negative(value: i64, path: &Path, errors: &mut Vec<Error>) {
    if value < 0 {
        errors.push(Error::invalid(path, value, "must be greater than or equal to 0"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of `validation_test.go` of apimachinery.
    #[test]
    fn names_are_accepted_and_refused_as_upstream() {
        for good in ["a", "ab", "a1", "a-1", "a--1--2--b", "0", "1--a--b--2", &"a".repeat(63)] {
            assert_eq!(dns_label(good), Complaints::new(), "{good}");
        }
        for bad in ["", "A", "a-", "-a", "a_b", "a.", ".a", "a.b", " ", "a b", &"a".repeat(64)] {
            assert_ne!(dns_label(bad), Complaints::new(), "{bad}");
        }
        for good in ["a", "a.b", "0.1.2", "a--1.b--2", &["a"; 127].join(".")] {
            assert_eq!(dns_subdomain(good), Complaints::new(), "{good}");
        }
        for bad in ["", "A.b", "a.", ".a", "a..b", "a-.b", "-a.b", "a@b", &"a".repeat(254)] {
            assert_ne!(dns_subdomain(bad), Complaints::new(), "{bad}");
        }
        for good in [
            "simple",
            "now-with-dashes",
            "1-starts-with-num",
            "1234",
            "simple/simple",
            "now.with.dots/simple",
            "UpperCaseAreOK123",
            "good--double-dash",
        ] {
            assert_eq!(qualified_name(good), Complaints::new(), "{good}");
        }
        for bad in [
            "nospecialchars%^=@",
            "cantendwithadash-",
            "-cantstartwithadash-",
            "only/one/slash",
            "Example.com/abc",
            "example_com/abc",
            "example.com/",
            "/simple",
            &"a".repeat(64),
            "",
        ] {
            assert_ne!(qualified_name(bad), Complaints::new(), "{bad}");
        }
        for good in ["telnet", "re-mail-ck", "pop3", "a", "a-1", "1-a", "a-1-b-2-c"] {
            assert_eq!(port_name(good), Complaints::new(), "{good}");
        }
        for bad in
            ["longerthan15characters", "", "12345", "1-2-3-4", "-begin", "end-", "two--hyphens", "1-2", "whois++"]
        {
            assert_ne!(port_name(bad), Complaints::new(), "{bad}");
        }
        for good in [
            "a",
            "good",
            "good-good",
            "still.good",
            "this.is.also.good",
            ".so.is.this",
            "THIS_IS_GOOD",
            "..a".get(1..).unwrap(),
        ] {
            assert_eq!(config_key(good), Complaints::new(), "{good}");
        }
        for bad in [".", "..", "..bad", "b*d", "bad!&bad", ""] {
            assert_ne!(config_key(bad), Complaints::new(), "{bad}");
        }
    }

    #[test]
    fn complaints_carry_the_pattern() {
        assert_eq!(dns_label("a.b"), ["must not contain dots"]);
        assert_eq!(
            dns_label("A"),
            [
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
            ]
        );
        assert_eq!(path_segment("a/b%"), ["may not contain '/'", "may not contain '%'"]);
    }
}
