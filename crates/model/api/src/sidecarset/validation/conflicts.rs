//! Two sets that can meet in one pod must agree there.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

use imbl::HashMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use pillion_selector::Selector;
use serde_json::{Map, Value};

use super::containers::injected_names;
use super::role::each;
use crate::field::{Error, Path};
use crate::sidecarset::{NameSet, PatchPodMetadata, PatchPolicy, SidecarSet, SidecarSetSpec};

pub(super) fn validate(set: &SidecarSet, sets: &[&SidecarSet], path: &Path, errors: &mut Vec<Error>) {
    let mine = Selectors::of(&set.spec);
    for other in sets.iter().filter(|other| other.name() != set.name() && !is_canary_pair(set, other)) {
        let mut conflicts = compare(set, other, path);
        // Most sets have nothing in common, which is cheaper to see than what their selectors have.
        if !conflicts.is_empty() && mine.as_ref().is_some_and(|mine| mine.can_meet(&other.spec)) {
            errors.append(&mut conflicts);
        }
    }
}

/// The names of SidecarSets by what they could be in conflict about, so that a set is compared with those alone. Clones share what
/// they have in common.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    /// By the hash of a topic: two topics with the same hash cost a comparison.
    by_topic: HashMap<u64, NameSet>,
}

/// Why sets that disagree are a problem, behind the name of the other set.
const CAN_MEET: &str = ", whose selectors can match the same pods";

const SHARE: &str = "shareProcessNamespace";
const ACCOUNT: &str = "serviceAccount";

/// Something that two sets could disagree on, or the name by which a canary refers to its base.
#[derive(Clone, Copy, Hash)]
enum Topic<'a> {
    Set(&'a str),
    Container(&'a str),
    Volume(&'a str),
    Annotation(&'a str),
    /// A field of the pod itself.
    Field(&'a str),
}

impl Topic<'_> {
    fn key(self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// The keys of what a set could disagree on with others.
fn topics(set: &SidecarSet) -> impl Iterator<Item = u64> {
    let containers = each(&set.spec)
        .flat_map(|(container, role, _)| injected_names(container, role))
        .map(|name| Topic::Container(&name).key());
    let volumes = set.spec.volumes.iter().filter_map(|volume| volume.get("name")?.as_str());
    let annotations = set.spec.patch_pod_metadata.iter().flat_map(|patch| patch.annotations.keys());
    let fields = [
        set.spec.share_process_namespace.is_some().then_some(SHARE),
        set.spec.service_account.is_some().then_some(ACCOUNT),
    ];
    containers
        .chain(fields.into_iter().flatten().map(|field| Topic::Field(field).key()))
        .chain(volumes.map(|name| Topic::Volume(name).key()))
        .chain(annotations.map(|key| Topic::Annotation(key).key()))
}

impl Neighbours {
    /// Adds a set.
    pub fn insert(&mut self, set: &SidecarSet) {
        let name: Arc<str> = Arc::from(set.name());
        for topic in topics(set).chain([Topic::Set(set.name()).key()]) {
            self.by_topic.entry(topic).or_default().insert(&name);
        }
    }

    /// Removes a set, as it was added.
    pub fn remove(&mut self, set: &SidecarSet) {
        for topic in topics(set).chain([Topic::Set(set.name()).key()]) {
            let Some(names) = self.by_topic.get_mut(&topic) else { continue };
            names.remove(set.name());
            if names.is_empty() {
                self.by_topic.remove(&topic);
            }
        }
    }

    /// The names of the sets that `set` could be in conflict with, and that of its base if it is a canary.
    pub fn of(&self, set: &SidecarSet) -> BTreeSet<&str> {
        let topics = topics(set).chain(set.canary_base().map(|base| Topic::Set(base).key()));
        topics.filter_map(|topic| self.by_topic.get(&topic)).flat_map(NameSet::iter).collect()
    }
}

/// A canary replaces its base, so the two never meet in a pod.
fn is_canary_pair(one: &SidecarSet, two: &SidecarSet) -> bool {
    one.canary_base() == Some(two.name()) || two.canary_base() == Some(one.name())
}

/// Which pods a set is for.
struct Selectors {
    pods: Selector,
    /// `None` means all namespaces.
    namespaces: Option<Selector>,
}

impl Selectors {
    /// `None` for a set that is malformed, and so is for no pod.
    fn of(spec: &SidecarSetSpec) -> Option<Selectors> {
        let read = |selector: &LabelSelector| Selector::from_label_selector(selector).ok();
        let namespaces = spec.namespace_selector.as_ref();
        Some(Selectors {
            pods: spec.selector.as_ref().and_then(read)?,
            namespaces: namespaces.map(|selector| read(selector).ok_or(())).transpose().ok()?,
        })
    }

    fn can_meet(&self, other: &SidecarSetSpec) -> bool {
        let Some(other) = Selectors::of(other) else { return false };
        let same_namespace = match (&self.namespaces, &other.namespaces) {
            (Some(one), Some(two)) => one.overlaps(two),
            _ => true,
        };
        same_namespace && self.pods.overlaps(&other.pods)
    }
}

/// What the two would disagree on if they met.
fn compare(set: &SidecarSet, other: &SidecarSet, path: &Path) -> Vec<Error> {
    let mut errors = Vec::new();
    compare_containers(set, other, &mut errors);
    compare_volumes(set, other, &path.child("volumes"), &mut errors);
    compare_annotations(set, other, &path.child("patchPodMetadata"), &mut errors);
    compare_fields(set, other, path, &mut errors);
    errors
}

/// Also an init container against a container: a pod has each name once.
fn compare_containers(set: &SidecarSet, other: &SidecarSet, errors: &mut Vec<Error>) {
    let mut taken: BTreeSet<String> =
        each(&other.spec).flat_map(|(container, role, _)| injected_names(container, role)).collect();
    taken.remove("");
    for (container, role, path) in each(&set.spec) {
        if let Some(name) = injected_names(container, role).into_iter().find(|name| taken.contains(name)) {
            let detail = format!("container {name} already exist in sidecarset {}{CAN_MEET}", other.name());
            errors.push(Error::invalid(&path.child("name"), container.name(), detail));
        }
    }
}

fn compare_volumes(set: &SidecarSet, other: &SidecarSet, path: &Path, errors: &mut Vec<Error>) {
    let name_of = |volume: &Map<String, Value>| volume.get("name").cloned();
    for (i, volume) in set.spec.volumes.iter().enumerate() {
        let theirs = other.spec.volumes.iter().find(|theirs| name_of(theirs) == name_of(volume));
        if theirs.is_some_and(|theirs| theirs != volume) {
            let name = volume.get("name").and_then(Value::as_str).unwrap_or_default();
            let detail = format!("volume {name} is in conflict with sidecarset {}{CAN_MEET}", other.name());
            errors.push(Error::invalid(&path.index(i), name, detail));
        }
    }
}

/// A pod has one service account, and shares its process namespace or not.
fn compare_fields(set: &SidecarSet, other: &SidecarSet, path: &Path, errors: &mut Vec<Error>) {
    let share = |set: &SidecarSet| set.spec.share_process_namespace;
    if let (Some(mine), Some(theirs)) = (share(set), share(other))
        && mine != theirs
    {
        let detail = format!("{SHARE} is {theirs} in sidecarset {}{CAN_MEET}", other.name());
        errors.push(Error::invalid(&path.child(SHARE), mine, detail));
    }
    if let (Some(mine), Some(theirs)) = (&set.spec.service_account, &other.spec.service_account)
        && mine.name != theirs.name
    {
        let detail = format!("the account is {:?} in sidecarset {}{CAN_MEET}", theirs.name, other.name());
        errors.push(Error::invalid(&path.child(ACCOUNT).child("name"), mine.name.as_str(), detail));
    }
}

/// Keeping what is there agrees with everything, and merges agree with each other.
fn compare_annotations(set: &SidecarSet, other: &SidecarSet, path: &Path, errors: &mut Vec<Error>) {
    let is_retain = |patch: &&PatchPodMetadata| matches!(patch.patch_policy, None | Some(PatchPolicy::Retain));
    let overwrites = |patch: &PatchPodMetadata| patch.patch_policy == Some(PatchPolicy::Overwrite);
    for (i, patch) in set.spec.patch_pod_metadata.iter().enumerate().filter(|(_, patch)| !is_retain(patch)) {
        for key in patch.annotations.keys() {
            let mut theirs = other.spec.patch_pod_metadata.iter().filter(|theirs| !is_retain(theirs));
            if theirs.any(|theirs| theirs.annotations.contains_key(key) && (overwrites(patch) || overwrites(theirs))) {
                let detail = format!("annotation {key} is in conflict with sidecarset {}{CAN_MEET}", other.name());
                errors.push(Error::invalid(&path.index(i).child("annotations"), key.as_str(), detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{container, lines, set};
    use super::*;
    use crate::names;

    fn conflicts(set: &SidecarSet, other: &SidecarSet) -> String {
        let mut errors = Vec::new();
        validate(set, &[set, other], &Path::new("spec"), &mut errors);
        lines(&errors)
    }

    /// Two sets with the same spec but for the containers' names, which differ.
    fn pair(one: Value, two: Value) -> (SidecarSet, SidecarSet) {
        let mut sets = (set("sidecarset2", one), set("sidecarset1", two));
        sets.0.spec.containers = Vec::new();
        sets.1.spec.containers = Vec::new();
        sets
    }

    #[test]
    fn the_same_names_conflict_where_two_sets_can_meet() {
        let of = |name: &str, namespace: Option<&str>| {
            set(
                name,
                json!({
                    "namespaceSelector": namespace.map(|namespace| json!({"matchLabels": {"app": namespace}})),
                    "containers": [container(json!({"name": "container-name"}))],
                    "initContainers": [container(json!({"name": "init-name"}))],
                    "volumes": [{"name": "volume-name"}],
                }),
            )
        };
        insta::assert_snapshot!(conflicts(&of("sidecarset2", None), &of("sidecarset1", None)), @r#"
        spec.containers[0].name: Invalid value: "container-name": container container-name already exist in sidecarset sidecarset1, whose selectors can match the same pods
        spec.initContainers[0].name: Invalid value: "init-name": container init-name already exist in sidecarset sidecarset1, whose selectors can match the same pods
        "#);
        assert_ne!(conflicts(&of("sidecarset2", Some("nginx")), &of("sidecarset1", Some("nginx"))), "");
        assert_ne!(conflicts(&of("sidecarset2", Some("nginx")), &of("sidecarset1", None)), "");
        assert_eq!(conflicts(&of("sidecarset2", Some("nginx")), &of("sidecarset1", Some("redis"))), "");
        assert_eq!(conflicts(&of("same", None), &of("same", None)), "", "a set does not conflict with itself");
    }

    #[test]
    fn a_key_that_only_one_selector_has_does_not_keep_two_sets_apart() {
        let exists = json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]});
        let one = set("one", json!({"selector": exists}));
        let two = set("two", json!({"selector": {"matchLabels": {"b": "c"}}}));
        assert_ne!(conflicts(&one, &two), "");
        let absent = json!({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]});
        assert_eq!(conflicts(&one, &set("three", json!({"selector": absent}))), "");
    }

    #[test]
    fn names_are_compared_as_they_are_injected() {
        let hot = json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"});
        let one = set("one", json!({"containers": [container(json!({"name": "mesh", "upgradeStrategy": hot}))]}));
        let two = set("two", json!({"containers": null, "initContainers": [container(json!({"name": "mesh-2"}))]}));
        insta::assert_snapshot!(conflicts(&one, &two), @r#"spec.containers[0].name: Invalid value: "mesh": container mesh-2 already exist in sidecarset two, whose selectors can match the same pods"#);
        insta::assert_snapshot!(conflicts(&two, &one), @r#"spec.initContainers[0].name: Invalid value: "mesh-2": container mesh-2 already exist in sidecarset one, whose selectors can match the same pods"#);
    }

    #[test]
    fn a_canary_and_its_base_never_meet() {
        let base = set("base", json!({}));
        let mut canary = set("canary", json!({}));
        let annotations = [(names::CANARY, "true"), (names::CANARY_BASE, "base")];
        canary.metadata.annotations = Some(annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).into());
        assert_eq!(conflicts(&canary, &base), "");
        assert_eq!(conflicts(&base, &canary), "", "nor is the base frozen");
        assert_ne!(conflicts(&canary, &set("other", json!({}))), "");
    }

    #[test]
    fn fields_of_the_pod_itself_conflict_where_two_sets_can_meet() {
        let of = |name: &str, share: bool, account: &str| {
            set(
                name,
                json!({"shareProcessNamespace": share, "serviceAccount": {"name": account}, "containers": [container(json!({"name": name}))]}),
            )
        };
        assert_eq!(conflicts(&of("one", true, "agent"), &of("two", true, "agent")), "");
        insta::assert_snapshot!(conflicts(&of("one", true, "agent"), &of("two", false, "other")), @r#"
        spec.shareProcessNamespace: Invalid value: true: shareProcessNamespace is false in sidecarset two, whose selectors can match the same pods
        spec.serviceAccount.name: Invalid value: "agent": the account is "other" in sidecarset two, whose selectors can match the same pods
        "#);
        let mut neighbours = Neighbours::default();
        neighbours.insert(&of("two", false, "other"));
        let alone = set("one", json!({"shareProcessNamespace": true}));
        assert_eq!(neighbours.of(&alone).into_iter().collect::<Vec<_>>(), ["two"]);
    }

    #[test]
    fn annotations_conflict_when_one_overwrites_what_the_other_writes() {
        let patch =
            |policy: &str| json!({"patchPodMetadata": [{"annotations": {"key1": "{}"}, "patchPolicy": policy}]});
        let compare = |one: &str, two: &str| {
            let (one, two) = pair(patch(one), patch(two));
            conflicts(&one, &two)
        };
        insta::assert_snapshot!(compare("Overwrite", "MergePatchJson"), @r#"spec.patchPodMetadata[0].annotations: Invalid value: "key1": annotation key1 is in conflict with sidecarset sidecarset1, whose selectors can match the same pods"#);
        assert_ne!(compare("MergePatchJson", "Overwrite"), "");
        assert_ne!(compare("Overwrite", "Overwrite"), "");
        assert_eq!(compare("MergePatchJson", "MergePatchJson"), "");
        assert_eq!(compare("Retain", "Overwrite"), "");
        assert_eq!(compare("Overwrite", "Retain"), "");
    }

    #[test]
    fn neighbours_are_found_by_what_they_share_and_forgotten_when_they_go() {
        let named = |name: &str, container_name: &str| {
            set(name, json!({"containers": [container(json!({"name": container_name}))], "volumes": [{"name": "v"}]}))
        };
        let (one, two) = (named("one", "a"), named("two", "b"));
        let mut neighbours = Neighbours::default();
        neighbours.insert(&one);
        let before = neighbours.clone();
        neighbours.insert(&two);
        assert_eq!(neighbours.of(&named("three", "c")), ["one", "two"].into(), "they share a volume's name");
        neighbours.remove(&one);
        assert_eq!(neighbours.of(&one), ["two"].into());
        neighbours.remove(&two);
        assert!(neighbours.by_topic.is_empty());
        assert_eq!(before.of(&two), ["one"].into(), "a clone keeps what it had");
    }

    #[test]
    fn volumes_conflict_when_they_differ() {
        let volume =
            |name: &str, path: &str| json!({"volumes": [{"name": name, "hostPath": {"path": path, "type": ""}}]});
        let same_but_for_order = json!({"volumes": [{"hostPath": {"type": "", "path": "/home/work-1"}, "name": "a"}]});
        let compare = |one: Value, two: Value| {
            let (one, two) = pair(one, two);
            conflicts(&one, &two)
        };
        assert_eq!(compare(volume("a", "/home/work-1"), volume("b", "/home/work-2")), "");
        assert_eq!(compare(volume("a", "/home/work-1"), same_but_for_order), "");
        insta::assert_snapshot!(compare(volume("a", "/home/work-1"), volume("a", "/home/work-2")), @r#"spec.volumes[0]: Invalid value: "a": volume a is in conflict with sidecarset sidecarset1, whose selectors can match the same pods"#);
    }
}
