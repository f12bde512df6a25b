//! Which of two versions comes first: stable before beta before alpha, then the higher number, then all other names by alphabet.

use std::cmp::Ordering;

/// Compares two versions; the greater one is preferred.
pub(super) fn kube_aware(left: &str, right: &str) -> Ordering {
    match (parse(left), parse(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (Some(_), None) => Ordering::Greater,
        (None, Some(_)) => Ordering::Less,
        (None, None) => right.cmp(left),
    }
}

/// Stability, major number, number of the alpha or beta.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let (major, rest) = number(rest)?;
    if rest.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, rest) = match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
        (Some(rest), _) => (1, rest),
        (_, Some(rest)) => (0, rest),
        _ => return None,
    };
    let (minor, rest) = number(rest)?;
    rest.is_empty().then_some((stability, major, minor))
}

/// A number, and what follows it.
fn number(text: &str) -> Option<(u64, &str)> {
    let (digits, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_as_the_api_conventions_say() {
        let mut versions = [
            "v1",
            "v2",
            "foo1",
            "v3beta1",
            "foo10",
            "v12alpha1",
            "v11beta2",
            "v10beta3",
            "v11alpha2",
            "v10",
            "v0",
            "v1beta",
        ];
        versions.sort_by(|a, b| kube_aware(b, a));
        let want = [
            "v10",
            "v2",
            "v1",
            "v0",
            "v11beta2",
            "v10beta3",
            "v3beta1",
            "v12alpha1",
            "v11alpha2",
            "foo1",
            "foo10",
            "v1beta",
        ];
        assert_eq!(versions, want);
    }
}
