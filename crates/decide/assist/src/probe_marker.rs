//! PodProbeMarker without a node daemon: what the manager writes on a pod so that its agent makes the probes, and what the results mean.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::pod_probe::POD_PROBE;

/// The annotation with the names of the markers whose probes a pod has.
pub const POD_PROBE_MARKERS: &str = "kruise.io/podprobemarker-list";

/// One PodProbeMarker.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbeMarker {
    pub name: String,
    /// `spec.probes`, as they were written, but for those without a condition of their own.
    probes: Vec<Value>,
}

impl ProbeMarker {
    /// Reads a marker. Conditions that are `reserved` are Kubernetes' own, and the parameters of a policy are separated by commas: both are checked
    /// here as well, since the definition of the kind may be somebody else's.
    pub fn new(name: &str, probes: &Value, reserved: &[&str]) -> ProbeMarker {
        let legal = |name: &str| {
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
            !name.is_empty() && !reserved.contains(&name) && name.bytes().all(is_name)
        };
        let probes = probes.as_array().into_iter().flatten();
        let probes = probes.filter(|probe| probe["podConditionType"].as_str().is_some_and(legal));
        ProbeMarker { name: name.to_owned(), probes: probes.cloned().collect() }
    }

    /// The condition types that it has reported.
    pub fn conditions(&self) -> impl Iterator<Item = &str> {
        self.probes.iter().filter_map(|probe| probe["podConditionType"].as_str())
    }
}

/// A change of a pod's labels or annotations; `None` removes a key.
type Keys = BTreeMap<String, Option<String>>;

/// What is to be changed on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub labels: Keys,
    pub annotations: Keys,
}

impl Marks {
    /// Whether nothing is to be changed.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.annotations.is_empty()
    }
}

/// What a pod with an agent lacks: the probes of the markers that select it, sorted by name, and the marks of their results. Of two probes with one
/// condition the first counts; of several results that set a key, too.
pub fn marks(pod: &Value, markers: &[ProbeMarker]) -> Marks {
    let mut wanted = Marks::default();
    let (mut probes, mut names, mut conditions) = (Vec::new(), Vec::new(), BTreeSet::new());
    for marker in markers {
        let before = probes.len();
        for probe in &marker.probes {
            let Some(condition) = probe["podConditionType"].as_str() else { continue };
            let container = probe["containerName"].as_str().unwrap_or_default();
            let Some(container) = container_of(pod, container) else { continue };
            if conditions.insert(condition) {
                probes.push(asked(&marker.name, probe, container));
                mark(pod, condition, &probe["markerPolicy"], &mut wanted);
            }
        }
        if probes.len() > before {
            names.push(marker.name.as_str());
        }
    }
    // Probes that no marker has asked for are somebody else's.
    if !probes.is_empty() || pod["metadata"]["annotations"][POD_PROBE_MARKERS].is_string() {
        let probes = (!probes.is_empty()).then(|| Value::Array(probes).to_string());
        let names = (!names.is_empty()).then(|| names.join(","));
        wanted.annotations.extend([(POD_PROBE.to_owned(), probes), (POD_PROBE_MARKERS.to_owned(), names)]);
    }
    // Compared with the pod only now: results that want different values of one key would otherwise take turns.
    for (field, keys) in [("labels", &mut wanted.labels), ("annotations", &mut wanted.annotations)] {
        let current = &pod["metadata"][field];
        keys.retain(|key, value| current[key.as_str()].as_str() != value.as_deref());
    }
    wanted
}

/// A container or native sidecar of the pod.
fn container_of<'a>(pod: &'a Value, name: &str) -> Option<&'a Value> {
    let list = |field: &str| pod["spec"][field].as_array().into_iter().flatten();
    let native = list("initContainers").filter(|container| container["restartPolicy"] == "Always");
    list("containers").chain(native).find(|container| container["name"] == name)
}

/// A probe as Kruise writes it, with numbers for the names of ports: the agent cannot read the containers of its pod.
fn asked(marker: &str, probe: &Value, container: &Value) -> Value {
    let mut how = probe["probe"].clone();
    for kind in ["httpGet", "tcpSocket"] {
        let Some(port) = how.get_mut(kind).and_then(|kind| kind.get_mut("port")) else { continue };
        let ports = container["ports"].as_array().into_iter().flatten();
        let named = port.as_str().and_then(|name| ports.into_iter().find(|port| port["name"] == name));
        if let Some(number) = named.map(|port| port["containerPort"].clone()) {
            *port = number;
        }
    }
    json!({
        "name": format!("{marker}#{}", probe["name"].as_str().unwrap_or_default()),
        "containerName": container["name"],
        "probe": how,
        "podConditionType": probe["podConditionType"],
    })
}

/// The labels and annotations that a result wants. Those of the other results go, unless another probe sets them; a condition that is neither wants
/// nothing.
fn mark(pod: &Value, condition: &str, policies: &Value, wanted: &mut Marks) {
    let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
    let state = match conditions.find(|found| found["type"] == condition).and_then(|found| found["status"].as_str()) {
        Some("True") => "Succeeded",
        Some("False") => "Failed",
        _ => return,
    };
    for (field, keys) in [("labels", &mut wanted.labels), ("annotations", &mut wanted.annotations)] {
        // What this result sets, the last policy of a state first.
        for policy in policies.as_array().into_iter().flatten().rev() {
            for (key, value) in policy[field].as_object().into_iter().flatten() {
                let slot = keys.entry(key.clone()).or_default();
                if policy["state"] == state && slot.is_none() {
                    *slot = value.as_str().map(str::to_owned);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marker() -> ProbeMarker {
        let policy = |state: &str, cost: &str| json!({"state": state, "annotations": {"cost": cost}, "labels": {state.to_lowercase(): "yes"}});
        let probe = json!({
            "name": "idle", "containerName": "game", "podConditionType": "game.io/idle",
            "probe": {"httpGet": {"path": "/", "port": "http", "scheme": "HTTP"}, "periodSeconds": 2},
            "markerPolicy": [policy("Succeeded", "-10"), policy("Failed", "10")],
        });
        let unreported = json!({"name": "quiet", "containerName": "game", "probe": {"exec": {"command": ["true"]}}});
        ProbeMarker::new("games", &json!([probe, unreported]), &["Ready"])
    }

    fn pod(status: &str) -> Value {
        json!({
            "metadata": {"name": "game-0", "labels": {"failed": "yes"}, "annotations": {"other": "stays"}},
            "spec": {"containers": [{"name": "game", "ports": [{"name": "http", "containerPort": 8080}]}]},
            "status": {"conditions": [{"type": "game.io/idle", "status": status}]},
        })
    }

    #[test]
    fn probes_are_written_on_the_pod_as_kruise_writes_them() {
        let marks = marks(&pod("Unknown"), &[marker()]);
        let probes: Value = serde_json::from_str(marks.annotations[POD_PROBE].as_ref().unwrap()).unwrap();
        let probe = json!({"httpGet": {"path": "/", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 2});
        let expected = json!([{"name": "games#idle", "containerName": "game", "probe": probe, "podConditionType": "game.io/idle"}]);
        assert_eq!(probes, expected, "and the agent understands them");
        assert_eq!(crate::pod_probes(&probes.to_string(), "10.0.0.1").unwrap().len(), 1);
        assert_eq!(marks.annotations[POD_PROBE_MARKERS].as_deref(), Some("games"));
        assert!(marks.labels.is_empty(), "nothing is known yet");
        assert_eq!(marker().conditions().collect::<Vec<_>>(), ["game.io/idle"]);
        for illegal in ["Ready", "a,b", ""] {
            let probes = json!([{"name": "x", "containerName": "game", "podConditionType": illegal, "probe": {}}]);
            let other = ProbeMarker::new("games", &probes, &["Ready"]);
            assert_eq!(other.conditions().count(), 0, "{illegal}");
            assert!(super::marks(&pod("True"), &[other]).is_empty(), "{illegal}");
        }
    }

    #[test]
    fn results_mark_the_pod_and_the_marks_of_other_results_go() {
        let once = marks(&pod("True"), &[marker()]);
        let expected = [("succeeded", Some("yes")), ("failed", None)];
        assert_eq!(once.labels, expected.map(|(key, value)| (key.to_owned(), value.map(str::to_owned))).into());
        assert_eq!(once.annotations["cost"].as_deref(), Some("-10"));
        // Marking twice is marking once.
        let mut marked = pod("True");
        for (field, changes) in [("labels", &once.labels), ("annotations", &once.annotations)] {
            for (key, value) in changes {
                match value {
                    Some(value) => marked["metadata"][field][key] = json!(value),
                    None => drop(marked["metadata"][field].as_object_mut().unwrap().remove(key)),
                }
            }
        }
        assert_eq!(marks(&marked, &[marker()]), Marks::default());
        assert_eq!(marked["metadata"]["annotations"]["other"], "stays");
        // Without markers the probes go.
        let mut by_hand = pod("True");
        by_hand["metadata"]["annotations"][POD_PROBE] = json!("[]");
        assert!(marks(&by_hand, &[]).is_empty(), "what somebody else has written stays");
        let gone = marks(&marked, &[]);
        assert_eq!(gone.annotations, [POD_PROBE, POD_PROBE_MARKERS].map(|key| (key.to_owned(), None)).into());
    }

    #[test]
    fn probes_that_want_different_values_of_a_key_do_not_take_turns() {
        let probe = |name: &str, policies: Value| json!({"name": name, "containerName": "game", "podConditionType": name, "probe": {}, "markerPolicy": policies});
        let policy = |state: &str, cost: &str| json!({"state": state, "annotations": {"cost": cost}});
        let mut pod = pod("True");
        pod["status"]["conditions"] = json!([{"type": "a", "status": "True"}, {"type": "b", "status": "True"}]);
        let cost = |pod: &mut Value, probes: Value| {
            let marker = ProbeMarker::new("games", &probes, &[]);
            let wanted = marks(pod, std::slice::from_ref(&marker)).annotations;
            let cost = wanted.get("cost").cloned();
            for (key, value) in wanted {
                pod["metadata"]["annotations"][key] = json!(value);
            }
            assert_eq!(marks(pod, &[marker]), Marks::default(), "nothing is left to write");
            cost
        };
        let both =
            json!([probe("a", json!([policy("Succeeded", "-10")])), probe("b", json!([policy("Succeeded", "10")]))]);
        assert_eq!(cost(&mut pod.clone(), both), Some(Some("-10".to_owned())), "the first counts");
        let one = json!([probe("a", json!([policy("Failed", "10")])), probe("b", json!([policy("Succeeded", "-10")]))]);
        assert_eq!(cost(&mut pod, one), Some(Some("-10".to_owned())), "none removes what another sets");
    }

    #[test]
    fn probes_of_containers_that_a_pod_does_not_have_are_left_out() {
        let mut other = pod("True");
        other["spec"]["containers"][0]["name"] = json!("web");
        assert_eq!(marks(&other, &[marker()]), Marks::default());
        other["spec"]["initContainers"] = json!([{"name": "game", "restartPolicy": "Always"}]);
        assert!(!marks(&other, &[marker()]).is_empty(), "a native sidecar is a container");
    }
}
