//! What a Helm release runs before it is deleted. `pillion uninstall` does the same with the rights of its user.

use pillion_api::names;
use serde_json::{Value, json};

use super::access::{Grantee, named, rule};
use super::workload::{container_security_context, pod_security_context};
use super::{CONFIGURATION, MANAGER, metadata};
use crate::options::Options;

const NAME: &str = "pillion-removal";

pub(super) fn objects(options: &Options) -> Vec<Value> {
    let home = options.namespace.as_str();
    let definition = format!("sidecarsets.{}", names::GROUP);
    let cluster = [
        rule(names::GROUP, &["sidecarsets"], &["list", "update"]),
        named(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["get", "patch"]), &definition),
        named(rule("apiextensions.k8s.io", &["customresourcedefinitions/status"], &["patch"]), &definition),
        // Emptied while the manager stops.
        named(
            rule(
                "admissionregistration.k8s.io",
                &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                &["get", "patch"],
            ),
            CONFIGURATION,
        ),
    ];
    let namespaced = [
        named(rule("apps", &["deployments"], &["get"]), MANAGER),
        named(rule("apps", &["deployments/scale"], &["patch"]), MANAGER),
        rule("", &["pods"], &["list"]),
    ];
    let mut objects = vec![json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(NAME, Some(home), "removal"),
    })];
    let to = Grantee { accounts: &[NAME], home, component: "removal" };
    objects.extend(to.grant(NAME, None, &cluster));
    objects.extend(to.grant(NAME, Some(home), &namespaced));
    objects.push(job(options));
    objects
}

fn job(options: &Options) -> Value {
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata(NAME, Some(&options.namespace), "removal"),
        "spec": {
            "backoffLimit": 2,
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": "pillion", "app.kubernetes.io/component": "removal"}},
                "spec": {
                    "serviceAccountName": NAME,
                    "restartPolicy": "Never",
                    "securityContext": pod_security_context(),
                    "containers": [{
                        "name": "removal",
                        "image": options.image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": ["prepare-uninstall".to_owned(), format!("--namespace={}", options.namespace)],
                        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
                        "securityContext": container_security_context(),
                    }],
                },
            },
        },
    })
}
