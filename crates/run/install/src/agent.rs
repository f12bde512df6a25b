//! The objects that bring the in-pod agent into a namespace: SidecarSet, account, rights, and the policy that bounds them.

use std::collections::BTreeSet;

use pillion_api::names;
use pillion_api::names::agent::{CONFIG, CONFIG_KEY, LABEL, MIRROR, NAME as AGENT, RESULTS};
use pillion_assist::{Config, Key, Kind, Reload, StartOrder, not_mirrored, parameters};
use serde_json::{Map, Value, json};

use self::policy::policy;

mod policy;

/// Where and how the agent is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentOptions {
    /// The namespace of the pods.
    pub namespace: String,
    /// The image with `pillion-agent`.
    pub image: String,
    /// The user that the agent runs as: that of the process that it signals. Without it, an agent that signals may signal every process of its pod.
    pub user: Option<u32>,
    /// The namespace and name of the ConfigMap that the manager mirrors; without it the namespace gets a configuration of its own.
    pub mirror: Option<(String, String)>,
}

/// The variables of the agent's container, with the fields of the pod that they have.
const VARIABLES: [(&str, &str); 8] = [
    ("POD_NAME", "metadata.name"),
    ("POD_NAMESPACE", "metadata.namespace"),
    ("POD_IP", "status.podIP"),
    ("POD_TEMPLATE_HASH", "metadata.labels['pod-template-hash']"),
    ("POD_UID", "metadata.uid"),
    ("POD_SERVICE_ACCOUNT", "spec.serviceAccountName"),
    ("NODE_NAME", "spec.nodeName"),
    ("HOST_IP", "status.hostIP"),
];

/// Reads a configuration as the agents that it is printed for do. What they, or the manager that mirrors it, would refuse is refused.
///
/// # Errors
/// What is wrong with it, with line and column where it has a place.
pub fn agent_config(text: &str, options: &AgentOptions) -> Result<Config, Vec<String>> {
    let lines = |errors: Vec<_>| errors.iter().map(ToString::to_string).collect::<Vec<String>>();
    let config = Config::parse(text, None).map_err(lines)?;
    // Any value will do, but for what it is checked for.
    let value = |path: &str| if path.starts_with("status.") { "10.0.0.1" } else { "a" };
    let fields = VARIABLES.map(|(name, path)| (name.to_owned(), value(path).to_owned()));
    Config::parse(text, Some(&fields.into())).map_err(lines)?;
    match options.mirror.as_ref().and_then(|_| not_mirrored(text)) {
        Some(reason) => Err(vec![format!(" it would not be mirrored: {reason}")]),
        None => Ok(config),
    }
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
    let annotated = json!({"name": AGENT, "namespace": namespace, "annotations": {names::INJECTABLE: "true"}});
    let named = |name: &str| json!({"name": name, "namespace": namespace});
    let labelled = |name: &str, part: &str| json!({"name": name, "namespace": namespace, "labels": {LABEL: part}});
    let configuration = match &options.mirror {
        None => labelled(CONFIG, "config"),
        // The manager makes the ConfigMap of the namespace.
        Some((home, name)) => json!({"name": name, "namespace": home, "labels": {MIRROR: "true"}}),
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": annotated}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": configuration, "data": {CONFIG_KEY: text}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": labelled(AGENT, "parameters"), "data": parameters(config)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": named(AGENT), "rules": rules(config)}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": named(AGENT), "roleRef": role, "subjects": [subject]}),
    ];
    objects.extend(policy(config, namespace, &user));
    if has_hot_update(config) {
        objects.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": labelled(RESULTS, "result")}));
    }
    objects.push(sidecar_set(config, options));
    objects
}

fn has_hot_update(config: &Config) -> bool {
    config.plugins.iter().any(|plugin| matches!(plugin.kind, Kind::HotUpdate(_)))
}

fn rules(config: &Config) -> Value {
    let keys = config.keys();
    let rights: BTreeSet<_> = keys.iter().map(Key::right).collect();
    let right = |(group, resources)| json!({"apiGroups": [group], "resources": resources, "verbs": ["patch"]});
    let mut rules: Vec<Value> = rights.into_iter().map(right).collect();
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
    Value::Array(rules)
}

/// Whether a plugin signals a process of the pod.
fn signals(config: &Config) -> bool {
    let signals =
        |kind: &Kind| matches!(kind, Kind::HotUpdate(update) if matches!(update.reload, Reload::Signal { .. }));
    config.plugins.iter().any(|plugin| signals(&plugin.kind))
}

/// A process is signalled by its own user, or by root with the capability `KILL`: a capability that is added has no effect for any other user.
fn security_context(config: &Config, options: &AgentOptions) -> Value {
    let mut context = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    if let Some(user) = options.user {
        context["runAsUser"] = json!(user);
    } else if signals(config) {
        context["runAsUser"] = json!(0);
        context["capabilities"]["add"] = json!(["KILL"]);
    }
    context
}

fn sidecar_set(config: &Config, options: &AgentOptions) -> Value {
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let mut container = json!({
        "name": AGENT,
        "image": options.image,
        "command": ["pillion-agent"],
        "args": ["--config", "/opt/kidecar/config.yaml", "--pod-info", "/opt/kidecar-pod"],
        "env": VARIABLES.map(|(name, path)| field(name, path)),
        "securityContext": security_context(config, options),
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
        "selector": {"matchLabels": {LABEL: names::agent::ENABLED}},
        "namespace": options.namespace,
        "serviceAccount": {"name": AGENT},
        "volumes": [
            {"name": "pillion-agent-config", "configMap": {"name": CONFIG}},
            {"name": "pillion-agent-pod", "downwardAPI": {"items": annotations}},
        ],
    });
    if signals(config) {
        spec["shareProcessNamespace"] = json!(true);
    }
    match config.start_order {
        StartOrder::Before => {
            container["restartPolicy"] = json!("Always");
            spec["initContainers"] = json!([container]);
        }
        StartOrder::After => {
            // Without it, injection puts the container in front of the pod's own, and the kubelet starts it first.
            container["podInjectPolicy"] = json!("AfterAppContainer");
            spec["containers"] = json!([container]);
        }
    }
    json!({"apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": format!("{AGENT}-{}", options.namespace)}, "spec": spec})
}
