//! Namespaces, the CustomResourceDefinition, and the configurations in which the manager registers its webhooks.

use pillion_api::probe_marker;
use pillion_api::sidecarset::crd;
use pillion_api::vpa;
use pillion_manager::ControllerName;
use serde_json::{Value, json};

use super::{CONFIGURATION, HOME, POD_SECURITY, POD_SECURITY_LEVEL, REVISIONS, metadata};
use crate::options::Options;

pub(super) fn objects(options: &Options) -> Vec<Value> {
    let mut objects = vec![home(&options.namespace)];
    if options.revisions_namespace != options.namespace {
        objects.push(json!({
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": metadata(&options.revisions_namespace, None, REVISIONS),
        }));
    }
    objects.push(definition());
    if options.controllers.iter().any(|part| matches!(part, ControllerName::Recommender | ControllerName::Updater)) {
        objects.extend(autoscaler_definitions());
    }
    if options.controllers.contains(&ControllerName::Agents) {
        let mut definition = probe_marker::crd();
        definition["metadata"] = metadata(probe_marker::DEFINITION, None, ControllerName::Agents.name());
        objects.push(definition);
    }
    objects.extend(["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"].map(|kind| {
        // The manager adds the webhooks, with its certificates; without any the API server calls nobody.
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": metadata(CONFIGURATION, None, "webhook"),
        })
    }));
    objects
}

/// The manager needs nothing that the strictest Pod Security Standard forbids, and nothing else is in its namespace.
fn home(namespace: &str) -> Value {
    let mut metadata = metadata(namespace, None, HOME);
    metadata["labels"][POD_SECURITY] = json!(POD_SECURITY_LEVEL);
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
}

/// The definitions of VerticalPodAutoscaler and its checkpoints. Those of the VerticalPodAutoscaler project are left alone where they exist.
fn autoscaler_definitions() -> [Value; 2] {
    [vpa::crd::vertical_pod_autoscaler(), vpa::crd::checkpoint()].map(|mut definition| {
        let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let annotations = definition["metadata"]["annotations"].take();
        definition["metadata"] = metadata(&name, None, "recommender");
        definition["metadata"]["annotations"] = annotations;
        definition
    })
}

fn definition() -> Value {
    let mut definition = crd::sidecarset();
    let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    definition["metadata"] = metadata(&name, None, "webhook");
    definition
}
