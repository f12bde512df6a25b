//! Adding ephemeral containers to a pod that runs.

use pillion_rules::field::{Error, Path};
use pillion_rules::pod::internal::is_same;
use pillion_rules::pod::read::{annotation, list, text};
use pillion_rules::pod::validation::annotations::MIRROR;
use pillion_rules::pod::validation::report::{Errors, Report, nowhere};
use pillion_rules::pod::validation::{metadata, validate_metadata_and_spec};
use serde_json::Value;

use super::changes::changed_fields;
use super::update::validate_annotations;

/// Checks an update of `pods/ephemeralcontainers`: they are added, and neither changed nor removed.
pub fn validate_ephemeral_containers(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = Errors::new();
    metadata::validate_update(&mut errors, &new["metadata"], &old["metadata"]);
    validate_metadata_and_spec(&mut errors, new);
    validate_annotations(&mut errors, new, old);
    if annotation(old, MIRROR).is_some() {
        return vec![Error::forbidden(&nowhere(), "static pods do not support ephemeral containers")];
    }
    let path = Path::new("spec").child("ephemeralContainers");
    for (i, before) in list(&old["spec"], "ephemeralContainers").iter().enumerate() {
        let name = text(before, "name");
        let after =
            list(&new["spec"], "ephemeralContainers").iter().rev().find(|container| text(container, "name") == name);
        match after {
            None => {
                errors.forbidden(&path, format!("existing ephemeral containers {name:?} may not be removed\n"));
            }
            Some(after) if !is_same("EphemeralContainer", before, after) => {
                let changes = changed_fields(before, after, &path.index(i));
                errors
                    .forbidden(&path, format!("existing ephemeral containers {name:?} may not be changed\n{changes}"));
            }
            Some(_) => {}
        }
    }
    errors
}
