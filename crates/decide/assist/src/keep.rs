//! What the manager keeps for agents in the namespaces of their pods: the mirror of a configuration, the parameters of the policy that bounds
//! the agents, and results without those of pods that are gone.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::config::Config;
use crate::parameters::with_conditions;
use crate::update::{Entry, read_entry};

/// An entry of a pod that is gone is kept for this time: pods and results are seen by different watches.
const SETTLED: SignedDuration = SignedDuration::from_mins(10);
/// So many workloads without pods are remembered in one namespace.
const REMEMBERED: usize = 100;
/// Results of more bytes than this are cut down: a ConfigMap has room for 1 MiB.
const LARGEST: usize = 900_000;

/// A configuration that is mirrored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirrored {
    /// Its namespace and name, `NAMESPACE/NAME`.
    pub name: String,
    /// Its `config.yaml`.
    pub text: String,
}

/// One namespace as the manager sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNamespace {
    /// Whether it has agent pods.
    pub has_agents: bool,
    /// Its configuration, and what that mirrors, if anything.
    pub config: Option<(String, Option<String>)>,
    /// The parameters of its policy.
    pub parameters: Option<BTreeMap<String, String>>,
    /// The conditions of its PodProbeMarkers.
    pub conditions: BTreeSet<String>,
    /// What its agent pods have of what the parameters allow: keys under `annotations` and `labels`, types under `conditions`.
    pub in_use: BTreeMap<&'static str, BTreeSet<String>>,
}

/// What is to be written in one namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The configuration is created or replaced.
    Mirror(Mirrored),
    /// The mirror is deleted.
    Unmirror,
    /// The parameters are replaced.
    Parameters(BTreeMap<String, String>),
}

/// Why a configuration is not mirrored: `None` if it is.
pub fn not_mirrored(text: &str) -> Option<String> {
    if let Err(errors) = Config::parse(text, None) {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        return Some(lines.join("; "));
    }
    let documents = pillion_yaml::parse(text, pillion_yaml::Options::default()).unwrap_or_default();
    documents.iter().any(|document| has_credential(&document.value)).then(|| {
        "it has a literal Authorization header, which every namespace could read: refer to a Secret with secretKeyRef".to_owned()
    })
}

/// Whether there is a literal `Authorization` anywhere: plugins of others have headers as well.
fn has_credential(value: &Value) -> bool {
    match value {
        Value::Object(object) => object.iter().any(|(key, value)| {
            (key.eq_ignore_ascii_case("authorization") && value.is_string()) || has_credential(value)
        }),
        Value::Array(items) => items.iter().any(has_credential),
        _ => false,
    }
}

/// What is to be written in a namespace. `source` is what is mirrored, and `is_refused` whether it must not be: then a mirror stays as it is.
pub fn keep(namespace: &AgentNamespace, source: Option<&Mirrored>, is_refused: bool) -> Vec<Keep> {
    let mut plan = Vec::new();
    let is_mirror = matches!(&namespace.config, Some((_, Some(_))));
    let own = namespace.config.as_ref();
    let mut config = own.map(|(text, _)| text.as_str());
    match source {
        // A configuration that the namespace has itself is not replaced.
        Some(source) if namespace.has_agents && (own.is_none() || is_mirror) && !is_refused => {
            let wanted = (&source.text, Some(&source.name));
            if own.map(|(text, of)| (text, of.as_ref())) != Some(wanted) {
                plan.push(Keep::Mirror(source.clone()));
            }
            config = Some(&source.text);
        }
        Some(_) if namespace.has_agents => {}
        _ if is_mirror => {
            plan.push(Keep::Unmirror);
            config = None;
        }
        _ => {}
    }
    // The agents keep their old configuration when the new one is wrong, and so does the policy.
    let config = config.and_then(|text| Config::parse(text, None).ok());
    let wanted = config.map(|config| with_conditions(&config, namespace.conditions.iter().map(String::as_str)));
    if let (Some(wanted), Some(known)) = (wanted, &namespace.parameters) {
        let wanted = with_what_is_in_use(wanted, known, &namespace.in_use);
        if *known != wanted {
            plan.push(Keep::Parameters(wanted));
        }
    }
    plan
}

/// What the configuration does not name any more stays allowed until no pod has it: an agent reads a new configuration later than the manager, and
/// removes then what its old one has written. Nothing is allowed that was not allowed before.
fn with_what_is_in_use(
    mut wanted: BTreeMap<String, String>,
    known: &BTreeMap<String, String>,
    in_use: &BTreeMap<&'static str, BTreeSet<String>>,
) -> BTreeMap<String, String> {
    for (field, used) in in_use {
        let Some(value) = wanted.get_mut(*field) else { continue };
        let old = known.get(*field).map(|old| listed(old)).unwrap_or_default();
        let kept = old.into_iter().filter(|key| used.contains(*key));
        let all: BTreeSet<&str> = listed(value).into_iter().chain(kept).collect();
        let joined = all.into_iter().collect::<Vec<_>>().join(",");
        *value = joined;
    }
    wanted
}

/// The keys of a parameter.
fn listed(value: &str) -> BTreeSet<&str> {
    value.split(',').filter(|key| !key.is_empty()).collect()
}

/// The keys of `sidecar-result` that may be removed if their pods are gone. What a workload without pods ran last stays for those that come.
pub fn prunable(data: &BTreeMap<String, String>, now: Timestamp) -> Vec<String> {
    let entries: Vec<(&String, Option<Entry>)> =
        data.iter().map(|(pod, text)| (pod, read_entry(pod, text, now))).collect();
    let mut latest: BTreeMap<&str, (Timestamp, &str)> = BTreeMap::new();
    for (pod, entry) in &entries {
        let Some(entry) = entry else { continue };
        let known = latest.entry(&entry.workload).or_insert((entry.time, pod));
        if entry.time >= known.0 {
            *known = (entry.time, pod);
        }
    }
    let mut kept: Vec<(Timestamp, &str)> = latest.into_values().collect();
    kept.sort_unstable();
    let kept: BTreeSet<&str> = kept.into_iter().rev().take(REMEMBERED).map(|(_, pod)| pod).collect();
    // What cannot be read is of no use to anybody.
    let is_old = |entry: &Option<Entry>| entry.as_ref().is_none_or(|entry| now.duration_since(entry.time) > SETTLED);
    let removed = entries.iter().filter(|(pod, entry)| !kept.contains(pod.as_str()) && is_old(entry));
    removed.map(|(pod, _)| (*pod).clone()).collect()
}

/// The keys that are removed although their pods live, because a ConfigMap cannot be larger than 1 MiB: those that may be pruned, the oldest
/// first, until the rest fits. The pods still have what they run, and new ones follow the last of their workload.
pub fn excess(data: &BTreeMap<String, String>, now: Timestamp) -> Vec<String> {
    let size = |pod: &String| pod.len() + data.get(pod).map_or(0, String::len);
    let mut total: usize = data.keys().map(size).sum();
    let mut candidates = prunable(data, now);
    candidates.sort_by_key(|pod| data.get(pod).and_then(|text| read_entry(pod, text, now)).map(|entry| entry.time));
    let mut excess = Vec::new();
    for pod in candidates {
        if total <= LARGEST {
            break;
        }
        total -= size(&pod);
        excess.push(pod);
    }
    excess
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("config/samples/proposal-1.yaml");

    fn source(text: &str) -> Mirrored {
        Mirrored { name: "kube-system/sidecar-config".into(), text: text.into() }
    }

    #[test]
    fn a_configuration_is_mirrored_where_there_are_agents() {
        let source = source(TEXT);
        let agents = AgentNamespace { has_agents: true, ..AgentNamespace::default() };
        assert_eq!(keep(&agents, Some(&source), false), [Keep::Mirror(source.clone())]);
        assert_eq!(keep(&AgentNamespace::default(), Some(&source), false), []);
        let mirrored = AgentNamespace { config: Some((TEXT.into(), Some(source.name.clone()))), ..agents.clone() };
        assert_eq!(keep(&mirrored, Some(&source), false), []);
        let gone = AgentNamespace { has_agents: false, ..mirrored.clone() };
        assert_eq!(keep(&gone, Some(&source), false), [Keep::Unmirror], "nobody needs it");
        assert_eq!(keep(&mirrored, None, false), [Keep::Unmirror], "there is nothing to mirror");
        let own = AgentNamespace { config: Some(("plugins: []".into(), None)), ..agents };
        assert_eq!(keep(&own, Some(&source), false), [], "what the namespace has itself stays");
        let newer = Mirrored { text: "plugins: []".into(), ..source };
        assert_eq!(keep(&mirrored, Some(&newer), true), [], "what must not be mirrored changes nothing");
    }

    #[test]
    fn parameters_follow_the_configuration_and_not_a_wrong_one() {
        let of = |text: &str| AgentNamespace {
            config: Some((text.into(), None)),
            parameters: Some(BTreeMap::new()),
            ..AgentNamespace::default()
        };
        let wanted = with_conditions(&Config::parse(TEXT, None).unwrap(), []);
        assert_eq!(keep(&of(TEXT), None, false), [Keep::Parameters(wanted.clone())]);
        let kept = AgentNamespace { parameters: Some(wanted.clone()), ..of(TEXT) };
        assert_eq!(keep(&kept, None, false), []);
        let marked = AgentNamespace { conditions: ["game.io/idle".to_owned()].into(), ..kept };
        let plan = keep(&marked, None, false);
        let [Keep::Parameters(data)] = plan.as_slice() else { panic!("{plan:?}") };
        assert_eq!(data["conditions"], format!("game.io/idle,{}", wanted["conditions"]));
        assert_eq!(keep(&of("plugins: 1"), None, false), []);
        assert_eq!(keep(&AgentNamespace { parameters: None, ..of(TEXT) }, None, false), [], "there is no policy");
    }

    #[test]
    fn what_a_removed_plugin_has_written_can_be_removed_before_the_parameters_forget_it() {
        let before = with_conditions(&Config::parse(TEXT, None).unwrap(), []);
        let used = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>();
        let mut namespace = AgentNamespace {
            config: Some(("plugins: []\nstatusCondition: ''\n".into(), None)),
            parameters: Some(before),
            in_use: [
                ("annotations", used(&["http_probe", "somebody-elses"])),
                ("labels", used(&["gameserver-idle", "app"])),
                ("conditions", used(&["pillion.dev/Agent", "Ready"])),
            ]
            .into(),
            ..AgentNamespace::default()
        };
        let plan = keep(&namespace, None, false);
        let [Keep::Parameters(data)] = plan.as_slice() else { panic!("{plan:?}") };
        let expected = [
            ("annotations", "http_probe"),
            ("conditions", "pillion.dev/Agent"),
            ("labels", "gameserver-idle"),
            ("targets", ""),
        ];
        assert_eq!(*data, expected.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        namespace.parameters = Some(data.clone());
        assert_eq!(keep(&namespace, None, false), [], "and it stays so until the pods do not have it");
        namespace.in_use = [("annotations", used(&[])), ("labels", used(&["app"])), ("conditions", used(&[]))].into();
        let plan = keep(&namespace, None, false);
        let [Keep::Parameters(data)] = plan.as_slice() else { panic!("{plan:?}") };
        assert!(data.values().all(String::is_empty), "{data:?}");
    }

    #[test]
    fn literal_credentials_are_not_mirrored() {
        let with = |header: &str| {
            format!(
                "plugins: [{{name: http_probe, config: {{endpoints: [{{url: 'http://x', headers: {header}, storageConfig: {{type: InKube, inKube: {{labelKey: a}}}}}}]}}}}]"
            )
        };
        assert!(not_mirrored(&with("{authorization: 'Bearer x'}")).unwrap().contains("secretKeyRef"));
        assert_eq!(not_mirrored(&with("{Authorization: {secretKeyRef: {name: a, key: b}}}")), None);
        assert_eq!(not_mirrored(TEXT), None);
        assert!(not_mirrored("plugins: 1").is_some());
    }

    #[test]
    fn results_of_pods_that_are_gone_are_pruned_but_for_the_last_of_each_workload() {
        let entry =
            |workload: &str, second: i64| serde_json::to_string(&Entry::sample(workload, "v1", second)).unwrap();
        let now = Timestamp::from_second(10_000).unwrap();
        let data: BTreeMap<String, String> = [
            ("web-0", entry("web", 10)),
            ("web-1", entry("web", 20)),
            ("web-2", entry("web", 15)),
            ("db-2", entry("web", 9_000)),
            ("db-0", entry("db", 9_990)),
            ("db-1", entry("db", 9_995)),
            ("poison", "{".to_owned()),
        ]
        .map(|(pod, text)| (pod.to_owned(), text))
        .into();
        assert_eq!(
            prunable(&data, now),
            ["db-2", "poison", "web-0", "web-2"],
            "db-0 is too young, and db-2 does not belong to web"
        );
        let many: BTreeMap<String, String> =
            (0..300).map(|i| (format!("w{i}-0"), entry(&format!("w{i}"), i))).collect();
        assert_eq!(prunable(&many, now).len(), 300 - REMEMBERED, "it is bounded");
        assert_eq!(excess(&many, now), Vec::<String>::new(), "there is room for all");
    }

    #[test]
    fn results_that_do_not_fit_lose_the_oldest_and_never_the_last_of_a_workload() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut data: BTreeMap<String, String> = (0..5000)
            .map(|i| (format!("web-{i}"), serde_json::to_string(&Entry::sample("web", "v1", 10 + i)).unwrap()))
            .collect();
        data.insert("db-0".to_owned(), serde_json::to_string(&Entry::sample("db", "v1", 1)).unwrap());
        let removed = excess(&data, now);
        assert_eq!((removed[0].as_str(), removed[1].as_str()), ("web-0", "web-1"));
        data.retain(|pod, _| !removed.contains(pod));
        let left: usize = data.iter().map(|(pod, text)| pod.len() + text.len()).sum();
        assert!(left <= LARGEST && left > LARGEST - 1000, "{left}");
        assert!(data.contains_key("db-0") && data.contains_key("web-4999"));
    }
}
