//! `CustomResourceDefinitions`: everything but the schemas, which are checked where they are compiled.

use pillion_rules::field::{Error, Path};
use pillion_rules::format::{dns_subdomain, dns1035_label};
use pillion_rules::metadata::{self, subdomain_name, validate_immutable};
use pillion_rules::value::{
    copy_fields, fill, fill_text, has, is_empty, list, object_mut, pointer_mut, same, set, text,
};
use serde_json::{Value, json};

use crate::rules::{Rules, WITH_STATUS};
use crate::webhook_client;
use crate::workload::{count_spec_changes, first_generation};

/// The approval that groups of the Kubernetes community need.
const APPROVAL: &str = "api-approved.kubernetes.io";
const COLUMN_TYPES: [&str; 5] = ["boolean", "date", "integer", "number", "string"];
const COLUMN_FORMATS: [&str; 8] = ["byte", "date", "date-time", "double", "float", "int32", "int64", "password"];

pub(crate) const RULES: Rules = Rules {
    default,
    prepare_create,
    validate,
    prepare_update,
    validate_update,
    validate_status,
    unconditional_update: false,
    reset_on_status: &[&["metadata"], &["spec"]],
    ..WITH_STATUS
};

fn default(definition: &mut Value) {
    let spec = object_mut(definition, "spec");
    let names = object_mut(spec, "names");
    let kind = text(names, "kind").to_owned();
    fill_text(names, "singular", &kind.to_lowercase());
    if !kind.is_empty() {
        fill_text(names, "listKind", &format!("{kind}List"));
    }
    fill(spec, "conversion", json!({"strategy": "None"}));
    if let Some(client) = pointer_mut(spec, "conversion")
        .and_then(|conversion| pointer_mut(conversion, "webhook"))
        .and_then(|webhook| pointer_mut(webhook, "clientConfig"))
    {
        webhook_client::default(client);
    }
    add_storage_version(definition, true);
}

fn storage_version(definition: &Value) -> Option<Value> {
    let versions = list(&definition["spec"], "versions");
    versions.iter().find(|version| version["storage"] == true).map(|version| version["name"].clone())
}

/// Remembers the version that objects are stored in.
fn add_storage_version(definition: &mut Value, only_if_none: bool) {
    let version = storage_version(definition);
    let status = object_mut(definition, "status");
    let mut stored = list(status, "storedVersions").to_vec();
    if (only_if_none && !stored.is_empty()) || version.as_ref().is_some_and(|version| stored.contains(version)) {
        return;
    }
    stored.extend(version);
    if !stored.is_empty() {
        set(status, "storedVersions", stored);
    }
}

fn prepare_create(definition: &mut Value) {
    // What has no default is written even when it is empty.
    let status = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": null});
    set(definition, "status", status);
    first_generation(definition);
    add_storage_version(definition, false);
}

fn prepare_update(new: &mut Value, old: &Value) {
    copy_fields(new, old, &["status"]);
    count_spec_changes(new, old);
    add_storage_version(new, false);
}

fn validate(definition: &Value) -> Vec<Error> {
    let (meta, spec) = (&definition["metadata"], &definition["spec"]);
    let path = Path::new("metadata");
    let mut errors = metadata::validate(meta, &path, false, subdomain_name);
    let required = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let name = text(meta, "name");
    if !name.is_empty() && name != required {
        // After what else is wrong with the name.
        let about_name = errors.iter().filter(|error| error.path == path.child("name")).count();
        let error = Error::invalid(&path.child("name"), name, r#"must be spec.names.plural+"."+spec.group"#);
        errors.insert(about_name.min(errors.len()), error);
    }
    validate_spec(spec, true, &mut errors);
    validate_names(&definition["status"]["acceptedNames"], &Path::new("status").child("acceptedNames"), &mut errors);
    validate_stored_versions(definition, &mut errors);
    validate_approval(definition, None, &mut errors);
    validate_preserving(spec, None, &mut errors);
    errors
}

fn validate_update(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    let (spec, old_spec, path) = (&new["spec"], &old["spec"], Path::new("spec"));
    let had_schemas = list(old_spec, "versions").iter().all(|version| has(&version["schema"], "openAPIV3Schema"));
    validate_spec(spec, had_schemas, &mut errors);
    let established = list(&old["status"], "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    if established {
        validate_immutable(&spec["scope"], &old_spec["scope"], &path.child("scope"), &mut errors);
        let kind = path.child("names").child("kind");
        validate_immutable(&spec["names"]["kind"], &old_spec["names"]["kind"], &kind, &mut errors);
    }
    validate_immutable(&spec["group"], &old_spec["group"], &path.child("group"), &mut errors);
    let plural = path.child("names").child("plural");
    validate_immutable(&spec["names"]["plural"], &old_spec["names"]["plural"], &plural, &mut errors);
    validate_names(&new["status"]["acceptedNames"], &Path::new("status").child("acceptedNames"), &mut errors);
    validate_stored_versions(new, &mut errors);
    validate_approval(new, Some(old), &mut errors);
    validate_preserving(spec, Some(old_spec), &mut errors);
    errors
}

fn validate_status(new: &Value, old: &Value) -> Vec<Error> {
    let mut errors = metadata::validate_update(&new["metadata"], &old["metadata"], &Path::new("metadata"));
    validate_names(&new["status"]["acceptedNames"], &Path::new("status").child("acceptedNames"), &mut errors);
    errors
}

fn validate_spec(spec: &Value, schema_required: bool, errors: &mut Vec<Error>) {
    let path = Path::new("spec");
    let group = text(spec, "group");
    let complaints = dns_subdomain(group);
    if group.is_empty() {
        errors.push(Error::required(&path.child("group"), ""));
    } else if !complaints.is_empty() {
        errors.push(Error::invalid(&path.child("group"), group, complaints.join(",")));
    } else if !group.contains('.') {
        errors.push(Error::invalid(&path.child("group"), group, "should be a domain with at least one dot"));
    }
    validate_one_of(text(spec, "scope"), &["Cluster", "Namespaced"], &path.child("scope"), errors);
    let versions = list(spec, "versions");
    for (i, version) in versions.iter().enumerate() {
        if schema_required && !has(&version["schema"], "openAPIV3Schema") {
            let path = path.child("versions").index(i).child("schema").child("openAPIV3Schema");
            errors.push(Error::required(&path, ""));
        }
    }
    validate_versions(versions, &path, errors);
    for field in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], field).is_empty() {
            errors.push(Error::required(&path.child("names").child(field), ""));
        }
    }
    validate_names(&spec["names"], &path.child("names"), errors);
    // What is the same in all versions is looked at once, and blamed on the whole.
    if let Some(first) = versions.first() {
        let everywhere = |field: &str| versions.iter().all(|version| same(&version[field], &first[field]));
        if everywhere("subresources") {
            validate_subresources(&first["subresources"], &path.child("subresources"), errors);
        }
        if everywhere("additionalPrinterColumns") {
            let columns = list(first, "additionalPrinterColumns");
            validate_columns(columns, &path.child("additionalPrinterColumns"), errors);
        }
    }
    // The first version was a field of its own once.
    let first = list(spec, "versions").first().map(|version| text(version, "name")).unwrap_or_default();
    let complaints = dns1035_label(first);
    if !first.is_empty() && !complaints.is_empty() {
        errors.push(Error::invalid(&path.child("version"), first, complaints.join(",")));
    }
    validate_conversion(spec, &path.child("conversion"), errors);
}

fn validate_one_of(value: &str, accepted: &[&str], path: &Path, errors: &mut Vec<Error>) {
    if value.is_empty() {
        errors.push(Error::required(path, ""));
    } else if !accepted.contains(&value) {
        errors.push(Error::not_supported(path, value, accepted));
    }
}

fn validate_versions(versions: &[Value], path: &Path, errors: &mut Vec<Error>) {
    let path = path.child("versions");
    let differs = |field: &str| {
        versions.first().is_some_and(|first| versions.iter().any(|version| !same(&version[field], &first[field])))
    };
    for (i, version) in versions.iter().enumerate() {
        let (name, path) = (text(version, "name"), path.index(i));
        let complaints = dns1035_label(name);
        if !complaints.is_empty() {
            errors.push(Error::invalid(&path.child("name"), name, complaints.join(",")));
        }
        validate_deprecation(version, &path.child("deprecationWarning"), errors);
        if differs("subresources") {
            validate_subresources(&version["subresources"], &path.child("subresources"), errors);
        }
        if differs("additionalPrinterColumns") {
            let columns = list(version, "additionalPrinterColumns");
            validate_columns(columns, &path.child("additionalPrinterColumns"), errors);
        }
    }
    let name = |version: &Value| text(version, "name").to_owned();
    let repeated = versions
        .iter()
        .enumerate()
        .any(|(i, version)| versions.iter().take(i).any(|earlier| name(earlier) == name(version)));
    if repeated {
        errors.push(Error::invalid(&path, shown_versions(versions), "must contain unique version names"));
    }
    if versions.iter().filter(|version| version["storage"] == true).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.push(Error::invalid(&path, shown_versions(versions), detail));
    }
}

/// Versions with the names of their fields in Go, and without what all of them have in common, as the API server shows them.
fn shown_versions(versions: &[Value]) -> Value {
    let Some(first) = versions.first() else { return Value::Null };
    let own = |version: &Value, field: &str| {
        let common = versions.iter().all(|version| same(&version[field], &first[field]));
        if common { Value::Null } else { version[field].clone() }
    };
    let shown = |version: &Value| {
        json!({
            "Name": text(version, "name"),
            "Served": version["served"] == true,
            "Storage": version["storage"] == true,
            "Deprecated": version["deprecated"] == true,
            "DeprecationWarning": version["deprecationWarning"],
            "Schema": own(version, "schema"),
            "Subresources": own(version, "subresources"),
            "AdditionalPrinterColumns": own(version, "additionalPrinterColumns"),
            "SelectableFields": own(version, "selectableFields"),
        })
    };
    versions.iter().map(shown).collect::<Vec<_>>().into()
}

fn validate_deprecation(version: &Value, path: &Path, errors: &mut Vec<Error>) {
    let Some(warning) = version["deprecationWarning"].as_str() else { return };
    let mut refuse = |detail: String| errors.push(Error::invalid(path, warning, detail));
    if version["deprecated"] != true {
        return refuse("can only be set for deprecated versions".to_owned());
    }
    if warning.len() > 256 {
        refuse("must be <= 256 characters long".to_owned());
    }
    if warning.is_empty() {
        refuse("must not be an empty string".to_owned());
    }
    if let Some((at, _)) = warning.char_indices().find(|(_, c)| c.is_control()) {
        refuse(format!("must only contain printable UTF-8 characters; non-printable character found at index {at}"));
    }
}

fn validate_names(names: &Value, path: &Path, errors: &mut Vec<Error>) {
    let mut check = |value: &str, path: &Path, mixed: bool| {
        let complaints = if mixed { dns1035_label(&value.to_lowercase()) } else { dns1035_label(value) };
        if !complaints.is_empty() {
            let prefix = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.push(Error::invalid(path, value, format!("{prefix}{}", complaints.join(","))));
        }
    };
    for (field, mixed) in [("plural", false), ("singular", false), ("kind", true), ("listKind", true)] {
        let name = text(names, field);
        if !name.is_empty() {
            check(name, &path.child(field), mixed);
        }
    }
    for (i, name) in list(names, "shortNames").iter().filter_map(Value::as_str).enumerate() {
        check(name, &path.child("shortNames").index(i), false);
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    let categories: Vec<(usize, &str)> =
        list(names, "categories").iter().filter_map(Value::as_str).enumerate().collect();
    if !kind.is_empty() && kind == list_kind {
        let detail = "kind and listKind may not be the same";
        errors.push(Error::invalid(&path.child("listKind"), list_kind, detail));
    }
    for (i, category) in categories {
        let complaints = dns1035_label(category);
        if !complaints.is_empty() {
            let path = path.child("categories").index(i);
            errors.push(Error::invalid(&path, category, complaints.join(",")));
        }
    }
}

fn validate_columns(columns: &[Value], path: &Path, errors: &mut Vec<Error>) {
    for (i, column) in columns.iter().enumerate() {
        let path = path.index(i);
        if text(column, "name").is_empty() {
            errors.push(Error::required(&path.child("name"), ""));
        }
        let types = format!("must be one of {}", COLUMN_TYPES.join(","));
        match text(column, "type") {
            "" => errors.push(Error::required(&path.child("type"), types)),
            other if !COLUMN_TYPES.contains(&other) => {
                errors.push(Error::invalid(&path.child("type"), other, types));
            }
            _ => {}
        }
        let format = text(column, "format");
        if !format.is_empty() && !COLUMN_FORMATS.contains(&format) {
            let detail = format!("must be one of {}", COLUMN_FORMATS.join(","));
            errors.push(Error::invalid(&path.child("format"), format, detail));
        }
        let path = path.child("JSONPath");
        match text(column, "jsonPath") {
            "" => errors.push(Error::required(&path, "")),
            json_path => {
                validate_json_path(json_path, &path, errors);
            }
        }
    }
}

fn validate_json_path(json_path: &str, path: &Path, errors: &mut Vec<Error>) -> bool {
    let valid = json_path.starts_with('.');
    if !valid {
        errors.push(Error::invalid(path, json_path, "must be a simple json path starting with ."));
    }
    valid
}

fn validate_subresources(subresources: &Value, path: &Path, errors: &mut Vec<Error>) {
    let scale = &subresources["scale"];
    if scale.is_null() {
        return;
    }
    for (field, roots, under, required) in [
        ("specReplicasPath", &[".spec."][..], ".spec", true),
        ("statusReplicasPath", &[".status."][..], ".status", true),
        ("labelSelectorPath", &[".spec.", ".status."][..], "either .spec or .status", false),
    ] {
        let (json_path, path) = (text(scale, field), path.child(format!("scale.{field}")));
        if json_path.is_empty() {
            if required {
                errors.push(Error::required(&path, ""));
            }
        } else if validate_json_path(json_path, &path, errors) && !roots.iter().any(|root| json_path.starts_with(root))
        {
            errors.push(Error::invalid(&path, json_path, format!("should be a json path under {under}")));
        }
    }
}

fn validate_conversion(spec: &Value, path: &Path, errors: &mut Vec<Error>) {
    let conversion = &spec["conversion"];
    if conversion.is_null() {
        return;
    }
    let strategy = text(conversion, "strategy");
    if strategy != "None" && spec["preserveUnknownFields"] == true {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.push(Error::invalid(&path.child("strategy"), strategy, detail));
    }
    validate_one_of(strategy, &["None", "Webhook"], &path.child("strategy"), errors);
    // Paths are those of an older version of the API.
    let (client_path, versions_path) = (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let webhook = &conversion["webhook"];
    if strategy == "Webhook" {
        if has(webhook, "clientConfig") {
            webhook_client::validate(&webhook["clientConfig"], &client_path, errors);
        } else {
            errors.push(Error::required(&client_path, "required when strategy is set to Webhook"));
        }
        let versions = list(webhook, "conversionReviewVersions");
        webhook_client::validate_review_versions(versions, "", &versions_path, errors);
    } else {
        let detail = "should not be set when strategy is not set to Webhook";
        if has(webhook, "clientConfig") {
            errors.push(Error::forbidden(&client_path, detail));
        }
        if !is_empty(webhook, "conversionReviewVersions") {
            errors.push(Error::forbidden(&versions_path, detail));
        }
    }
}

fn validate_stored_versions(definition: &Value, errors: &mut Vec<Error>) {
    let stored = list(&definition["status"], "storedVersions");
    let path = Path::new("status").child("storedVersions");
    if stored.is_empty() {
        return errors.push(Error::invalid(&path, Value::Null, "must have at least one stored version"));
    }
    let versions = list(&definition["spec"], "versions");
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&version["name"]) {
            let detail = format!("must have the storage version {}", text(version, "name"));
            errors.push(Error::invalid(&path, stored.to_vec(), detail));
        }
    }
    for (i, name) in stored.iter().filter_map(Value::as_str).enumerate() {
        if !versions.iter().any(|version| text(version, "name") == name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(Error::invalid(&path.index(i), name, detail));
        }
    }
}

/// Groups of the community need a link to the pull request that approved them, or a word that there is none.
fn validate_approval(definition: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let group = text(&definition["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|head| head.is_empty() || head.ends_with('.')));
    let annotation = |definition: &Value| definition["metadata"]["annotations"][APPROVAL].as_str().map(str::to_owned);
    let state = |approval: Option<&str>| match approval {
        None | Some("") => "missing",
        Some(text) if text.starts_with("unapproved") => "bypassed",
        Some(text) if text.starts_with("https://") || text.starts_with("http://") => "approved",
        Some(_) => "invalid",
    };
    let approval = annotation(definition);
    let new_state = state(approval.as_deref());
    if !protected || old.is_some_and(|old| state(annotation(old).as_deref()) == new_state) {
        return;
    }
    let path = Path::new("metadata").child("annotations").key(APPROVAL);
    match new_state {
        "missing" => errors.push(Error::required(
            &path,
            r#"protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111"#,
        )),
        "invalid" => {
            let approval = approval.unwrap_or_default();
            let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111".to_string();
            errors.push(Error::invalid(&path, approval, detail));
        }
        _ => {}
    }
}

fn validate_preserving(spec: &Value, old: Option<&Value>, errors: &mut Vec<Error>) {
    let field = "preserveUnknownFields";
    if spec[field] == true && old.is_none_or(|old| old[field] != true) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(Error::invalid(&Path::new("spec").child(field), true, detail));
    }
}
