//! `storageConfig`: where a result is written.

use std::collections::BTreeMap;

use serde_json::Value;

use super::expand::Fields;
use super::reader::Field;

/// Where the result of an endpoint or of a plugin is written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Storage {
    /// An annotation of the pod that gets the result.
    pub annotation_key: Option<String>,
    /// A label of the pod that gets the result.
    pub label_key: Option<String>,
    /// A condition of the pod: `True` for success, `False` for failure, `Unknown` if nobody can know.
    pub condition_type: Option<String>,
    /// Another object, and where in it.
    pub target: Option<Target>,
    /// A JSON Pointer into the target, which gets the result.
    pub json_path: Option<String>,
    /// What each state means.
    pub policies: Vec<Policy>,
    /// The name of a gauge, served at `/metrics`.
    pub metric: Option<String>,
}

/// An object that gets a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    /// Its version.
    pub version: String,
    /// The plural name.
    pub resource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// What is written while a probe answers with a state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Policy {
    /// The state, compared exactly; `unknown` is a probe that failed.
    pub state: String,
    /// Labels of the pod.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pod.
    pub annotations: BTreeMap<String, String>,
    /// Values in the target, by JSON Pointer.
    pub values: BTreeMap<String, Value>,
}

const KNOWN: &[&str] = &[
    "annotationKey",
    "labelKey",
    "conditionType",
    "podConditionType",
    "target",
    "jsonPath",
    "markerPolices",
    "markerPolicies",
    "markerPolicy",
];

/// Types of conditions that belong to the kubelet and the scheduler.
const NOT_OURS: &[&str] = &[
    "PodScheduled",
    "Ready",
    "Initialized",
    "ContainersReady",
    "PodResizeInProgress",
    "PodResizePending",
    "PodReadyToStartContainers",
    "AllContainersRestarting",
    "DisruptionTarget",
];

impl Storage {
    pub(super) fn read(field: &Field<'_>) -> Storage {
        let mut storage = Storage::default();
        if !field.mapping(&["type", "inKube", "httpMetric"]) {
            return storage;
        }
        let kind =
            field.get(&["type"]).and_then(|kind| kind.one_of(&[("InKube", "inKube"), ("HTTPMetric", "httpMetric")]));
        if let Some(kind) = kind.filter(|kind| field.get(&[kind]).is_none()) {
            field.wrong(format!(
                "`{kind}` is missing; if its keys follow, indent all of them alike, two deeper than `{kind}:`"
            ));
        }
        if let Some(metric) = field.get(&["httpMetric"]).and_then(|metric| metric.get(&["metricName"])) {
            let name = metric.word();
            let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
            if !name.chars().all(legal) || name.starts_with(|c: char| c.is_ascii_digit()) {
                metric.wrong(format!("{name:?} is not a name of a metric: letters, digits and _ only"));
            }
            storage.metric = Some(name);
        }
        let Some(kube) = field.get(&["inKube"]) else { return storage };
        if !kube.mapping(KNOWN) {
            return storage;
        }
        storage.annotation_key = kube.get(&["annotationKey"]).map(|key| key_of(&key));
        storage.label_key = kube.get(&["labelKey"]).map(|key| key_of(&key));
        storage.condition_type = kube.get(&["conditionType", "podConditionType"]).map(|condition| {
            let name = key_of(&condition);
            if NOT_OURS.contains(&name.as_str()) {
                condition.wrong(format!("the condition {name} belongs to Kubernetes; choose a name of your own"));
            }
            name
        });
        storage.target = kube.get(&["target"]).map(|target| Target::read(&target));
        storage.json_path = kube.get(&["jsonPath"]).map(|path| pointer(&path));
        let policies = kube.get(&["markerPolices", "markerPolicies", "markerPolicy"]);
        storage.policies =
            policies.as_ref().map(|list| list.items().iter().map(Policy::read).collect()).unwrap_or_default();
        let game_server = policies.iter().flat_map(Field::items);
        if storage.target.is_none()
            && game_server.into_iter().any(|policy| policy.get(&["gameServerOpsState"]).is_some())
        {
            storage.target = Some(Target::game_server());
        }
        let by_path = storage.json_path.is_some() || storage.policies.iter().any(|policy| !policy.values.is_empty());
        match (&storage.target, by_path) {
            (None, true) => kube.wrong("`jsonPath` needs a `target`: the object that it leads into"),
            (Some(_), false) => kube.wrong("`target` needs a `jsonPath`: where in the object the result is written"),
            _ => {}
        }
        storage
    }

    pub(super) fn expand(&mut self, fields: &Fields) {
        if let Some(target) = &mut self.target {
            target.expand(fields);
        }
    }

    /// Every key of the pod's annotations that this storage writes.
    pub fn annotation_keys(&self) -> impl Iterator<Item = &str> {
        let policies = self.policies.iter().flat_map(|policy| policy.annotations.keys());
        self.annotation_key.iter().chain(policies).map(String::as_str)
    }

    /// Every key of the pod's labels that this storage writes.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        let policies = self.policies.iter().flat_map(|policy| policy.labels.keys());
        self.label_key.iter().chain(policies).map(String::as_str)
    }
}

impl Target {
    /// The `GameServer` of the pod, which has its name.
    fn game_server() -> Target {
        Target {
            group: "game.kruise.io".to_owned(),
            version: "v1alpha1".to_owned(),
            resource: "gameservers".to_owned(),
            namespace: "${SELF:POD_NAMESPACE}".to_owned(),
            name: "${SELF:POD_NAME}".to_owned(),
        }
    }

    /// Replaces the variables of a target that nobody wrote.
    fn expand(&mut self, fields: &Fields) {
        for text in [&mut self.namespace, &mut self.name] {
            if let Some(value) = text.strip_prefix("${SELF:").and_then(|name| fields.get(name.strip_suffix('}')?)) {
                value.clone_into(text);
            }
        }
    }

    fn read(field: &Field<'_>) -> Target {
        field.mapping(&["group", "version", "resource", "namespace", "name", "podOwner"]);
        let text = |name: &str| field.get(&[name]).map(|text| text.text()).unwrap_or_default();
        let target = Target {
            group: text("group"),
            version: text("version"),
            resource: text("resource"),
            namespace: text("namespace"),
            name: text("name"),
        };
        for (name, value) in [("version", &target.version), ("resource", &target.resource), ("name", &target.name)] {
            if value.is_empty() {
                field.wrong(format!("the target has no `{name}`"));
            }
        }
        let parts = [&target.group, &target.version, &target.resource, &target.namespace, &target.name];
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.' || c == '$' || "{}:_".contains(c);
        if parts.iter().any(|part| !part.chars().all(legal) || part.as_str() == ".." || part.as_str() == ".") {
            field.wrong("a target's names are letters, digits, `-` and `.`");
        }
        target
    }

    /// The path of the object, or of its subresource.
    pub fn path(&self, subresource: Option<&str>) -> String {
        let group = if self.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", self.group) };
        let namespace =
            if self.namespace.is_empty() { String::new() } else { format!("/namespaces/{}", self.namespace) };
        let subresource = subresource.map(|name| format!("/{name}")).unwrap_or_default();
        format!("{group}/{}{namespace}/{}/{}{subresource}", self.version, self.resource, self.name)
    }
}

impl Policy {
    fn read(field: &Field<'_>) -> Policy {
        let mut policy = Policy::default();
        if !field.mapping(&["state", "labels", "annotations", "gameServerOpsState", "jsonPathConfigs"]) {
            return policy;
        }
        match field.get(&["state"]) {
            Some(state) => policy.state = state.word(),
            None => field.wrong("a policy needs a `state`"),
        }
        let texts = |name: &str| -> BTreeMap<String, String> {
            let entries = field.get(&[name]).map(|map| map.entries()).unwrap_or_default();
            entries.into_iter().map(|(key, value)| (key.to_owned(), value.text())).collect()
        };
        policy.labels = texts("labels");
        policy.annotations = texts("annotations");
        if let Some(labels) = field.get(&["labels"]) {
            for (key, value) in &policy.labels {
                if !label_value(value) {
                    labels.wrong(format!("{value:?} of {key} is not a value that a label can have"));
                }
            }
        }
        for config in field.get(&["jsonPathConfigs"]).map(|list| list.items()).unwrap_or_default() {
            config.mapping(&["jsonPath", "fieldType", "value"]);
            match (config.get(&["jsonPath"]), config.get(&["value"])) {
                (Some(path), Some(value)) => drop(policy.values.insert(pointer(&path), value.value().clone())),
                _ => config.wrong("this needs a `jsonPath` and a `value`"),
            }
        }
        if let Some(state) = field.get(&["gameServerOpsState"]) {
            policy.values.insert("/spec/opsState".to_owned(), Value::String(state.word()));
        }
        policy
    }
}

fn pointer(field: &Field<'_>) -> String {
    let text = field.word();
    if !text.starts_with('/') || text.len() == 1 {
        field.wrong(format!("{text:?} is not a JSON Pointer; write it as /spec/opsState"));
    }
    text
}

/// A key of a label, an annotation or a condition.
fn key_of(field: &Field<'_>) -> String {
    let text = field.word();
    let name = text.rsplit_once('/').map_or(text.as_str(), |(_, name)| name);
    let legal = |c: char| c.is_ascii_alphanumeric() || "-_./${}:".contains(c);
    if name.is_empty() || text.len() > 317 || text.matches('/').count() > 1 || !text.chars().all(legal) {
        field.wrong(format!("{text:?} is not a key: [prefix/]name, with letters, digits, `-`, `_` and `.`"));
    }
    text
}

/// Whether a label can have this value.
pub(crate) fn label_value(text: &str) -> bool {
    let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
    text.len() <= 63
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
        && edge(text.chars().next())
        && edge(text.chars().next_back())
}
