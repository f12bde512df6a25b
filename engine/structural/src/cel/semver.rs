//! Semantic versions as values.

use std::cmp::Ordering;

/// A semantic version.
#[derive(Clone, Debug)]
pub(crate) struct Semver {
    pub(super) numbers: [u64; 3],
    /// Parts of the pre-release: numbers come before words.
    pre_release: Vec<Result<u64, String>>,
}

impl Semver {
    pub(super) fn parse(text: &str) -> Result<Semver, String> {
        if text.is_empty() {
            return Err("Version string empty".to_owned());
        }
        let parts: Vec<&str> = text.splitn(3, '.').collect();
        let [major, minor, rest] = parts.as_slice() else {
            return Err("No Major.Minor.Patch elements found".to_owned());
        };
        let (rest, build) = match rest.split_once('+') {
            Some((rest, build)) => (rest, Some(build)),
            None => (*rest, None),
        };
        let (patch, pre_release) = match rest.split_once('-') {
            Some((patch, pre_release)) => (patch, Some(pre_release)),
            None => (rest, None),
        };
        let numbers = [number("Major", major)?, number("Minor", minor)?, number("Patch", patch)?];
        let fits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        let mut parsed = Vec::new();
        for part in pre_release.into_iter().flat_map(|pre_release| pre_release.split('.')) {
            if !fits(part) {
                return Err(format!("Invalid character(s) found in prerelease {}", pillion_rules::field::quoted(part)));
            }
            parsed.push(if part.bytes().all(|b| b.is_ascii_digit()) {
                Ok(number("Numeric PreRelease", part)?)
            } else {
                Err(part.to_owned())
            });
        }
        if let Some(part) = build.into_iter().flat_map(|build| build.split('.')).find(|part| !fits(part)) {
            return Err(format!(
                "Invalid character(s) found in build meta data {}",
                pillion_rules::field::quoted(part)
            ));
        }
        Ok(Semver { numbers, pre_release: parsed })
    }

    /// As [`Semver::parse`], for versions such as `v1.2`.
    pub(super) fn parse_lenient(text: &str) -> Result<Semver, String> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let mut parts: Vec<String> = text
            .splitn(3, '.')
            .map(|part| {
                let short = part.trim_start_matches('0');
                let starts_with_digit = short.starts_with(|c: char| c.is_ascii_digit());
                match part.len() {
                    0 | 1 => part.to_owned(),
                    _ if starts_with_digit => short.to_owned(),
                    _ => format!("0{short}"),
                }
            })
            .collect();
        if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
            return Err("short version cannot contain PreRelease/Build meta data".to_owned());
        }
        while parts.len() < 3 {
            parts.push("0".to_owned());
        }
        Semver::parse(&parts.join("."))
    }

    pub(crate) fn compare(&self, other: &Semver) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, true) => Ordering::Equal,
                // A version comes after its own pre-releases.
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                (false, false) => self.pre_release.cmp(&other.pre_release),
            }
        })
    }
}

fn number(what: &str, text: &str) -> Result<u64, String> {
    let shown = pillion_rules::field::quoted(text);
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("Invalid character(s) found in {} number {shown}", what.to_lowercase()));
    }
    if text.len() > 1 && text.starts_with('0') {
        return Err(format!("{what} number must not contain leading zeroes {shown}"));
    }
    text.parse().map_err(|_| format!("strconv.ParseUint: parsing {shown}: value out of range"))
}
