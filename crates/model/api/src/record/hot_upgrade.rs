//! What a pod carries for a sidecar that is upgraded by handing over to a second container: the pair's names, which of the two
//! works, and the versions of both.

use std::collections::BTreeMap;
use std::fmt;

use crate::names;

/// The names of a sidecar's pair of containers.
pub fn pair(sidecar: &str) -> [String; 2] {
    [format!("{sidecar}-1"), format!("{sidecar}-2")]
}

/// The annotation with the version of one container of a pair.
pub fn version_annotation(container: &str) -> String {
    format!("{}{container}", names::HOT_UPGRADE_VERSION_PREFIX)
}

/// The annotation with the version of the other container of the pair.
pub fn other_version_annotation(container: &str) -> String {
    format!("{}{container}", names::HOT_UPGRADE_VERSION_ALT_PREFIX)
}

/// The version annotations of a pair whose containers have these versions.
pub fn version_annotations(sidecar: &str, versions: [u64; 2]) -> [(String, String); 4] {
    let ([first, second], [one, two]) = (pair(sidecar), versions.map(|version| version.to_string()));
    [
        (version_annotation(&first), one.clone()),
        (other_version_annotation(&first), two.clone()),
        (version_annotation(&second), two),
        (other_version_annotation(&second), one),
    ]
}

/// The value of [`names::WORKING_HOT_UPGRADE_CONTAINER`]: for each sidecar the container of its pair that works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Working {
    by_sidecar: BTreeMap<String, String>,
}

impl Working {
    /// Reads the annotation. One that cannot be read is the same as none, as in Kruise.
    pub fn parse(text: &str) -> Working {
        Working { by_sidecar: serde_json::from_str(text).unwrap_or_default() }
    }

    /// Whether the text of the annotation can be read.
    pub fn is_readable(text: &str) -> bool {
        serde_json::from_str::<BTreeMap<String, String>>(text).is_ok()
    }

    /// The container of the sidecar's pair that works.
    pub fn get(&self, sidecar: &str) -> Option<&str> {
        self.by_sidecar.get(sidecar).map(String::as_str)
    }

    /// Every sidecar with the container of its pair that works.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.by_sidecar.iter().map(|(sidecar, container)| (sidecar.as_str(), container.as_str()))
    }

    /// Records that `container` works.
    pub fn set(&mut self, sidecar: &str, container: String) {
        self.by_sidecar.insert(sidecar.to_owned(), container);
    }
}

/// The text of the annotation.
impl fmt::Display for Working {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.by_sidecar).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_working_containers_are_read_and_written() {
        let mut working = Working::parse(r#"{"mesh":"mesh-2"}"#);
        assert_eq!(working.get("mesh"), Some("mesh-2"));
        working.set("logs", "logs-1".to_owned());
        assert_eq!(working.to_string(), r#"{"logs":"logs-1","mesh":"mesh-2"}"#);
        assert_eq!(Working::parse("nonsense"), Working::default());
        assert_eq!(["{}", r#"{"mesh":5}"#, "nonsense"].map(Working::is_readable), [true, false, false]);
    }

    #[test]
    fn each_container_of_a_pair_has_its_own_version_and_that_of_the_other() {
        let written = version_annotations("mesh", [3, 0]);
        let expected = [
            ("version.sidecarset.kruise.io/mesh-1", "3"),
            ("versionalt.sidecarset.kruise.io/mesh-1", "0"),
            ("version.sidecarset.kruise.io/mesh-2", "0"),
            ("versionalt.sidecarset.kruise.io/mesh-2", "3"),
        ];
        assert_eq!(
            written.map(|(key, value)| format!("{key}={value}")),
            expected.map(|(key, value)| format!("{key}={value}"))
        );
    }
}
