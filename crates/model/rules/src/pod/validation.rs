//! Whether a new pod, or the template of pods, is one.
//!
//! Mistakes come in the order in which the API server finds them. Where Go goes through a map, whose order is random, ours is that of the
//! keys. Fields behind gates that are off by default are not looked at: they were dropped before.

mod affinity;
pub mod annotations;
mod claim;
pub mod container;
mod env;
pub mod format;
pub mod image;
pub mod metadata;
mod mounts;
mod network;
mod paths;
mod ports;
mod probe;
mod projected;
pub mod report;
mod resources;
pub mod scheduling;
pub mod security;
mod sidecar_field;
mod volume;
mod volume_file;

pub use self::env::split_subscript;

use std::collections::BTreeSet;

use serde_json::Value;

use self::report::{Errors, Report, nowhere};
use super::internal;
use super::read::{list, part, pointer_number, pointer_text, text};
use crate::field::{Error, Path};
use crate::metadata::validate_annotations;
use crate::selector::validate_labels;

/// Checks a new pod, after its defaults were filled in.
///
/// ```
/// use pillion_rules::pod;
/// let mut pod = serde_json::json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"containers": [{"name": "Web", "resources": {}}]}});
/// pod::apply_defaults(&mut pod);
/// let errors = pod::validate(&pod);
/// assert_eq!(errors[1].to_string(), "spec.containers[0].image: Required value");
/// ```
pub fn validate(pod: &Value) -> Vec<Error> {
    let mut errors = Errors::new();
    validate_metadata_and_spec(&mut errors, pod);
    let (spec, path) = (&pod["spec"], Path::new("spec"));
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(&path.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        errors.forbidden(&path.child("nodeName"), "cannot be set until all schedulingGates have been cleared");
    }
    errors
}

/// Checks the template of a workload's pods, at `path`.
pub fn validate_template(template: &Value, path: &Path) -> Vec<Error> {
    let mut errors = Errors::new();
    let metadata = &template["metadata"];
    let spec_path = path.child("spec");
    validate_labels(&metadata["labels"], &path.child("labels"), &mut errors);
    validate_annotations(&metadata["annotations"], &path.child("annotations"), &mut errors);
    annotations::validate(&mut errors, template, &path.child("annotations"));
    validate_spec(&mut errors, &template["spec"], None, &spec_path);
    if !list(&template["spec"], "ephemeralContainers").is_empty() {
        errors.forbidden(&spec_path.child("ephemeralContainers"), "ephemeral containers not allowed in pod template");
    }
    errors
}

/// Checks what must be true of every pod, new or old.
pub fn validate_metadata_and_spec(errors: &mut Errors, pod: &Value) {
    let (spec, path) = (&pod["spec"], Path::new("spec"));
    metadata::validate(errors, &pod["metadata"]);
    annotations::validate(errors, pod, &Path::new("metadata").child("annotations"));
    validate_spec(errors, spec, Some(&pod["metadata"]), &path);
    if text(spec, "serviceAccountName").is_empty() {
        for (i, volume) in list(spec, "volumes").iter().enumerate() {
            for (j, source) in list(&volume["projected"], "sources").iter().enumerate() {
                if part(source, "serviceAccountToken").is_some() {
                    let path = path.child("volumes").index(i).child("projected").child("sources").index(j);
                    let rule = "must not be specified when serviceAccountName is not set";
                    errors.forbidden(&path.child("serviceAccountToken"), rule);
                }
            }
        }
    }
    for field in ["containers", "initContainers"] {
        for (i, container) in list(spec, field).iter().enumerate() {
            image::validate_image_spaces(errors, container, &path.child(field).index(i));
        }
    }
}

/// Checks a pod spec. A pod has metadata; a template's is not looked at here.
fn validate_spec(errors: &mut Errors, spec: &Value, metadata: Option<&Value>, path: &Path) {
    let is_pod = metadata.is_some();
    if pointer_number(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(&path.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = metadata.map_or("", |metadata| text(metadata, "name"));
    let volumes = volume::validate(errors, spec, pod_name, is_pod, &path.child("volumes"));
    let claims: BTreeSet<&str> =
        list(spec, "resourceClaims").iter().map(|claim| text(claim, "name")).filter(|name| !name.is_empty()).collect();
    validate_resource_claims(errors, spec, metadata, &path.child("resourceClaims"));
    let pod = container::Pod { spec, volumes: &volumes, claims: &claims };
    container::validate_app(errors, &pod, &path.child("containers"));
    container::validate_init(errors, &pod, &path.child("initContainers"));
    sidecar_field::validate(errors, spec, path);
    container::validate_ephemeral(errors, &pod, &path.child("ephemeralContainers"));
    resources::validate_pod_level(errors, spec, &path.child("resources"));
    ports::validate_host_network(errors, spec, path, is_pod);
    let policy = |errors: &mut Errors, field: &str, supported: &[&str]| {
        errors.required_one_of(&path.child(field), text(spec, field), supported);
    };
    policy(errors, "restartPolicy", &["Always", "OnFailure", "Never"]);
    policy(errors, "dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]);
    validate_labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    security::validate_pod(errors, spec, &path.child("securityContext"));
    affinity::validate(errors, spec, &path.child("affinity"));
    network::validate_dns(errors, spec, &path.child("dnsConfig"));
    for (i, gate) in list(spec, "readinessGates").iter().enumerate() {
        let name = text(gate, "conditionType");
        errors.each(&path.child("readinessGates").index(i).child("conditionType"), name, format::qualified_name(name));
    }
    scheduling::validate_gates(errors, spec, &path.child("schedulingGates"));
    scheduling::validate_spread(errors, spec, &path.child("topologySpreadConstraints"));
    network::validate_host_users(errors, spec, path);
    network::validate_host_name(errors, spec, path);
    validate_rest(errors, spec, path);
}

/// Checks the fields that stand alone.
fn validate_rest(errors: &mut Errors, spec: &Value, path: &Path) {
    let name = |errors: &mut Errors, field: &str, form: fn(&str) -> Vec<String>| {
        let name = text(spec, field);
        if !name.is_empty() {
            errors.each(&path.child(field), name, form(name));
        }
    };
    name(errors, "serviceAccountName", format::dns_subdomain);
    name(errors, "nodeName", format::dns_subdomain);
    if let Some(seconds) = pointer_number(spec, "activeDeadlineSeconds") {
        let path = path.child("activeDeadlineSeconds");
        errors.each(&path, seconds, format::in_range(seconds, 1, i64::from(i32::MAX)));
    }
    name(errors, "hostname", format::dns_label);
    name(errors, "subdomain", format::dns_label);
    scheduling::validate_tolerations(errors, list(spec, "tolerations"), &path.child("tolerations"));
    network::validate_host_aliases(errors, spec, &path.child("hostAliases"));
    name(errors, "priorityClassName", format::dns_subdomain);
    if let Some(class) = pointer_text(spec, "runtimeClassName") {
        errors.each(&path.child("runtimeClassName"), class, format::dns_subdomain(class));
    }
    if let Some(policy) = pointer_text(spec, "preemptionPolicy") {
        errors.required_one_of(&path.child("preemptionPolicy"), policy, &["PreemptLowerPriority", "Never"]);
    }
    resources::validate_overhead(errors, spec, &path.child("overhead"));
    if let Some(os) = part(spec, "os") {
        match text(os, "name") {
            "" => errors.required(&path.child("os").child("name"), ""),
            "linux" | "windows" => {}
            other => errors.unsupported(&path.child("os"), other, &["linux", "windows"]),
        }
    }
    env::validate_file_volumes(errors, spec, path);
}

fn validate_resource_claims(errors: &mut Errors, spec: &Value, metadata: Option<&Value>, path: &Path) {
    let mut names = BTreeSet::new();
    for (i, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let path = path.index(i);
        if metadata.is_some_and(|metadata| metadata["annotations"].get(annotations::MIRROR).is_some()) {
            errors.forbidden(&nowhere(), "static pods do not support resource claims");
            continue;
        }
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(&path.child("name"), "");
        } else if !names.insert(name) {
            errors.duplicate(&path.child("name"), name);
        } else {
            errors.each(&path.child("name"), name, format::dns_label(name));
        }
        let sources: Vec<(&str, &str)> = ["resourceClaimName", "resourceClaimTemplateName"]
            .into_iter()
            .filter_map(|field| pointer_text(claim, field).map(|name| (field, name)))
            .collect();
        let rule = match sources.len() {
            0 => Some("must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"),
            2 => Some("at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"),
            _ => None,
        };
        if let Some(rule) = rule {
            errors.invalid(&path, internal::bad_value("PodResourceClaim", claim), rule);
        }
        for (field, name) in sources {
            errors.each(&path.child(field), name, format::dns_subdomain(name));
        }
    }
}
