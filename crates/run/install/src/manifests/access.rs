//! Who may do what: a role for what every part of the manager reads, and a role for each part, bound to the account that the part runs with.

use pillion_api::{names, probe_marker};
use pillion_manager::{ControllerName, KRUISE_LEASE, KRUISE_MUTATING, KRUISE_VALIDATING};
use pillion_rightsizer::{PeerPart, admission_lease};
use serde_json::{Value, json};

use super::{CERTIFICATE_SECRET, CONFIGURATION, Program, agent_parameters, agents_writes, metadata};
use crate::options::{Certificates, Options};

const READ: [&str; 3] = ["get", "list", "watch"];
const STATUS: [&str; 3] = ["get", "patch", "update"];
/// An object that exists already is read and changed; none is created.
const KEEP: [&str; 5] = ["get", "list", "watch", "patch", "update"];

pub(super) fn objects(options: &Options, programs: &[Program]) -> Vec<Value> {
    let home = options.namespace.as_str();
    let mut objects: Vec<Value> = programs.iter().map(|program| account(program, home)).collect();
    let all: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
    objects.extend(every_part(options, &all));
    for (account, part) in programs.iter().flat_map(|program| program.parts.iter().map(|part| (&program.name, *part))) {
        let to = Grantee { accounts: &[account], home, component: part.name() };
        objects.extend(leader(part, &to));
        objects.extend(match part {
            ControllerName::Webhook => webhook(options, &to),
            ControllerName::Rollout => rollout(options, &to),
            ControllerName::Repair => repair(&to),
            ControllerName::Lifecycle if options.sidecar_field => lifecycle(&to),
            // Without the gate it does nothing, and may do nothing.
            ControllerName::Lifecycle => Vec::new(),
            ControllerName::Recommender => recommender(options, &to),
            ControllerName::Updater => updater(&to),
            ControllerName::Agents => agents(&to),
        });
    }
    objects
}

fn account(program: &Program, home: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(&program.name, Some(home), program.component),
    })
}

/// Every part watches SidecarSets, with the revisions that they pin, once it knows that they are defined and that no OpenKruise serves them.
fn every_part(options: &Options, accounts: &[&str]) -> Vec<Value> {
    let to = Grantee { accounts, home: &options.namespace, component: "manager" };
    let definition = format!("sidecarsets.{}", names::GROUP);
    let cluster = [
        rule(names::GROUP, &["sidecarsets"], &READ),
        rule("", &["namespaces", "serviceaccounts"], &READ),
        named(rule("apiextensions.k8s.io", &["customresourcedefinitions"], &READ), &definition),
        named(rule("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &READ), KRUISE_MUTATING),
        named(rule("admissionregistration.k8s.io", &["validatingwebhookconfigurations"], &READ), KRUISE_VALIDATING),
        // In any namespace: an OpenKruise may be installed elsewhere than where the revisions are.
        named(rule("coordination.k8s.io", &["leases"], &READ), KRUISE_LEASE),
    ];
    let revisions = [rule("apps", &["controllerrevisions"], &READ)];
    let mut objects = to.grant("pillion-manager", None, &cluster);
    objects.extend(to.grant("pillion-revisions", Some(&options.revisions_namespace), &revisions));
    objects
}

/// Of all replicas that run a part one leads it.
fn leader(part: ControllerName, to: &Grantee<'_>) -> Vec<Value> {
    let lease = [
        named(rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "update"]), part.lease()),
        // The name of an object that is created is not known to the authorizer.
        rule("coordination.k8s.io", &["leases"], &["create"]),
    ];
    to.grant(&format!("pillion-{part}-leader"), Some(to.home), &lease)
}

fn webhook(options: &Options, to: &Grantee<'_>) -> Vec<Value> {
    let mut cluster = vec![
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        named(
            rule(
                "admissionregistration.k8s.io",
                &["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                &KEEP,
            ),
            CONFIGURATION,
        ),
        named(
            rule("apiextensions.k8s.io", &["customresourcedefinitions"], &["patch", "update"]),
            &format!("sidecarsets.{}", names::GROUP),
        ),
        named(rule("admissionregistration.k8s.io", &["mutatingwebhookconfigurations"], &READ), PeerPart::CONFIGURATION),
        events(),
    ];
    cluster.extend(rightsizing());
    let configuration = [named(rule("", &["configmaps"], &["get"]), names::CONFIGURATION_CONFIG_MAP)];
    let mut objects = to.grant("pillion-webhook", None, &cluster);
    // By this Lease updaters know that new pods are sized.
    let lease = PeerPart::Admission.lease();
    let lease = named(rule("coordination.k8s.io", &["leases"], &["get", "list", "watch", "patch"]), lease);
    let create = rule("coordination.k8s.io", &["leases"], &["create"]);
    objects.extend(to.grant("pillion-admission-lease", Some(admission_lease::NAMESPACE), &[lease, create]));
    objects.extend(to.grant("pillion-configuration", Some(&options.revisions_namespace), &configuration));
    objects.extend(places(to));
    if options.certificates == Certificates::SelfMade {
        let certificate = [
            named(rule("", &["secrets"], &["get", "list", "watch", "update"]), CERTIFICATE_SECRET),
            rule("", &["secrets"], &["create"]),
        ];
        objects.extend(to.grant("pillion-certificate", Some(to.home), &certificate));
    }
    objects
}

/// The places of partitions: one ConfigMap for each SidecarSet that counts them. Their names are not known in advance.
fn places(to: &Grantee<'_>) -> Vec<Value> {
    let rules = [rule("", &["configmaps"], &["get", "create", "update"])];
    to.grant(&format!("pillion-{}-places", to.component), Some(to.home), &rules)
}

fn rollout(options: &Options, to: &Grantee<'_>) -> Vec<Value> {
    let cluster = [
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["pods/status"], &["patch"]),
        // Revisions are owned by their set, which some platforms allow only to those who may finalize it.
        rule(names::GROUP, &["sidecarsets/finalizers"], &["update"]),
        events(),
    ];
    let revisions = [rule("apps", &["controllerrevisions"], &["get", "list", "watch", "create", "patch", "delete"])];
    let mut objects = to.grant("pillion-rollout", None, &cluster);
    objects.extend(places(to));
    objects.extend(to.grant("pillion-history", Some(&options.revisions_namespace), &revisions));
    objects
}

fn repair(to: &Grantee<'_>) -> Vec<Value> {
    let rules = [
        rule(names::GROUP, &["sidecarsets/status"], &STATUS),
        rule("", &["pods"], &READ),
        rule("", &["pods/eviction"], &["create"]),
        events(),
    ];
    // Whether API servers can call the webhooks: before, evicting has no effect.
    let endpoints = [rule("discovery.k8s.io", &["endpointslices"], &["list"])];
    let mut objects = to.grant("pillion-repair", None, &rules);
    objects.extend(to.grant("pillion-repair-endpoints", Some(to.home), &endpoints));
    objects
}

/// What rightsizing watches: autoscalers, and what a pod's workload and limits are found by. Among the Deployments are those of the
/// VerticalPodAutoscaler project.
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

/// Whether a part of the VerticalPodAutoscaler project holds its Lease.
fn peer(part: PeerPart) -> Value {
    named(rule("coordination.k8s.io", &["leases"], &READ), part.lease())
}

fn recommender(options: &Options, to: &Grantee<'_>) -> Vec<Value> {
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
    ]);
    let mut objects = to.grant("pillion-recommender", None, &rules);
    if options.kubelets {
        // Whoever may read the metrics of a node reads those of all its pods.
        let nodes = [rule("", &["nodes"], &["list"]), rule("", &["nodes/metrics"], &["get"])];
        objects.extend(to.grant("pillion-recommender-kubelets", None, &nodes));
    }
    let lease = [peer(PeerPart::Recommender)];
    objects.extend(to.grant("pillion-recommender-peer", Some(admission_lease::NAMESPACE), &lease));
    objects
}

fn updater(to: &Grantee<'_>) -> Vec<Value> {
    let mut rules = rightsizing();
    rules.extend([
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule("", &["pods/resize"], &["patch"]),
        rule("", &["pods/eviction"], &["create"]),
        // Whether the successors of evicted pods would be accepted.
        rule("", &["resourcequotas"], &["list"]),
        // Evictions that are stopped are a condition.
        rule(names::AUTOSCALING_GROUP, &["verticalpodautoscalers/status"], &STATUS),
        events(),
    ]);
    let mut objects = to.grant("pillion-updater", None, &rules);
    let leases = [PeerPart::Updater, PeerPart::Admission].map(peer);
    objects.extend(to.grant("pillion-updater-peer", Some(admission_lease::NAMESPACE), &leases));
    objects
}

/// Agents are in any namespace, and so are the ConfigMaps that are kept for them. What is written to ConfigMaps is bounded by a policy; pods are
/// marked as their PodProbeMarkers say.
fn agents(to: &Grantee<'_>) -> Vec<Value> {
    let rules = [
        rule("", &["configmaps"], &["get", "list", "watch", "create", "patch", "delete"]),
        rule("", &["pods"], &["get", "list", "watch", "patch"]),
        rule(names::GROUP, &[probe_marker::PLURAL], &READ),
        rule(names::GROUP, &[&format!("{}/status", probe_marker::PLURAL)], &["patch"]),
        events(),
    ];
    let mut objects = to.grant("pillion-agents", None, &rules);
    objects.extend(agents_writes::objects(to.accounts, to.home, to.component));
    objects.extend(agent_parameters::objects(to.component));
    objects
}

/// Writing the phase of any pod is a strong right: it is granted only where the feature is on.
fn lifecycle(to: &Grantee<'_>) -> Vec<Value> {
    let rules = [rule("", &["pods"], &READ), rule("", &["pods/status"], &["patch"]), events()];
    to.grant("pillion-lifecycle", None, &rules)
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

/// Who gets rights.
pub(super) struct Grantee<'a> {
    /// The service accounts, in the namespace `home`.
    pub(super) accounts: &'a [&'a str],
    pub(super) home: &'a str,
    pub(super) component: &'a str,
}

impl Grantee<'_> {
    /// A role, in a namespace or in the whole cluster, and its binding to the accounts.
    pub(super) fn grant(&self, name: &str, namespace: Option<&str>, rules: &[Value]) -> Vec<Value> {
        let (role, binding) =
            if namespace.is_some() { ("Role", "RoleBinding") } else { ("ClusterRole", "ClusterRoleBinding") };
        let metadata = metadata(name, namespace, self.component);
        let subject = |account: &&str| json!({"kind": "ServiceAccount", "name": account, "namespace": self.home});
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
                "subjects": self.accounts.iter().map(subject).collect::<Vec<_>>(),
            }),
        ]
    }
}
