//! Roles and their bindings. They are kept, and not enforced.

use serde_json::{Value, json};

use crate::field::{Error, Path};
use crate::format::{check, dns_subdomain, path_segment};
use crate::metadata::{self, path_segment_name};
use crate::rules::{Rules, STORED};
use crate::selector;
use crate::value::{fill, fill_text, has, items_mut, list, object_mut, text};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Rules of `Roles`.
pub(crate) const ROLE: Rules = Rules {
    default: |_| {},
    validate: |role| validate_role(role, true),
    validate_update: |new, old| updated(validate_role(new, true), new, old),
    create_on_update: true,
    ..STORED
};

/// Rules of `ClusterRoles`.
pub(crate) const CLUSTER_ROLE: Rules = Rules {
    validate: |role| validate_role(role, false),
    validate_update: |new, old| updated(validate_role(new, false), new, old),
    ..ROLE
};

/// Rules of `RoleBindings`.
pub(crate) const ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |binding| validate_binding(binding, true),
    validate_update: |new, old| updated_binding(validate_binding(new, true), new, old),
    ..ROLE
};

/// Rules of `ClusterRoleBindings`.
pub(crate) const CLUSTER_ROLE_BINDING: Rules = Rules {
    default: default_binding,
    validate: |binding| validate_binding(binding, false),
    validate_update: |new, old| updated_binding(validate_binding(new, false), new, old),
    ..ROLE
};

fn default_binding(binding: &mut Value) {
    fill_text(object_mut(binding, "roleRef"), "apiGroup", GROUP);
    for subject in items_mut(binding, "subjects") {
        if ["User", "Group"].contains(&text(subject, "kind")) {
            fill(subject, "apiGroup", GROUP);
        }
    }
}

fn updated(mut errors: Vec<Error>, new: &Value, old: &Value) -> Vec<Error> {
    errors.extend(metadata::validate_update_strict(&new["metadata"], &old["metadata"], &Path::new("metadata")));
    errors
}

fn updated_binding(errors: Vec<Error>, new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = updated(errors, new, old);
    if new["roleRef"] != old["roleRef"] {
        let role = &new["roleRef"];
        let shown = json!({"APIGroup": text(role, "apiGroup"), "Kind": text(role, "kind"), "Name": text(role, "name")});
        errors.push(Error::invalid(&Path::new("roleRef"), shown, "cannot change roleRef"));
    }
    errors
}

fn validate_role(role: &Value, namespaced: bool) -> Vec<Error> {
    let mut errors =
        metadata::validate_strict(&role["metadata"], &Path::new("metadata"), namespaced, path_segment_name);
    for (i, rule) in list(role, "rules").iter().enumerate() {
        validate_rule(rule, namespaced, &Path::new("rules").index(i), &mut errors);
    }
    if has(role, "aggregationRule") {
        let path = Path::new("aggregationRule").child("clusterRoleSelectors");
        let selectors = list(&role["aggregationRule"], "clusterRoleSelectors");
        if selectors.is_empty() {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(Error::required(&path, detail));
        }
        for (i, selector) in selectors.iter().enumerate() {
            selector::validate(selector, &path.index(i), &mut errors);
        }
    }
    errors
}

fn validate_rule(rule: &Value, namespaced: bool, path: &Path, errors: &mut Vec<Error>) {
    if list(rule, "verbs").is_empty() {
        errors.push(Error::required(&path.child("verbs"), "verbs must contain at least one value"));
    }
    let urls = list(rule, "nonResourceURLs");
    let (groups, resources) = (list(rule, "apiGroups"), list(rule, "resources"));
    if !urls.is_empty() {
        let mut refuse =
            |detail: &str| errors.push(Error::invalid(&path.child("nonResourceURLs"), urls.to_vec(), detail));
        if namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !groups.is_empty() || !resources.is_empty() || !list(rule, "resourceNames").is_empty() {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if groups.is_empty() {
        errors.push(Error::required(&path.child("apiGroups"), "resource rules must supply at least one api group"));
    }
    if resources.is_empty() {
        errors.push(Error::required(&path.child("resources"), "resource rules must supply at least one resource"));
    }
}

fn validate_binding(binding: &Value, namespaced: bool) -> Vec<Error> {
    let mut errors =
        metadata::validate_strict(&binding["metadata"], &Path::new("metadata"), namespaced, path_segment_name);
    let (role, path) = (&binding["roleRef"], Path::new("roleRef"));
    let group = text(role, "apiGroup");
    if group != GROUP {
        errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(Error::not_supported(&path.child("kind"), text(role, "kind"), kinds));
    }
    match text(role, "name") {
        "" => errors.push(Error::required(&path.child("name"), "")),
        name => check(path_segment(name), name, &path.child("name"), &mut errors),
    }
    for (i, subject) in list(binding, "subjects").iter().enumerate() {
        validate_subject(subject, namespaced, &Path::new("subjects").index(i), &mut errors);
    }
    errors
}

fn validate_subject(subject: &Value, namespaced: bool, path: &Path, errors: &mut Vec<Error>) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), ""));
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                check(dns_subdomain(name), name, &path.child("name"), errors);
            }
            if !group.is_empty() {
                errors.push(Error::not_supported(&path.child("apiGroup"), group, &[""]));
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.push(Error::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" if group != GROUP => {
            errors.push(Error::not_supported(&path.child("apiGroup"), group, &[GROUP]));
        }
        "User" | "Group" => {}
        other => {
            errors.push(Error::not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]));
        }
    }
}
