//! What the manager's account may do.

use anyhow::ensure;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

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
    ("list", "nodes", "", ""),
    ("get", "nodes/metrics", "", "any"),
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

/// Rights that one part has, where each runs with an account of its own. No other part has them.
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
    ("pillion-lifecycle", &[("update", "leases.coordination.k8s.io", "pillion-system", "pillion-lifecycle")]),
    (
        "pillion-recommender",
        &[
            ("create", "verticalpodautoscalercheckpoints.autoscaling.k8s.io", "default", ""),
            ("get", "nodes/metrics", "", "any"),
        ],
    ),
    ("pillion-updater", &[("patch", "pods/resize", "default", "any")]),
];

/// Fails with every right of a part that the part lacks, or that another has.
pub(super) async fn of_parts_is_what_each_needs(client: &Client) -> anyhow::Result<()> {
    let mut wrong = Vec::new();
    for (owner, rights) in OF_PARTS {
        for right in *rights {
            for (account, _) in OF_PARTS {
                if may(client, account, right).await? != (owner == account) {
                    wrong.push(format!("{account}: {right:?}"));
                }
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
