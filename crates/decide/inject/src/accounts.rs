//! The service accounts that may be injected, and the one that a pod gets.

use imbl::OrdSet;
use pillion_api::names;
use pillion_api::sidecarset::ServiceAccountPolicy;
use pillion_note::{Denied, Draft, Note, Reason, Subject};
use serde_json::Value;

use crate::body::Body;

const FIELD: &str = "serviceAccountName";
/// The older name of the field. The API server writes both, and a pod that has both must have them alike.
const OLD_FIELD: &str = "serviceAccount";
/// The account of pods that name none.
const DEFAULT: &str = "default";

/// The service accounts that carry the annotation [`names::INJECTABLE`]. Kubernetes asks nobody for the right to use an account, so that its
/// owner has to say that pods may get it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// `NAMESPACE/NAME`, which neither part can contain more of.
    known: OrdSet<String>,
}

impl Accounts {
    /// Whether an account with these annotations may be injected.
    pub fn is_injectable<'a>(annotations: impl IntoIterator<Item = (&'a str, &'a str)>) -> bool {
        annotations.into_iter().any(|annotation| annotation == (names::INJECTABLE, "true"))
    }

    /// Adds an account that may be injected.
    pub fn insert(&mut self, namespace: &str, name: &str) {
        self.known.insert(key(namespace, name));
    }

    /// Adds an object, if it is an account that may be injected. One that names no namespace is in `namespace`.
    pub fn insert_object(&mut self, object: &Value, namespace: &str) {
        let metadata = &object["metadata"];
        let annotations = metadata["annotations"].as_object().into_iter().flatten();
        let mut annotations = annotations.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
        if Accounts::is_injectable(annotations.by_ref())
            && let Some(name) = metadata["name"].as_str()
        {
            self.insert(metadata["namespace"].as_str().filter(|own| !own.is_empty()).unwrap_or(namespace), name);
        }
    }

    /// Removes an account.
    pub fn remove(&mut self, namespace: &str, name: &str) {
        self.known.remove(&key(namespace, name));
    }

    fn contains(&self, namespace: &str, name: &str) -> bool {
        self.known.contains(&key(namespace, name))
    }
}

fn key(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Gives the pod the service account that a set asks for: by default only where it would run as the namespace's `default`. Of sets that ask for
/// different ones the first by name counts.
///
/// # Errors
/// The set requires its account, and the pod cannot get it.
pub(crate) fn write(draft: &mut Draft<'_>, bodies: &[&Body], accounts: &Accounts) -> Result<(), Denied> {
    for body in bodies {
        let Some(wanted) = &body.set.spec.service_account else { continue };
        let (set, name) = (body.set.name(), wanted.name.as_str());
        let namespace = draft.pod().namespace();
        let text = |field: &str| draft.field(field).and_then(Value::as_str).filter(|name| !name.is_empty());
        let own = text(FIELD).or_else(|| text(OLD_FIELD)).unwrap_or(DEFAULT);
        let reason = if own == name {
            continue;
        } else if own != DEFAULT {
            format!("the pod runs as the service account {own:?}, and not as {DEFAULT:?}")
        } else if !accounts.contains(namespace, name) {
            format!(
                "namespace {namespace:?} has no ServiceAccount {name:?} with the annotation {}: \"true\"",
                names::INJECTABLE
            )
        } else {
            let had_old = text(OLD_FIELD).is_some();
            draft.set_field(FIELD, name.into());
            if had_old {
                draft.set_field(OLD_FIELD, name.into());
            }
            let message = format!("the pod runs as the service account {name:?}");
            draft.note(Note::info(Subject::sidecar_set(set), Reason::PodField, message));
            continue;
        };
        if wanted.policy == Some(ServiceAccountPolicy::Required) {
            return Err(Denied::ServiceAccount { set: set.to_owned(), account: name.to_owned(), reason });
        }
        let message = format!("the service account stays {own:?} instead of {name:?}: {reason}");
        draft.note(Note::warning(Subject::sidecar_set(set), Reason::PodField, message));
    }
    Ok(())
}
