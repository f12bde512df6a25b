//! Where a sidecar reads the name of the app container whose variables it copies.

use pillion_rules::format::qualified_name;
use pillion_rules::pod::split_subscript;

use super::FieldRef;

/// A label or an annotation of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataKey<'a> {
    /// `metadata.labels['…']`
    Label(&'a str),
    /// `metadata.annotations['…']`
    Annotation(&'a str),
}

/// Why a `fieldRef` cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FieldRefError {
    /// A version other than `v1`.
    #[error("unsupported pod version: {0}")]
    Version(String),
    /// Neither a label nor an annotation.
    #[error("field label not supported: {0}: use metadata.labels['key'] or metadata.annotations['key']")]
    Path(String),
    /// A key that no label or annotation has.
    #[error("{key:?} is no key: {reason}")]
    Key {
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl FieldRef {
    /// What of the pod's metadata is meant.
    ///
    /// # Errors
    /// Another version, another field, or a key that cannot exist.
    pub fn metadata_key(&self) -> Result<MetadataKey<'_>, FieldRefError> {
        match self.api_version.as_deref() {
            None | Some("" | "v1") => {}
            Some(other) => return Err(FieldRefError::Version(other.to_owned())),
        }
        match split_subscript(&self.field_path) {
            Some(("metadata.labels", key)) => {
                check_key(key, key)?;
                Ok(MetadataKey::Label(key))
            }
            Some(("metadata.annotations", key)) => {
                // Annotation keys are compared in lower case by the API server.
                check_key(key, &key.to_lowercase())?;
                Ok(MetadataKey::Annotation(key))
            }
            _ => Err(FieldRefError::Path(self.field_path.clone())),
        }
    }
}

fn check_key(key: &str, compared: &str) -> Result<(), FieldRefError> {
    let reason = qualified_name(compared).into_iter().next();
    reason.map_or(Ok(()), |reason| Err(FieldRefError::Key { key: key.to_owned(), reason }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(api_version: Option<&str>, field_path: &str) -> Result<String, String> {
        let field_ref = FieldRef { api_version: api_version.map(str::to_owned), field_path: field_path.to_owned() };
        field_ref.metadata_key().map(|key| format!("{key:?}")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_field_ref_names_a_label_or_an_annotation() {
        assert_eq!(read(Some("v1"), "metadata.labels['app']"), Ok(r#"Label("app")"#.into()));
        assert_eq!(read(None, "metadata.annotations['a.io/Key']"), Ok(r#"Annotation("a.io/Key")"#.into()));
    }

    #[test]
    fn anything_else_is_refused_with_the_reason() {
        assert_eq!(read(Some("v2"), "metadata.labels['app']"), Err("unsupported pod version: v2".into()));
        for path in ["metadata.name", "metadata.labels", "spec.nodeName['a']", "['a']", "metadata.labels['a'"] {
            let error = read(None, path).unwrap_err();
            assert!(error.starts_with(&format!("field label not supported: {path}")), "{error}");
        }
        assert_eq!(read(None, "metadata.labels['']"), Err(r#""" is no key: name part must be non-empty"#.into()));
    }
}
