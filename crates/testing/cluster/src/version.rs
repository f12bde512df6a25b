//! Which Kubernetes: the version asked for, and the patch release it is pinned to.

use std::fmt;
use std::str::FromStr;

/// The tested patch release of each minor version. The last one is the default.
const PINNED: [(u32, u32); 3] = [(33, 13), (34, 10), (35, 8)];

/// A Kubernetes 1.x version as asked for: a minor version, or one exact patch release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KubernetesVersion {
    minor: u32,
    patch: u32,
    exact: bool,
}

impl KubernetesVersion {
    /// The minor version, the 35 of 1.35.8.
    pub fn minor(self) -> u32 {
        self.minor
    }

    /// The tag of `k8s.io/kubernetes`.
    pub fn tag(self) -> String {
        format!("v{self}")
    }

    /// The tag of the modules that are published out of its staging folder.
    pub fn staging_tag(self) -> String {
        format!("v0.{}.{}", self.minor, self.patch)
    }

    /// Whether a program that calls itself `found` will do: the same minor version, and the same patch release if one
    /// was asked for.
    pub fn fits(self, found: &str) -> bool {
        let mut numbers = found.split('.');
        let (major, minor) = (numbers.next(), numbers.next());
        major == Some("1")
            && minor == Some(self.minor.to_string().as_str())
            && (!self.exact || numbers.next() == Some(self.patch.to_string().as_str()))
    }
}

impl Default for KubernetesVersion {
    fn default() -> Self {
        let (minor, patch) = PINNED[PINNED.len() - 1];
        Self { minor, patch, exact: false }
    }
}

impl fmt::Display for KubernetesVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "1.{}.{}", self.minor, self.patch)
    }
}

impl FromStr for KubernetesVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> = text.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[1, minor, patch]) => Ok(Self { minor, patch, exact: true }),
            Some(&[1, minor]) => match PINNED.iter().find(|pinned| pinned.0 == minor) {
                Some(&(minor, patch)) => Ok(Self { minor, patch, exact: false }),
                None => Err(format!("no patch release of 1.{minor} is pinned: name one, such as 1.{minor}.0")),
            },
            _ => Err(format!("{text:?} is not a Kubernetes version such as 1.35 or 1.35.8")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minor_version_is_pinned_to_its_tested_patch_release() {
        for (asked, pinned) in [("1.33", "1.33.13"), ("1.34", "1.34.10"), ("1.35", "1.35.8"), ("v1.35.4", "1.35.4")] {
            assert_eq!(asked.parse::<KubernetesVersion>().unwrap().to_string(), pinned);
        }
        assert_eq!(KubernetesVersion::default(), "1.35".parse().unwrap());
    }

    #[test]
    fn what_is_no_version_is_refused_with_a_hint() {
        for wrong in ["", "35", "1.x", "2.1", "1.35.8.1", "1.35-rc.1"] {
            assert!(wrong.parse::<KubernetesVersion>().unwrap_err().contains("such as 1.35"), "{wrong}");
        }
        assert!("1.20".parse::<KubernetesVersion>().unwrap_err().contains("1.20.0"));
    }

    #[test]
    fn a_program_fits_by_minor_version_unless_a_patch_release_was_asked_for() {
        let minor: KubernetesVersion = "1.35".parse().unwrap();
        let exact: KubernetesVersion = "1.35.8".parse().unwrap();
        for (found, fits_minor, fits_exact) in [
            ("1.35.8", true, true),
            ("1.35.0", true, false),
            ("1.32.4-dispatcher", false, false),
            ("1.3.5", false, false),
            ("0.35.8", false, false),
            ("", false, false),
        ] {
            assert_eq!((minor.fits(found), exact.fits(found)), (fits_minor, fits_exact), "{found}");
        }
    }
}
