//! Versions of updates: `v1`, `v1.2.3.4`.

use std::cmp::Ordering;
use std::fmt;

/// A version as the Go agent takes it: `v` and numbers with dots.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version(String);

impl Version {
    /// Reads a version.
    ///
    /// # Errors
    /// What a version looks like.
    pub fn parse(text: &str) -> Result<Version, String> {
        let number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        let legal = text.len() <= 64 && text.strip_prefix('v').is_some_and(|rest| rest.split('.').all(number));
        if legal {
            Ok(Version(text.to_owned()))
        } else {
            Err(format!("the version {text:?} is not of the form v1.2.3"))
        }
    }

    /// The version as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn numbers(&self) -> impl Iterator<Item = &str> {
        self.0[1..].split('.').map(|part| part.trim_start_matches('0'))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// By number, part by part; `v1` is before `v1.0`.
impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let by_number = |a: &&str, b: &&str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
        let (mut a, mut b) = (self.numbers(), other.numbers());
        loop {
            match (a.next(), b.next()) {
                (None, None) => return self.0.cmp(&other.0),
                (None, Some(_)) => return Ordering::Less,
                (Some(_), None) => return Ordering::Greater,
                (Some(a), Some(b)) => match by_number(&a, &b) {
                    Ordering::Equal => {}
                    unequal => return unequal,
                },
            }
        }
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_their_numbers() {
        let ordered = ["v1", "v1.0", "v1.2", "v1.2.3.4", "v1.10", "v2", "v10", "v99999999999999999999999"];
        let parsed: Vec<_> = ordered.iter().map(|text| Version::parse(text).unwrap()).collect();
        assert!(parsed.is_sorted());
        for text in ["", "1", "v", "v1.", "v1..2", "v1-rc1", "v1 ", "../v1", &format!("v{}", "1".repeat(70))] {
            assert!(Version::parse(text).is_err(), "{text}");
        }
    }
}
