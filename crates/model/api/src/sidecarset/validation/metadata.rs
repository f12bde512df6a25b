//! The set's own name, labels and annotations, and whether it may be the canary that they say it is.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use pillion_rules::format::{self, label_value, qualified_name};
use pillion_rules::metadata::validate_annotation_entries;

use super::{Context, check};
use crate::field::{Error, Path};
use crate::names;
use crate::sidecarset::{SidecarSet, UpdateStrategyType};

const NAME_LIMIT: usize = 63;

pub(super) fn validate(metadata: &ObjectMeta, errors: &mut Vec<Error>) {
    let path = Path::new("metadata");
    match metadata.name.as_deref().unwrap_or_default() {
        // The API server makes up the name after the mutating webhooks.
        "" if metadata.generate_name.is_some() => {}
        "" => errors.push(Error::required(&path.child("name"), "name or generateName is required")),
        name => check(validate_name(name), name, &path.child("name"), errors),
    }
    let labels = path.child("labels");
    for (key, value) in metadata.labels.iter().flatten() {
        format::check(qualified_name(key), key, &labels, errors);
        format::check(label_value(value), value, &labels.key(key), errors);
    }
    validate_annotations(metadata.annotations.iter().flatten(), &path.child("annotations"), errors);
}

/// A name that is also the value of a label, on each of the set's revisions.
fn validate_name(name: &str) -> Result<(), String> {
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Err("sidecarset name must consist of alphanumeric characters or '-'".to_owned());
    }
    if name.len() > NAME_LIMIT {
        return Err(format!("must be no more than {NAME_LIMIT} bytes"));
    }
    Ok(())
}

pub(super) fn validate_annotations<'a>(
    annotations: impl Iterator<Item = (&'a String, &'a String)>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    validate_annotation_entries(annotations.map(|(key, value)| (key.as_str(), value.as_str())), path, errors);
}

/// A canary stands in for another set, which must be there, for good, and no canary itself.
pub(super) fn validate_canary(
    set: &SidecarSet,
    old: Option<&SidecarSet>,
    context: &Context<'_>,
    errors: &mut Vec<Error>,
) {
    let Some(base) = set.canary_base() else { return };
    let path = Path::new("metadata").child("annotations").key(names::CANARY_BASE);
    let mut refuse = |detail: String| errors.push(Error::invalid(&path, base, detail));

    if old.is_some_and(|old| old.annotation(names::CANARY_BASE) != Some(base)) {
        refuse(format!("annotations[{}] is immutable", names::CANARY_BASE));
    }
    if base == set.name() {
        refuse("base sidecarSet cannot be itself".to_owned());
    } else if let Some(sets) = context.sets {
        match sets.iter().find(|other| other.name() == base) {
            None => {
                refuse(format!("fetch base sidecarSet[{base}] failed: sidecarsets.apps.kruise.io {base:?} not found"));
            }
            Some(found) if found.canary_base().is_some() => refuse("base sidecarSet cannot be canary".to_owned()),
            Some(_) => {}
        }
    }
    if set.spec.update_strategy.strategy != Some(UpdateStrategyType::NotUpdate) {
        let path = Path::new("spec").child("updateStrategy").child("type");
        errors.push(Error::forbidden(&path, "RollingUpdate is not supported for canary sidecarSet: use NotUpdate"));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{lines, set};
    use super::super::{validate, validate_update};
    use super::*;

    #[test]
    fn names_labels_and_annotations_have_their_forms() {
        let mut set = set("my_set", json!({}));
        set.metadata.labels = Some([("a".to_owned(), "b c".to_owned()), ("/a".to_owned(), String::new())].into());
        set.metadata.annotations =
            Some([("A/b".to_owned(), String::new()), ("c d".to_owned(), "x".repeat(256 << 10))].into());
        insta::assert_snapshot!(lines(&validate(&set, &Context::default())), @r#"
        metadata.name: Invalid value: "my_set": sidecarset name must consist of alphanumeric characters or '-'
        metadata.labels: Invalid value: "/a": prefix part must be non-empty
        metadata.labels[a]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        metadata.annotations: Invalid value: "c d": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        metadata.annotations: Too long: may not be more than 262144 bytes
        "#);
        set.metadata = ObjectMeta { name: Some("a".repeat(64)), ..ObjectMeta::default() };
        insta::assert_snapshot!(lines(&validate(&set, &Context::default())), @r#"metadata.name: Invalid value: "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": must be no more than 63 bytes"#);
        set.metadata.name = None;
        insta::assert_snapshot!(lines(&validate(&set, &Context::default())), @"metadata.name: Required value: name or generateName is required");
        set.metadata.generate_name = Some("a-".to_owned());
        assert_eq!(validate(&set, &Context::default()), []);
    }

    fn canary(name: &str, base: &str, strategy: &str) -> SidecarSet {
        let mut set = set(name, json!({"updateStrategy": {"type": strategy}}));
        let annotations = [(names::CANARY, "true"), (names::CANARY_BASE, base)];
        set.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        set
    }

    /// The rows of `TestValidateSidecarSetCanaryAnnotations` of Kruise.
    #[test]
    fn a_canary_has_a_base_that_is_there_and_none_itself() {
        let sets = [&set("base", json!({})), &canary("other-canary", "base", "NotUpdate")];
        let errors = |set: &SidecarSet| {
            let mut errors = Vec::new();
            validate_canary(set, None, &Context { sets: Some(&sets), ..Context::default() }, &mut errors);
            lines(&errors)
        };
        let canary_of = |base: &str| canary("test", base, "NotUpdate");
        assert_eq!(errors(&set("test", json!({}))), "");
        assert_eq!(errors(&canary_of("base")), "");
        insta::assert_snapshot!(errors(&canary_of("test")), @r#"metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "test": base sidecarSet cannot be itself"#);
        insta::assert_snapshot!(errors(&canary_of("other-canary")), @r#"metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "other-canary": base sidecarSet cannot be canary"#);
        insta::assert_snapshot!(errors(&canary_of("nobody")), @r#"metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "nobody": fetch base sidecarSet[nobody] failed: sidecarsets.apps.kruise.io "nobody" not found"#);
        insta::assert_snapshot!(errors(&canary("test", "base", "RollingUpdate")), @"spec.updateStrategy.type: Forbidden: RollingUpdate is not supported for canary sidecarSet: use NotUpdate");

        let mut shouting = canary_of("nobody");
        shouting.metadata.annotations.as_mut().unwrap().insert(names::CANARY.to_owned(), "TRUE".to_owned());
        assert_eq!(errors(&shouting), "", "only exactly \"true\" makes a canary");
    }

    #[test]
    fn the_base_of_a_canary_stays() {
        let update = |new: &SidecarSet, old: &SidecarSet| lines(&validate_update(new, old, &Context::default()));
        let canary = |base: &str| canary("test", base, "NotUpdate");
        assert_eq!(update(&canary("base"), &canary("base")), "");
        insta::assert_snapshot!(update(&canary("new"), &canary("old")), @r#"metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "new": annotations[apps.kruise.io/sidecarset-base] is immutable"#);
        insta::assert_snapshot!(update(&canary("new"), &set("test", json!({}))), @r#"metadata.annotations[apps.kruise.io/sidecarset-base]: Invalid value: "new": annotations[apps.kruise.io/sidecarset-base] is immutable"#);
        assert_eq!(update(&set("test", json!({})), &canary("old")), "", "a canary can become a set of its own");
    }
}
