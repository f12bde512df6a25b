//! Credentials: literal, or in a Secret.

use super::reader::Field;

/// A key of a Secret in the pod's namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretKey {
    /// The Secret.
    pub name: String,
    pub key: String,
}

/// A value that may be secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// As it is written.
    Literal(String),
    /// `{secretKeyRef: {name, key}}`
    Secret(SecretKey),
}

impl SecretKey {
    pub(super) fn read(field: &Field<'_>) -> SecretKey {
        field.mapping(&["name", "key"]);
        let text = |name: &str| {
            let text = field.get(&[name]).map(|text| text.word());
            if text.is_none() {
                field.wrong(format!("a reference to a Secret needs a `{name}`"));
            }
            text.unwrap_or_default()
        };
        SecretKey { name: text("name"), key: text("key") }
    }
}

impl Credential {
    pub(super) fn read(field: &Field<'_>) -> Credential {
        match field.get(&["secretKeyRef"]) {
            Some(reference) => Credential::Secret(SecretKey::read(&reference)),
            None => Credential::Literal(field.text()),
        }
    }
}
