//! `ServiceAccounts`.

use pillion_rules::field::{Error, Path};
use pillion_rules::metadata::{self, subdomain_name};
use pillion_rules::value::{has, items_mut, text};
use serde_json::{Value, json};

use crate::rules::{Rules, STORED};

pub(crate) const RULES: Rules = Rules {
    prepare_create: keep_names_of_secrets,
    validate,
    prepare_update: |new, _| keep_names_of_secrets(new),
    validate_update,
    warnings,
    ..STORED
};

/// A reference to a secret is its name; the rest says nothing.
fn keep_names_of_secrets(account: &mut Value) {
    for secret in items_mut(account, "secrets") {
        *secret = json!({"name": text(secret, "name")});
    }
}

fn validate(account: &Value) -> Vec<Error> {
    metadata::validate_strict(&account["metadata"], &Path::new("metadata"), true, subdomain_name)
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    errors.extend(validate(new));
    errors
}

fn warnings(account: &Value, old: Option<&Value>) -> Vec<String> {
    let annotation = "kubernetes.io/enforce-mountable-secrets";
    let set = |object: &Value| has(&object["metadata"]["annotations"], annotation);
    let carried = old.is_some_and(set);
    if set(account) && !carried {
        return vec![format!(
            "metadata.annotations[{annotation}]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        )];
    }
    Vec::new()
}
