//! Who may do what: a role for each part of the manager, all bound to one service account.
//!
//! The roles are separate so that an installation that runs the parts apart can bind them to accounts of their own.

use pillion_api::names;
use pillion_manager::{KRUISE_LEASE, KRUISE_MUTATING, KRUISE_VALIDATING, Part};
use pillion_rightsizer::{PeerPart, admission_lease};
use serde_json::{Value, json};

use super::{CERTIFICATE_SECRET, CONFIGURATION, MANAGER, metadata};
use crate::options::{Certificates, Options};

const READ: [&str; 3] = ["get", "list", "watch"];
const STATUS: [&str; 3] = ["get", "patch", "update"];
/// An object that exists already is read and changed; none is created.
const KEEP: [&str; 5] = ["get", "list", "watch", "patch", "update"];

pub(super) fn objects(options: &Options) -> Vec<Value> {
    let home = options.namespace.as_str();
    let account = json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(MANAGER, Some(home), "manager"),
    });
    let mut objects = vec![account];
    // Every part reads SidecarSets with the revisions that they pin.
    let revisions = [rule("apps", &["controllerrevisions"], &READ)];
    objects.extend(grant("pillion-revisions", Some(&options.revisions_namespace), home, "manager", &revisions));
    for controller in &options.controllers {
        objects.extend(leader(*controller, home));
        objects.extend(match controller {
            Part::Webhook => webhook(options),
            Part::Rollout => rollout(options),
            Part::Repair => repair(home),
            Part::Lifecycle if options.sidecar_field => lifecycle(home),
            // Without the gate it does nothing, and may do nothing.
            Part::Lifecycle => Vec::new(),
            Part::Recommender => recommender(home),
            Part::Updater => updater(home),
        });
    }
    objects
}

/// Of all replicas that run a part one leads it.
fn leader(controller: Part, home: &str) -> Vec<Value> {
    let lease = [
        named(rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "update"]), controller.lease()),
        // The name of an object that is created is not known to the authorizer.
        rule("coordination.k8s.io", &["leases"], &["create"]),
    ];
    let name = format!("pillion-{controller}-leader");
    grant(&name, Some(home), home, controller.name(), &lease)
}

fn webhook(options: &Options) -> Vec<Value> {
    const NAME: &str = "pillion-webhook";
    let (home, component) = (options.namespace.as_str(), "webhook");
    let mut cluster = vec![
        rule(names::GROUP, &["sidecarsets"], &READ),
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        rule("", &["namespaces"], &READ),
        named(
            rule(
                "admissionregistration.k8s.io",
                &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                &KEEP,
            ),
            CONFIGURATION,
        ),
        named(
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &KEEP),
            &format!("sidecarsets.{}", names::GROUP),
        ),
        // Whether an OpenKruise serves SidecarSets.
        named(rule("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &["get"]), KRUISE_MUTATING),
        named(rule("admissionregistration.k8s.io", &["validatingwebhookconfigurations"], &["get"]), KRUISE_VALIDATING),
        named(
            rule("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &["get"]),
            PeerPart::CONFIGURATION,
        ),
        events(),
    ];
    cluster.extend(rightsizing());
    let configuration = [
        named(rule("", &["configmaps"], &["get"]), names::CONFIGURATION_CONFIG_MAP),
        named(rule("coordination.k8s.io", &["leases"], &["get"]), KRUISE_LEASE),
    ];
    let mut objects = grant(NAME, None, home, component, &cluster);
    let [deployment, _] = peer(PeerPart::Admission);
    // By this Lease updaters know that new pods are sized.
    let lease = PeerPart::Admission.lease();
    let lease = named(rule("coordination.k8s.io", &["leases"], &["get", "patch"]), lease);
    let create = rule("coordination.k8s.io", &["leases"], &["create"]);
    let rules = [deployment, lease, create];
    objects.extend(grant("pillion-admission-lease", Some(admission_lease::NAMESPACE), home, component, &rules));
    objects.extend(grant("pillion-configuration", Some(&options.revisions_namespace), home, component, &configuration));
    objects.extend(places(home, component));
    if options.certificates == Certificates::SelfMade {
        let certificate = [
            named(rule("", &["secrets"], &["get", "list", "watch", "update"]), CERTIFICATE_SECRET),
            rule("", &["secrets"], &["create"]),
        ];
        objects.extend(grant("pillion-certificate", Some(home), home, component, &certificate));
    }
    objects
}

/// The places of partitions: one ConfigMap for each SidecarSet that counts them. Their names are not known in advance.
fn places(home: &str, component: &str) -> Vec<Value> {
    let rules = [rule("", &["configmaps"], &["get", "create", "update"])];
    grant(&format!("pillion-{component}-places"), Some(home), home, component, &rules)
}

fn rollout(options: &Options) -> Vec<Value> {
    let (home, component) = (options.namespace.as_str(), "rollout");
    let cluster = [
        rule(names::GROUP, &["sidecarsets"], &READ),
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        rule("", &["namespaces"], &READ),
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["pods/status"], &["patch"]),
        // Revisions are owned by their set, which some platforms allow only to those who may finalize it.
        rule(names::GROUP, &["sidecarsets/finalizers"], &["update"]),
        events(),
    ];
    let revisions = [rule("apps", &["controllerrevisions"], &["get", "list", "watch", "create", "patch", "delete"])];
    let mut objects = grant("pillion-rollout", None, home, component, &cluster);
    objects.extend(places(home, component));
    objects.extend(grant("pillion-history", Some(&options.revisions_namespace), home, component, &revisions));
    objects
}

fn repair(home: &str) -> Vec<Value> {
    let rules = [
        rule(names::GROUP, &["sidecarsets"], &READ),
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        rule("", &["namespaces", "pods"], &READ),
        rule("", &["pods/eviction"], &["create"]),
        events(),
    ];
    grant("pillion-repair", None, home, "repair", &rules)
}

/// What rightsizing watches: autoscalers, and what a pod's workload and limits are found by.
fn rightsizing() -> Vec<Value> {
    vec![
        rule(names::AUTOSCALING_GROUP, &["verticalpodautoscalers"], &READ),
        rule("apps", &["daemonsets", "deployments", "replicasets", "statefulsets"], &READ),
        rule("batch", &["cronjobs", "jobs"], &READ),
        rule("", &["limitranges", "replicationcontrollers"], &READ),
        // Whether VerticalPodAutoscalers are served.
        named_all(
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &READ),
            &[
                &format!("verticalpodautoscalers.{}", names::AUTOSCALING_GROUP),
                &format!("verticalpodautoscalercheckpoints.{}", names::AUTOSCALING_GROUP),
            ],
        ),
    ]
}

/// Whether a part of the VerticalPodAutoscaler project runs.
fn peer(part: PeerPart) -> [Value; 2] {
    [
        named(rule("apps", &["deployments"], &["get"]), part.deployment()),
        named(rule("coordination.k8s.io", &["leases"], &["get"]), part.lease()),
    ]
}

fn recommender(home: &str) -> Vec<Value> {
    let mut rules = rightsizing();
    rules.extend([
        rule(names::AUTOSCALING_GROUP, &["verticalpodautoscalers/status"], &STATUS),
        rule(
            names::AUTOSCALING_GROUP,
            &["verticalpodautoscalercheckpoints"],
            &["get", "list", "create", "patch", "delete"],
        ),
        rule("", &["pods"], &READ),
        rule("metrics.k8s.io", &["pods"], &["get", "list"]),
        // Whether one scales by what is sized.
        rule("autoscaling", &["horizontalpodautoscalers"], &["list"]),
        events(),
        // Pods that kubelets evicted for the memory that they used.
        rule("", &["events"], &["list", "watch"]),
        // Whether a SidecarSet that is a target exists.
        rule(names::GROUP, &["sidecarsets"], &["get"]),
        // Usage straight from kubelets, for --usage-source=kubelets.
        rule("", &["nodes"], &["list"]),
        rule("", &["nodes/metrics"], &["get"]),
    ]);
    let mut objects = grant("pillion-recommender", None, home, "recommender", &rules);
    let peer = peer(PeerPart::Recommender);
    objects.extend(grant("pillion-recommender-peer", Some(admission_lease::NAMESPACE), home, "recommender", &peer));
    objects
}

fn updater(home: &str) -> Vec<Value> {
    let mut rules = rightsizing();
    rules.extend([
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["pods/resize"], &["patch"]),
        rule("", &["pods/eviction"], &["create"]),
        events(),
    ]);
    let mut objects = grant("pillion-updater", None, home, "updater", &rules);
    let [deployment, lease] = peer(PeerPart::Updater);
    let admission = named(rule("coordination.k8s.io", &["leases"], &["get"]), PeerPart::Admission.lease());
    let rules = [deployment, lease, admission];
    objects.extend(grant("pillion-updater-peer", Some(admission_lease::NAMESPACE), home, "updater", &rules));
    objects
}

/// Writing the phase of any pod is a strong right: it is granted only where the feature is on.
fn lifecycle(home: &str) -> Vec<Value> {
    let rules = [rule("", &["pods"], &READ), rule("", &["pods/status"], &["patch"]), events()];
    grant("pillion-lifecycle", None, home, "lifecycle", &rules)
}

fn events() -> Value {
    rule("", &["events"], &["create", "patch"])
}

pub(super) fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

/// The same rule for one object.
pub(super) fn named(mut rule: Value, name: &str) -> Value {
    rule["resourceNames"] = json!([name]);
    rule
}

/// The same rule for some objects.
fn named_all(mut rule: Value, names: &[&str]) -> Value {
    rule["resourceNames"] = json!(names);
    rule
}

/// A role, in a namespace or in the whole cluster, and its binding to the manager's account in the namespace `home`.
fn grant(name: &str, namespace: Option<&str>, home: &str, component: &str, rules: &[Value]) -> Vec<Value> {
    grant_to(MANAGER, name, namespace, home, component, rules)
}

pub(super) fn grant_to(
    account: &str,
    name: &str,
    namespace: Option<&str>,
    home: &str,
    component: &str,
    rules: &[Value],
) -> Vec<Value> {
    let (role, binding) =
        if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
    let metadata = metadata(name, namespace, component);
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": role,
            "metadata": metadata,
            "rules": rules,
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": binding,
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": home}],
        }),
    ]
}
