//! The entries of the webhook configurations: for which objects API servers call, and what happens without an answer.

use std::sync::Arc;

use pillion_api::names;
use pillion_api::sidecarset::SidecarSet;
use serde_json::{Value, json};

use super::{NAME, paths};
use crate::caches::cluster::is_failing;
use crate::config::{WebhookAddress, excluded_namespaces};

/// The entry for all pods.
pub(super) const PODS: &str = "pods.pillion.dev";
/// The entry that confirms the places of new pods.
pub(super) const PLACES: &str = "places.pillion.dev";

/// How many SidecarSets may have an entry of their own. Each is one more call for its pods, and the API server reads all of them for every pod.
pub(crate) const MOST_FAILING: usize = 100;

/// For which kinds API servers are to call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Registered {
    /// SidecarSets: not while somebody else serves them.
    pub(crate) sidecar_sets: bool,
    pub(crate) autoscalers: bool,
    /// Jobs and CronJobs that mark sidecars: where marks are honoured.
    pub(crate) jobs: bool,
}

/// Pods are injected, and SidecarSets get their defaults.
///
/// Every pod of the cluster waits for the first entry, so it gives up early and lets the pod through. The pods of a set in `failing` are
/// also sent through an entry of its own, without which they are refused. If the first entry has injected them, the second changes nothing.
pub(super) fn mutating(
    address: &WebhookAddress,
    namespace: &str,
    bundle: &str,
    failing: &[Arc<SidecarSet>],
    served: Registered,
) -> Value {
    let excluded = excluded(namespace);
    let pods = |name: String| {
        json!({
            "name": name,
            "clientConfig": address.client_config(paths::MUTATE_POD, bundle),
            "rules": [{
                "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced",
            }],
            "namespaceSelector": {"matchExpressions": [excluded]},
            "failurePolicy": "Ignore",
            "timeoutSeconds": 3,
            // A place of a partition may be taken.
            "sideEffects": "NoneOnDryRun",
            // Between two calls the API server adds to the sidecars (token mounts, defaults of LimitRanges); a second
            // call would put them back to what the SidecarSet says.
            "reinvocationPolicy": "Never",
            "admissionReviewVersions": ["v1"],
        })
    };
    let mut webhooks = vec![pods(PODS.to_owned())];
    for set in failing.iter().filter(|set| is_failing(set)).take(MOST_FAILING) {
        let mut own = pods(format!("{}.{PODS}", set.name()));
        let mut namespaces = json!(set.spec.namespace_selector.clone().unwrap_or_default());
        match namespaces["matchExpressions"].as_array_mut() {
            Some(expressions) => expressions.push(excluded.clone()),
            None => namespaces["matchExpressions"] = json!([excluded]),
        }
        own["namespaceSelector"] = namespaces;
        own["objectSelector"] = json!(set.spec.selector);
        own["failurePolicy"] = "Fail".into();
        own["timeoutSeconds"] = 10.into();
        webhooks.push(own);
    }
    if served.sidecar_sets {
        webhooks.push(sidecarsets("sidecarsets.pillion.dev", address, paths::MUTATE_SIDECARSET, bundle));
    }
    if served.autoscalers {
        webhooks.push(autoscalers(address, paths::MUTATE_AUTOSCALER, bundle));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    })
}

/// SidecarSets are checked, and so are VerticalPodAutoscalers where they are served, and Jobs that mark sidecars. The places of new pods are confirmed.
pub(super) fn validating(address: &WebhookAddress, namespace: &str, bundle: &str, served: Registered) -> Value {
    let mut webhooks = Vec::new();
    if served.sidecar_sets {
        webhooks.push(places(address, namespace, bundle));
        webhooks.push(sidecarsets("sidecarsets.pillion.dev", address, paths::VALIDATE_SIDECARSET, bundle));
    }
    if served.autoscalers {
        webhooks.push(autoscalers(address, paths::VALIDATE_AUTOSCALER, bundle));
    }
    if served.jobs {
        webhooks.push(jobs("jobs", "object.spec.template", address, namespace, bundle));
        webhooks.push(jobs("cronjobs", "object.spec.jobTemplate.spec.template", address, namespace, bundle));
    }
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": webhooks,
    })
}

/// The namespaces whose pods the webhooks are not called for.
fn excluded(namespace: &str) -> Value {
    json!({"key": names::NAMESPACE_NAME, "operator": "NotIn", "values": excluded_namespaces(namespace)})
}

/// New pods with a place of a partition. Without an answer the pod is refused, since its place may be another pod's by now. This is about pods that
/// the manager has admitted a moment ago; no other pod waits for it.
pub(super) fn places(address: &WebhookAddress, namespace: &str, bundle: &str) -> Value {
    let annotation = names::QUOTA_PLACE;
    let expression = format!("has(object.metadata.annotations) && '{annotation}' in object.metadata.annotations");
    json!({
        "name": PLACES,
        "clientConfig": address.client_config(paths::CONFIRM_PLACE, bundle),
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "Namespaced",
        }],
        "namespaceSelector": {"matchExpressions": [excluded(namespace)]},
        "matchConditions": [{"name": "has-a-place", "expression": expression}],
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "NoneOnDryRun",
        "admissionReviewVersions": ["v1"],
    })
}

/// VerticalPodAutoscalers. As upstream, the write goes through while the webhook is down: programs write them, too.
fn autoscalers(address: &WebhookAddress, path: &str, bundle: &str) -> Value {
    json!({
        "name": "vpa.pillion.dev",
        "clientConfig": address.client_config(path, bundle),
        "rules": [{
            "apiGroups": [names::AUTOSCALING_GROUP], "apiVersions": ["v1"], "resources": ["verticalpodautoscalers"],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// Jobs or CronJobs whose template has the annotation that marks sidecars. No other one waits for the webhook, and none waits for long.
fn jobs(resource: &str, template: &str, address: &WebhookAddress, namespace: &str, bundle: &str) -> Value {
    let annotations = format!("{template}.metadata.annotations");
    let is_marked = format!("has({template}.metadata) && has({annotations}) && '{}' in {annotations}", names::SIDECARS);
    json!({
        "name": format!("{resource}.pillion.dev"),
        "clientConfig": address.client_config(paths::VALIDATE_JOB, bundle),
        "rules": [{
            "apiGroups": ["batch"], "apiVersions": ["v1"], "resources": [resource],
            "operations": ["CREATE", "UPDATE"], "scope": "Namespaced",
        }],
        "matchConditions": [{"name": "marks-sidecars", "expression": is_marked}],
        "namespaceSelector": {"matchExpressions": [excluded(namespace)]},
        "failurePolicy": "Ignore",
        "timeoutSeconds": 3,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}

/// One version in the rule: `matchPolicy: Equivalent` converts the other to it.
fn sidecarsets(name: &str, address: &WebhookAddress, path: &str, bundle: &str) -> Value {
    json!({
        "name": name,
        "clientConfig": address.client_config(path, bundle),
        "rules": [{
            "apiGroups": [names::GROUP], "apiVersions": ["v1beta1"], "resources": ["sidecarsets"],
            "operations": ["CREATE", "UPDATE"], "scope": "Cluster",
        }],
        "matchPolicy": "Equivalent",
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    })
}
