//! Metadata of objects: the same rules for every kind, custom ones included. Only the form of the name differs.

use serde_json::{Value, json};

use crate::field::{Error, IMMUTABLE, Path};
use crate::format::{
    Complaints, check, dns_label, dns_subdomain, dns1035_label, non_negative, path_segment, qualified_name,
};
use crate::selector::validate_labels;
use crate::value::{int, list, same, text};

/// The form of a name. The second argument says that the name is a prefix to which random characters are added.
pub type NameRule = fn(&str, bool) -> Complaints;

/// All keys and values of the annotations together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// A name that is a DNS name: most kinds, and custom resources.
pub fn subdomain_name(name: &str, prefix: bool) -> Complaints {
    dns_subdomain(&masked(name, prefix))
}

/// A name that is one label of a DNS name: namespaces.
pub fn label_name(name: &str, prefix: bool) -> Complaints {
    dns_label(&masked(name, prefix))
}

/// A name that is one label of a DNS name and starts with a letter.
pub fn dns1035_name(name: &str, prefix: bool) -> Complaints {
    dns1035_label(&masked(name, prefix))
}

/// A name that only has to fit into a path: RBAC.
pub fn path_segment_name(name: &str, _prefix: bool) -> Complaints {
    path_segment(name)
}

/// A prefix may end in a dash, since something follows it.
fn masked(name: &str, prefix: bool) -> std::borrow::Cow<'_, str> {
    match name.strip_suffix('-') {
        // As the API server does it: the character before the dash goes too.
        Some(head) if prefix && !head.is_empty() => {
            let end = head.char_indices().next_back().map_or(0, |(i, _)| i);
            format!("{}a", head.get(..end).unwrap_or_default()).into()
        }
        _ => name.into(),
    }
}

/// Checks the metadata of a new object.
pub fn validate(meta: &Value, path: &Path, namespaced: bool, name_rule: NameRule) -> Vec<Error> {
    let mut errors = Vec::new();
    let (name, generate_name, namespace) = (text(meta, "name"), text(meta, "generateName"), text(meta, "namespace"));
    if !generate_name.is_empty() {
        check(name_rule(generate_name, true), generate_name, &path.child("generateName"), &mut errors);
    }
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "name or generateName is required"));
    } else {
        check(name_rule(name, false), name, &path.child("name"), &mut errors);
    }
    match (namespaced, namespace) {
        (true, "") => errors.push(Error::required(&path.child("namespace"), "")),
        (true, _) => check(dns_label(namespace), namespace, &path.child("namespace"), &mut errors),
        (false, "") => {}
        (false, _) => errors.push(Error::forbidden(&path.child("namespace"), "not allowed on this type")),
    }
    non_negative(int(meta, "generation"), &path.child("generation"), &mut errors);
    validate_labels(&meta["labels"], &path.child("labels"), &mut errors);
    validate_annotations(&meta["annotations"], &path.child("annotations"), &mut errors);
    validate_owners(list(meta, "ownerReferences"), &path.child("ownerReferences"), &mut errors);
    validate_finalizers(list(meta, "finalizers"), &path.child("finalizers"), &mut errors);
    errors
}

/// Checks the metadata of an update against what was there.
pub fn validate_update(new: &Value, old: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        validate_no_new_finalizers(new, old, &path.child("finalizers"), &mut errors);
    }
    if text(new, "resourceVersion").is_empty() {
        errors.push(Error::invalid(&path.child("resourceVersion"), "", "must be specified for an update"));
    }
    if int(new, "generation") < int(old, "generation") {
        let generation = int(new, "generation");
        errors.push(Error::invalid(&path.child("generation"), generation, "must not be decremented"));
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.push(Error::invalid(&path.child(field), text(new, field), IMMUTABLE));
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        validate_immutable(&new[field], &old[field], &path.child(field), &mut errors);
    }
    validate_labels(&new["labels"], &path.child("labels"), &mut errors);
    validate_annotations(&new["annotations"], &path.child("annotations"), &mut errors);
    validate_owners(list(new, "ownerReferences"), &path.child("ownerReferences"), &mut errors);
    errors
}

/// As [`validate`], for Kubernetes' own kinds: a finalizer has a domain or is one of Kubernetes' own.
pub fn validate_strict(meta: &Value, path: &Path, namespaced: bool, name_rule: NameRule) -> Vec<Error> {
    let mut errors = validate(meta, path, namespaced, name_rule);
    validate_known_finalizers(meta, &path.child("finalizers"), &mut errors);
    errors
}

/// As [`validate_update`], for Kubernetes' own kinds.
pub fn validate_update_strict(new: &Value, old: &Value, path: &Path) -> Vec<Error> {
    let mut errors = validate_update(new, old, path);
    validate_known_finalizers(new, &path.child("finalizers"), &mut errors);
    errors
}

fn validate_known_finalizers(meta: &Value, path: &Path, errors: &mut Vec<Error>) {
    for (i, finalizer) in list(meta, "finalizers").iter().filter_map(Value::as_str).enumerate() {
        validate_known_finalizer(finalizer, &path.index(i), errors);
    }
}

/// Refuses a finalizer that has no domain and is not one of Kubernetes' own.
pub fn validate_known_finalizer(finalizer: &str, path: &Path, errors: &mut Vec<Error>) {
    if !finalizer.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.push(Error::invalid(path, finalizer, detail));
    }
}

/// Refuses a field that changed.
pub fn validate_immutable(new: &Value, old: &Value, path: &Path, errors: &mut Vec<Error>) {
    if !same(new, old) {
        errors.push(Error::invalid(path, new.clone(), IMMUTABLE));
    }
}

fn validate_no_new_finalizers(new: &Value, old: &Value, path: &Path, errors: &mut Vec<Error>) {
    let old = list(old, "finalizers");
    let mut added: Vec<String> = list(new, "finalizers")
        .iter()
        .filter(|finalizer| !old.contains(finalizer))
        .map(|finalizer| crate::field::quoted(finalizer.as_str().unwrap_or_default()))
        .collect();
    added.sort();
    added.dedup();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        errors.push(Error::forbidden(path, detail));
    }
}

/// Checks annotations: keys are label keys but for their case, and all together are bounded.
pub fn validate_annotations(annotations: &Value, path: &Path, errors: &mut Vec<Error>) {
    let entries = annotations.as_object().into_iter().flatten();
    validate_annotation_entries(
        entries.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default())),
        path,
        errors,
    );
}

/// Annotations of an object or of a template.
pub fn validate_annotation_entries<'a>(
    annotations: impl IntoIterator<Item = (&'a str, &'a str)>,
    path: &Path,
    errors: &mut Vec<Error>,
) {
    let mut size = 0_usize;
    for (key, value) in annotations {
        check(qualified_name(&key.to_lowercase()), key, path, errors);
        size = size.saturating_add(key.len()).saturating_add(value.len());
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(Error::too_long(path, ANNOTATIONS_LIMIT));
    }
}

fn validate_owners(owners: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let mut controller: Option<String> = None;
    for owner in owners {
        validate_owner(owner, path, errors);
        if owner["controller"] == true {
            let this = format!("{}/{}", text(owner, "kind"), text(owner, "name"));
            match &controller {
                None => controller = Some(this),
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    errors.push(Error::invalid(path, owners.to_vec(), detail));
                }
            }
        }
    }
}

fn validate_owner(owner: &Value, path: &Path, errors: &mut Vec<Error>) {
    let (api_version, kind) = (text(owner, "apiVersion"), text(owner, "kind"));
    let parts: Vec<&str> = api_version.split('/').collect();
    // More than one slash makes no group and no version.
    let (group, version) = match parts[..] {
        [version] => ("", version),
        [group, version] => (group, version),
        _ => ("", ""),
    };
    if version.is_empty() {
        errors.push(Error::invalid(&path.child("apiVersion"), api_version, "version must not be empty"));
    }
    for field in ["kind", "name", "uid"] {
        if text(owner, field).is_empty() {
            errors.push(Error::invalid(&path.child(field), "", "must not be empty"));
        }
    }
    if (group, version, kind) == ("", "v1", "Event") {
        errors.push(Error::invalid(path, owner.clone(), "/v1, Kind=Event is disallowed from being an owner"));
    }
}

fn validate_finalizers(finalizers: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for finalizer in finalizers.iter().filter_map(Value::as_str) {
        check(qualified_name(finalizer), finalizer, path, errors);
    }
    let has = |name: &str| finalizers.iter().any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(Error::invalid(path, json!(finalizers), detail));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(errors: &[Error]) -> String {
        errors.iter().map(Error::to_string).collect::<Vec<_>>().join("\n")
    }

    fn created(meta: Value) -> String {
        lines(&validate(&meta, &Path::new("metadata"), true, subdomain_name))
    }

    #[test]
    fn a_new_object_has_a_name_and_a_namespace() {
        insta::assert_snapshot!(created(json!({})), @r"
        metadata.name: Required value: name or generateName is required
        metadata.namespace: Required value
        ");
        assert_eq!(created(json!({"name": "a", "generateName": "a-", "namespace": "b"})), "");
        let cluster = validate(&json!({"name": "a", "namespace": "b"}), &Path::new("metadata"), false, subdomain_name);
        insta::assert_snapshot!(lines(&cluster), @"metadata.namespace: Forbidden: not allowed on this type");
    }

    #[test]
    fn a_prefix_may_end_in_a_dash_but_not_begin_with_one() {
        assert_eq!(subdomain_name("a-", true), Complaints::new());
        assert_ne!(subdomain_name("a-", false), Complaints::new());
        assert_ne!(subdomain_name("-", true), Complaints::new());
        assert_eq!(
            subdomain_name("aé-", true),
            Complaints::new(),
            "as in the API server, the character before the dash is not looked at"
        );
    }

    /// The rows of `objectmeta_test.go` for owners and finalizers.
    #[test]
    fn owners_and_finalizers_are_checked() {
        let owner = |kind: &str, controller: bool| json!({"apiVersion": "v1", "kind": kind, "name": "n", "uid": "1", "controller": controller});
        assert_eq!(
            created(
                json!({"name": "a", "namespace": "b", "ownerReferences": [owner("Pod", true), owner("Pod", false)]})
            ),
            ""
        );
        insta::assert_snapshot!(created(json!({"name": "a", "namespace": "b", "ownerReferences": [owner("Pod", true), owner("Node", true)]})), @r#"metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"n","uid":"1","controller":true},{"apiVersion":"v1","kind":"Node","name":"n","uid":"1","controller":true}]: Only one reference can have Controller set to true. Found "true" in references for Pod/n and Node/n"#);
        insta::assert_snapshot!(created(json!({"name": "a", "namespace": "b", "ownerReferences": [{}], "finalizers": ["orphan", "foregroundDeletion"]})), @r#"
        metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty
        metadata.ownerReferences.kind: Invalid value: "": must not be empty
        metadata.ownerReferences.name: Invalid value: "": must not be empty
        metadata.ownerReferences.uid: Invalid value: "": must not be empty
        metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set
        "#);
    }

    #[test]
    fn an_update_keeps_what_the_server_set() {
        let old = json!({"name": "a", "namespace": "b", "uid": "1", "resourceVersion": "1", "generation": 2, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]});
        assert_eq!(validate_update(&old, &old, &Path::new("metadata")), []);
        let new = json!({"name": "c", "namespace": "b", "uid": "2", "generation": 1, "finalizers": ["a/b", "x/y"]});
        insta::assert_snapshot!(lines(&validate_update(&new, &old, &Path::new("metadata"))), @r#"
        metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"x/y"}
        metadata.resourceVersion: Invalid value: "": must be specified for an update
        metadata.generation: Invalid value: 1: must not be decremented
        metadata.name: Invalid value: "c": field is immutable
        metadata.uid: Invalid value: "2": field is immutable
        metadata.deletionTimestamp: Invalid value: null: field is immutable
        "#);
    }
}
