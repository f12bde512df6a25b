//! What the manager's account may do.

use std::collections::BTreeSet;

use anyhow::ensure;
use k8s_openapi::api::authorization::v1::{SelfSubjectRulesReview, SubjectAccessReview};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::Client;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use super::HOME;
use crate::Namespace;

/// A verb, a resource as `resource.group/subresource`, a namespace (all of them when empty) and a name (any when empty).
type Right = (&'static str, &'static str, &'static str, &'static str);

const NEEDED: &[Right] = &[
    ("list", "sidecarsets.apps.kruise.io", "", ""),
    ("watch", "sidecarsets.apps.kruise.io", "", ""),
    ("patch", "sidecarsets.apps.kruise.io/status", "", "any"),
    ("watch", "namespaces", "", ""),
    ("watch", "pods", "", ""),
    ("get", "pods", "default", "any"),
    ("patch", "pods", "default", "any"),
    ("patch", "pods/status", "default", "any"),
    ("create", "pods/eviction", "default", "any"),
    ("create", "events", "default", ""),
    ("patch", "events", "default", "any"),
    ("watch", "controllerrevisions.apps", "kruise-system", ""),
    ("create", "controllerrevisions.apps", "kruise-system", ""),
    ("patch", "controllerrevisions.apps", "kruise-system", "any"),
    ("delete", "controllerrevisions.apps", "kruise-system", "any"),
    ("get", "configmaps", "pillion-system", "any"),
    ("create", "configmaps", "pillion-system", ""),
    ("update", "configmaps", "pillion-system", "any"),
    ("get", "configmaps", "kruise-system", "kruise-configuration"),
    ("create", "secrets", "pillion-system", ""),
    ("update", "secrets", "pillion-system", "pillion-webhook-certificate"),
    ("watch", "secrets", "pillion-system", "pillion-webhook-certificate"),
    ("create", "leases.coordination.k8s.io", "pillion-system", ""),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-webhook"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-repair"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-rollout"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-lifecycle"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-recommender"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-updater"),
    ("watch", "verticalpodautoscalers.autoscaling.k8s.io", "", ""),
    ("patch", "verticalpodautoscalers.autoscaling.k8s.io/status", "default", "any"),
    ("create", "verticalpodautoscalercheckpoints.autoscaling.k8s.io", "default", ""),
    ("patch", "pods/resize", "default", "any"),
    ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "pillion"),
    ("patch", "validatingwebhookconfigurations.admissionregistration.k8s.io", "", "pillion"),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", "", "sidecarsets.apps.kruise.io"),
    ("get", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "kruise-mutating-webhook-configuration"),
    (
        "get",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "",
        "kruise-validating-webhook-configuration",
    ),
    ("get", "leases.coordination.k8s.io", "kruise-system", "kruise-manager"),
    ("get", "leases.coordination.k8s.io", "default", "kruise-manager"),
];

const REFUSED: &[Right] = &[
    ("list", "secrets", "", ""),
    ("get", "secrets", "default", "any"),
    ("get", "secrets", "kube-system", "any"),
    ("get", "secrets", "pillion-system", "any"),
    ("list", "secrets", "pillion-system", ""),
    ("delete", "secrets", "pillion-system", "pillion-webhook-certificate"),
    ("create", "secrets", "default", ""),
    ("create", "pods", "default", ""),
    ("update", "pods", "default", "any"),
    ("delete", "pods", "default", "any"),
    ("create", "pods/exec", "default", "any"),
    ("get", "pods/log", "default", "any"),
    ("create", "sidecarsets.apps.kruise.io", "", ""),
    ("update", "sidecarsets.apps.kruise.io", "", "any"),
    ("patch", "sidecarsets.apps.kruise.io", "", "any"),
    ("patch", "verticalpodautoscalers.autoscaling.k8s.io", "default", "any"),
    ("delete", "sidecarsets.apps.kruise.io", "", "any"),
    ("watch", "controllerrevisions.apps", "default", ""),
    ("create", "controllerrevisions.apps", "default", ""),
    ("delete", "configmaps", "pillion-system", "any"),
    ("get", "configmaps", "kruise-system", "any"),
    ("list", "configmaps", "kruise-system", ""),
    ("get", "configmaps", "default", "any"),
    ("update", "leases.coordination.k8s.io", "pillion-system", "any"),
    ("update", "leases.coordination.k8s.io", "kube-system", "kube-scheduler"),
    ("update", "leases.coordination.k8s.io", "kruise-system", "kruise-manager"),
    (
        "delete",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "",
        "kruise-mutating-webhook-configuration",
    ),
    ("create", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", ""),
    ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "any"),
    ("delete", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "pillion"),
    ("create", "customresourcedefinitions.apiextensions.k8s.io", "", ""),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io", "", "any"),
    ("delete", "customresourcedefinitions.apiextensions.k8s.io", "", "sidecarsets.apps.kruise.io"),
    ("create", "deployments.apps", "pillion-system", ""),
    ("patch", "deployments.apps", "default", "any"),
    ("create", "serviceaccounts/token", "pillion-system", "pillion-manager"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io", "", ""),
    ("escalate", "clusterroles.rbac.authorization.k8s.io", "", "pillion-webhook"),
    ("bind", "clusterroles.rbac.authorization.k8s.io", "", "cluster-admin"),
    ("impersonate", "users", "", "any"),
    // Without --usage-source=kubelets.
    ("list", "nodes", "", ""),
    ("get", "nodes/metrics", "", "any"),
    ("get", "nodes/proxy", "", "any"),
    ("patch", "nodes", "", "any"),
    ("patch", "namespaces", "", "any"),
];

/// Fails with every right that the account lacks or has too much.
pub(super) async fn is_what_is_needed_and_nothing_else(client: &Client) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for (rights, expected) in [(NEEDED, true), (REFUSED, false)] {
        for right in rights {
            if may(client, "pillion-manager", right).await? != expected {
                wrong.push(format!("{right:?} should be {}", if expected { "allowed" } else { "refused" }));
            }
        }
    }
    ensure!(wrong.is_empty(), "the rights of the manager: {}", wrong.join("; "));
    Ok(())
}

/// Everything that the account may do outside of the namespaces of the manager and of the revisions, beyond what every account may.
const ELSEWHERE: &[&str] = &[
    "cronjobs.batch: get,list,watch",
    "customresourcedefinitions.apiextensions.k8s.io sidecarsets.apps.kruise.io: get,list,watch",
    "customresourcedefinitions.apiextensions.k8s.io sidecarsets.apps.kruise.io: patch,update",
    "customresourcedefinitions.apiextensions.k8s.io verticalpodautoscalers.autoscaling.k8s.io,verticalpodautoscalercheckpoints.autoscaling.k8s.io: get,list,watch",
    "daemonsets.apps: get,list,watch",
    "deployments.apps: get,list,watch",
    "events: create,patch",
    "events: list,watch",
    "horizontalpodautoscalers.autoscaling: list",
    "jobs.batch: get,list,watch",
    "leases.coordination.k8s.io kruise-manager: get,list,watch",
    "limitranges: get,list,watch",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io kruise-mutating-webhook-configuration: get,list,watch",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io pillion: get,list,watch,patch,update",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io vpa-webhook-config: get,list,watch",
    "namespaces: get,list,watch",
    "pods.metrics.k8s.io: get,list",
    "pods/eviction: create",
    "pods/resize: patch",
    "pods/status: patch",
    "pods: get,list,watch",
    "pods: get,list,watch,patch",
    "replicasets.apps: get,list,watch",
    "replicationcontrollers: get,list,watch",
    "resourcequotas: list",
    "serviceaccounts: get,list,watch",
    "sidecarsets.apps.kruise.io/finalizers: update",
    "sidecarsets.apps.kruise.io/status: get,patch,update",
    "sidecarsets.apps.kruise.io: get",
    "sidecarsets.apps.kruise.io: get,list,watch",
    "statefulsets.apps: get,list,watch",
    "validatingwebhookconfigurations.admissionregistration.k8s.io kruise-validating-webhook-configuration: get,list,watch",
    "validatingwebhookconfigurations.admissionregistration.k8s.io pillion: get,list,watch,patch,update",
    "verticalpodautoscalercheckpoints.autoscaling.k8s.io: get,list,create,patch,delete",
    "verticalpodautoscalers.autoscaling.k8s.io/status: get,patch,update",
    "verticalpodautoscalers.autoscaling.k8s.io: get,list,watch",
];

/// Compares all rights that the API server reports for a token of the account with the list, and tries one that it has and one that it lacks.
pub(super) async fn is_exactly_what_is_listed(namespace: &Namespace) -> anyhow::Result<()> {
    let manager = Client::try_from(namespace.cluster().config_of(HOME, "pillion-manager").await?)?;
    let review = json!({"metadata": {}, "spec": {"namespace": namespace.name()}});
    let reviews: Api<SelfSubjectRulesReview> = Api::all(manager.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    let rules = answer.status.map(|status| status.resource_rules).unwrap_or_default();
    let mut found = BTreeSet::new();
    for rule in rules {
        let groups = rule.api_groups.unwrap_or_default();
        // What every account may ask about itself.
        if groups.iter().any(|group| matches!(group.as_str(), "authorization.k8s.io" | "authentication.k8s.io")) {
            continue;
        }
        let names = rule.resource_names.map(|names| format!(" {}", names.join(","))).unwrap_or_default();
        for resource in rule.resources.unwrap_or_default() {
            let (resource, subresource) = resource.split_once('/').unwrap_or((&resource, ""));
            let slash = if subresource.is_empty() { "" } else { "/" };
            for group in &groups {
                let dot = if group.is_empty() { "" } else { "." };
                found.insert(format!("{resource}{dot}{group}{slash}{subresource}{names}: {}", rule.verbs.join(",")));
            }
        }
    }
    let found: Vec<&str> = found.iter().map(String::as_str).collect();
    ensure!(found == ELSEWHERE, "elsewhere the manager may {found:#?}");

    let refused = Api::<Secret>::namespaced(manager.clone(), namespace.name()).list(&ListParams::default()).await;
    ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.is_forbidden()), "{refused:?}");
    Api::<Pod>::namespaced(manager, namespace.name()).list(&ListParams::default()).await?;
    Ok(())
}

/// Rights that parts have, where each runs with an account of its own. Parts that do not list a right do not have it.
const OF_PARTS: &[(&str, &[Right])] = &[
    (
        "pillion-manager",
        &[
            ("patch", "mutatingwebhookconfigurations.admissionregistration.k8s.io", "", "pillion"),
            ("update", "secrets", "pillion-system", "pillion-webhook-certificate"),
            ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-webhook"),
        ],
    ),
    (
        "pillion-rollout",
        &[
            ("patch", "pods/status", "default", "any"),
            ("delete", "controllerrevisions.apps", "kruise-system", "any"),
            ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-rollout"),
        ],
    ),
    (
        "pillion-repair",
        &[
            ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-repair"),
            ("list", "endpointslices.discovery.k8s.io", "pillion-system", ""),
        ],
    ),
    (
        "pillion-lifecycle",
        &[
            // With the feature gate SidecarField.
            ("patch", "pods/status", "default", "any"),
            ("update", "leases.coordination.k8s.io", "pillion-system", "pillion-lifecycle"),
        ],
    ),
    (
        "pillion-recommender",
        &[
            ("create", "verticalpodautoscalercheckpoints.autoscaling.k8s.io", "default", ""),
            // With --usage-source=kubelets.
            ("get", "nodes/metrics", "", "any"),
        ],
    ),
    ("pillion-updater", &[("patch", "pods/resize", "default", "any")]),
];

/// Fails with every right of a part that the part lacks, or that another has.
pub(super) async fn of_parts_is_what_each_needs(client: &Client) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    let all: BTreeSet<&Right> = OF_PARTS.iter().flat_map(|(_, rights)| *rights).collect();
    for right in all {
        for (account, rights) in OF_PARTS {
            if may(client, account, right).await? != rights.contains(right) {
                wrong.push(format!("{account}: {right:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "rights of parts that run apart: {}", wrong.join("; "));
    Ok(())
}

async fn may(client: &Client, account: &str, (verb, resource, namespace, name): &Right) -> anyhow::Result<bool> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let review = json!({"metadata": {}, "spec": {
        "user": format!("system:serviceaccount:pillion-system:{account}"),
        "groups": ["system:serviceaccounts", "system:serviceaccounts:pillion-system", "system:authenticated"],
        "resourceAttributes": {
            "verb": verb, "group": group, "resource": resource, "subresource": subresource, "namespace": namespace, "name": name,
        },
    }});
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &serde_json::from_value(review)?).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
