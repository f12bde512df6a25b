//! The objects that bring the in-pod agent into a namespace: SidecarSet, account, rights, and the policy that bounds them.

use std::collections::BTreeSet;

use pillion_assist::{Config, Kind, Reload, StartOrder, Storage, Target};
use serde_json::{Map, Value, json};

/// The account, the SidecarSet, the Role and the policy of the agent.
pub const AGENT: &str = "pillion-agent";
/// The ConfigMap with the agent's configuration.
const CONFIG: &str = "sidecar-config";
/// The ConfigMap with what each pod runs.
const RESULTS: &str = "sidecar-result";

/// Where and how the agent is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOptions {
    /// The namespace of the pods.
    pub namespace: String,
    /// The image with `pillion-agent`.
    pub image: String,
}

/// The objects for a configuration, in the order in which they are applied.
///
/// The account's token is in every container of the pod, so that its rights must be harmless in the app's hands: no right to read pods, and a policy
/// that lets a pod change only what its configuration names, and only on itself.
pub fn agent(config: &Config, text: &str, options: &AgentOptions) -> Vec<Value> {
    let namespace = &options.namespace;
    let user = format!("system:serviceaccount:{namespace}:{AGENT}");
    let subject = json!({"kind": "ServiceAccount", "name": AGENT, "namespace": namespace});
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": AGENT});
    let annotated = json!({"name": AGENT, "namespace": namespace, "annotations": {"pillion.dev/injectable": "true"}});
    let named = |name: &str| json!({"name": name, "namespace": namespace});
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": annotated}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named(CONFIG), "data": {"config.yaml": text}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named(AGENT), "data": parameters(config)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named(AGENT), "rules": rules(config)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": named(AGENT), "roleRef": role, "subjects": [subject]}),
    ];
    objects.extend(policy(config, namespace, &user));
    if has_hot_update(config) {
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named(RESULTS)}));
    }
    objects.push(sidecar_set(config, options));
    objects
}

fn has_hot_update(config: &Config) -> bool {
    config.plugins.iter().any(|plugin| matches!(plugin.kind, Kind::HotUpdate(_)))
}

fn conditions(config: &Config) -> BTreeSet<&str> {
    let stored = config.storages().filter_map(|storage| storage.condition_type.as_deref());
    stored.chain(config.status_condition.as_deref()).collect()
}

fn targets(config: &Config) -> BTreeSet<&Target> {
    config.storages().filter_map(|storage| storage.target.as_ref()).collect()
}

/// What the policy lets the agent write: comma-separated keys, none of which can contain a comma.
fn parameters(config: &Config) -> Value {
    let joined = |keys: BTreeSet<&str>| Value::String(keys.into_iter().collect::<Vec<_>>().join(","));
    let fixed = |target: &&Target| !target.name.contains("${");
    json!({
        "annotations": joined(config.storages().flat_map(Storage::annotation_keys).collect()),
        "labels": joined(config.storages().flat_map(Storage::label_keys).collect()),
        "conditions": joined(conditions(config)),
        "targets": joined(targets(config).into_iter().filter(fixed).map(|target| target.name.as_str()).collect()),
    })
}

fn rules(config: &Config) -> Value {
    let mut rules = Vec::new();
    let marks = config.storages().any(|storage| storage.annotation_keys().chain(storage.label_keys()).next().is_some());
    if marks {
        rules.push(json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["patch"]}));
    }
    if !conditions(config).is_empty() {
        rules.push(json!({"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]}));
    }
    if has_hot_update(config) {
        rules.push(json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [RESULTS], "verbs": ["get", "patch"]}));
    }
    for plugin in &config.plugins {
        if let Kind::HotUpdate(update) = &plugin.kind
            && let Some(name) = &update.config_map
        {
            rules.push(json!({"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [name], "verbs": ["get", "watch"]}));
        }
    }
    let secrets: BTreeSet<&str> = config.secrets().into_iter().map(|key| key.name.as_str()).collect();
    if !secrets.is_empty() {
        rules.push(json!({"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get"]}));
    }
    let kinds: BTreeSet<(&str, &str)> =
        targets(config).into_iter().map(|target| (target.group.as_str(), target.resource.as_str())).collect();
    for (group, resource) in kinds {
        let status = format!("{resource}/status");
        rules.push(json!({"apiGroups": [group], "resources": [resource, status], "verbs": ["patch"]}));
    }
    Value::Array(rules)
}

/// The part of the pod's status that is not the agent's. A field that only newer clusters have is not checked, but no right of the kubelet's is
/// given up with it: it writes the status again.
const STATUS: &[&str] = &[
    "phase",
    "reason",
    "message",
    "nominatedNodeName",
    "hostIP",
    "podIP",
    "podIPs",
    "startTime",
    "qosClass",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

fn policy(config: &Config, namespace: &str, user: &str) -> Vec<Value> {
    let name = format!("{AGENT}.{namespace}");
    let mut resources = vec![json!({
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE", "DELETE"],
        "resources": ["pods", "pods/status", "configmaps"],
    })];
    for target in targets(config) {
        let status = format!("{}/status", target.resource);
        resources.push(json!({
            "apiGroups": [target.group], "apiVersions": ["*"], "operations": ["CREATE", "UPDATE", "DELETE"],
            "resources": [target.resource, status],
        }));
    }
    let same = |path: &str, field: &str| {
        let (new, old) = (format!("object.{path}.{field}"), format!("oldObject.{path}.{field}"));
        format!("has({new}) == has({old}) && (!has({new}) || {new} == {old})")
    };
    let status = STATUS.iter().map(|field| format!("({})", same("status", field))).collect::<Vec<_>>().join(" && ");
    let metadata = ["ownerReferences", "finalizers"].map(|field| format!("({})", same("metadata", field))).join(" && ");
    let map = |object: &str, field: &str| format!("(has({object}.{field}) ? {object}.{field} : {{}})");
    let pods = "request.resource.resource != 'pods'";
    let only = |field: &str| {
        format!(
            "{pods} || (variables.new_{field}.all(k, k in variables.may_{field} || (k in variables.old_{field} && variables.old_{field}[k] == variables.new_{field}[k])) && variables.old_{field}.all(k, k in variables.may_{field} || k in variables.new_{field}))"
        )
    };
    let others = |object: &str| {
        format!(
            "(has({object}.status.conditions) ? {object}.status.conditions.filter(c, !(c.type in variables.may_conditions)) : [])"
        )
    };
    let mut variables = vec![json!({
        "name": "pod",
        "expression": "has(request.userInfo.extra) && 'authentication.kubernetes.io/pod-name' in request.userInfo.extra ? request.userInfo.extra['authentication.kubernetes.io/pod-name'][0] : ''",
    })];
    for field in ["annotations", "labels"] {
        variables.push(json!({"name": format!("new_{field}"), "expression": map("object.metadata", field)}));
        variables.push(json!({"name": format!("old_{field}"), "expression": map("oldObject.metadata", field)}));
    }
    for field in ["annotations", "labels", "conditions", "targets"] {
        variables
            .push(json!({"name": format!("may_{field}"), "expression": format!("params.data.{field}.split(',')")}));
    }
    let results = format!(
        "request.resource.resource != 'configmaps' || (request.name == '{RESULTS}' && {new}.all(k, k == variables.pod || (k in {old} && {old}[k] == {new}[k])) && {old}.all(k, k == variables.pod || k in {new}))",
        new = map("object", "data"),
        old = map("oldObject", "data")
    );
    let validations = [
        ("request.operation == 'UPDATE'".to_owned(), "the agent creates and deletes nothing"),
        ("variables.pod != ''".to_owned(), "the agent's token is not bound to a pod"),
        (format!("{pods} || request.name == variables.pod"), "the agent changes only its own pod"),
        (format!("{pods} || object.spec == oldObject.spec"), "the agent does not change the spec of a pod"),
        (format!("{pods} || ({metadata})"), "the agent changes no owners and no finalizers"),
        (only("annotations"), "the agent changes only annotations that its configuration names"),
        (only("labels"), "the agent changes only labels that its configuration names"),
        (format!("{pods} || {} == {}", others("object"), others("oldObject")), "the agent changes only conditions that its configuration names"),
        (format!("{pods} || ({status})"), "the agent changes nothing of a pod's status but conditions"),
        (results, "the agent changes only its own pod's entry of sidecar-result"),
        ("request.resource.resource in ['pods', 'configmaps'] || request.name == variables.pod || request.name in variables.may_targets".to_owned(), "a target has the name of the pod, or one that the configuration names"),
    ];
    let validations: Vec<Value> = validations
        .into_iter()
        .map(|(expression, message)| json!({"expression": expression, "message": message, "reason": "Forbidden"}))
        .collect();
    let condition = json!({"name": "agent", "expression": format!("request.userInfo.username == '{user}'")});
    vec![
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
                "matchConstraints": {"resourceRules": resources},
                "matchConditions": [condition],
                "variables": variables,
                "validations": validations,
            },
        }),
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "paramRef": {"name": AGENT, "namespace": namespace, "parameterNotFoundAction": "Deny"},
            },
        }),
    ]
}

fn sidecar_set(config: &Config, options: &AgentOptions) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": AGENT,
        "image": options.image,
        "command": ["pillion-agent"],
        "args": ["--config", "/opt/kidecar/config.yaml", "--pod-info", "/opt/kidecar-pod"],
        "env": [
            field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"), field("POD_IP", "status.podIP"),
            field("POD_TEMPLATE_HASH", "metadata.labels['pod-template-hash']"),
        ],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
        // `fileDir` is on a volume that the app mounts as well.
        "shareVolumePolicy": {"type": "enabled"},
        "volumeMounts": [
            {"name": "pillion-agent-config", "mountPath": "/opt/kidecar"}, {"name": "pillion-agent-pod", "mountPath": "/opt/kidecar-pod"},
        ],
    });
    let quantities = [("cpu", &config.resources.cpu), ("memory", &config.resources.memory)];
    let quantities: Map<String, Value> = quantities
        .into_iter()
        .filter_map(|(name, quantity)| Some((name.to_owned(), Value::String(quantity.clone()?))))
        .collect();
    if !quantities.is_empty() {
        container["resources"] = json!({"requests": quantities, "limits": quantities});
    }
    let annotations = json!([{"path": "annotations", "fieldRef": {"fieldPath": "metadata.annotations"}}]);
    let mut spec = json!({
        "selector": {"matchLabels": {"pillion.dev/agent": "enabled"}},
        "namespace": options.namespace,
        "serviceAccount": {"name": AGENT},
        "volumes": [
            {"name": "pillion-agent-config", "configMap": {"name": CONFIG}},
            {"name": "pillion-agent-pod", "downwardAPI": {"items": annotations}},
        ],
    });
    let signals =
        |kind: &Kind| matches!(kind, Kind::HotUpdate(update) if matches!(update.reload, Reload::Signal { .. }));
    if config.plugins.iter().any(|plugin| signals(&plugin.kind)) {
        spec["shareProcessNamespace"] = json!(true);
    }
    match config.start_order {
        StartOrder::Before => {
            container["restartPolicy"] = json!("Always");
            spec["initContainers"] = json!([container]);
        }
        StartOrder::After => spec["containers"] = json!([container]),
    }
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": AGENT}, "spec": spec})
}
