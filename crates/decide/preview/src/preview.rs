//! What applying SidecarSets would do: the admission of every workload's template, now and then.

use std::collections::{BTreeMap, BTreeSet};

use pillion_admission::Offline;
use pillion_api::pod::{Pod, name_of};
use pillion_api::workload::pod_template;
use pillion_inject::{Catalog, Selection};
use pillion_note::{Note, Severity};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::difference::{Difference, differences};
use crate::drift::Change;
use crate::original::{is_record, mount_token};
use crate::running::{PodUpdates, RunningPod, updates};
use crate::totals::{Compared, PodResources, Resources, add};
use crate::workload::Workload;

/// What is previewed.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// The cluster as it is.
    pub now: &'a Offline,
    /// The cluster with the SidecarSets applied; it differs in nothing else.
    pub then: &'a Offline,
    /// The SidecarSets that are applied.
    pub applied: &'a BTreeSet<String>,
    /// What makes pods.
    pub workloads: &'a [Workload],
    /// The pods that run.
    pub pods: &'a [RunningPod],
}

/// What applying SidecarSets would do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preview {
    /// The SidecarSets that are applied, and those whose pods a canary among them takes, by name.
    pub sidecar_sets: Vec<SetChange>,
    /// The workloads whose pods would differ or be refused, by namespace, kind and name.
    pub workloads: Vec<WorkloadChange>,
    /// The namespaces that have workloads which the SidecarSets match, now or then.
    pub namespaces: Vec<NamespaceTotals>,
    /// What becomes of the pods that run.
    pub pods: PodUpdates,
}

/// One SidecarSet that is applied, or whose canary is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetChange {
    pub sidecar_set: String,
    /// Whether it is new or different; absent if it is in force already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Change>,
    /// How many workloads get it.
    pub workloads: Compared<u64>,
    /// How many pods these workloads have.
    pub pods: Compared<u64>,
}

/// One workload whose new pods would differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadChange {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    /// How many pods it has.
    pub replicas: u64,
    /// The SidecarSets that its pods get.
    pub sidecar_sets: Compared<Vec<String>>,
    /// The containers that differ.
    pub containers: Vec<ContainerChange>,
    /// What differs outside of containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pod: Vec<Difference>,
    /// What one pod requests.
    pub requests: Compared<Resources>,
    /// The limits of one pod.
    pub limits: Compared<Resources>,
    /// What whoever creates the pods would be warned of, and is not now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Why its pods would be refused, if they would.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refusal>,
}

/// One container that would differ.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerChange {
    /// Its name.
    pub container: String,
    /// Whether it is an init container, native sidecars included.
    pub is_init: bool,
    /// Whether it comes, changes or goes.
    pub change: Change,
    /// The fields that differ.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// Why pods would be refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// What the webhook or the API server would say.
    pub message: String,
    /// Whether they are refused now, too.
    pub also_now: bool,
}

/// The sums of one namespace, over all of its workloads: what one pod requests and is limited to, times the number of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceTotals {
    pub namespace: String,
    /// How many workloads the SidecarSets match, now or then.
    pub workloads: u64,
    /// How many pods all workloads of the namespace have.
    pub pods: u64,
    /// The sum of requests.
    pub requests: Compared<Resources>,
    /// The sum of limits; a container without one adds nothing.
    pub limits: Compared<Resources>,
}

impl Preview {
    /// The workloads whose pods would be refused.
    pub fn refused(&self) -> impl Iterator<Item = (&WorkloadChange, &Refusal)> {
        self.workloads.iter().filter_map(|workload| Some((workload, workload.refused.as_ref()?)))
    }
}

/// Previews the SidecarSets `applied`.
pub fn preview(input: &Input<'_>) -> Preview {
    let mut previewer = Previewer::new(input.now, input.then, input.applied);
    let touched = input.workloads.iter().filter(|workload| previewer.is_touched(workload));
    let namespaces: BTreeSet<&str> = touched.map(|workload| previewer.namespace_of(workload)).collect();
    // Workloads in other namespaces add nothing: they need not be admitted.
    for workload in input.workloads {
        if namespaces.contains(previewer.namespace_of(workload)) {
            previewer.add(workload);
        }
    }
    previewer.finish(input.pods)
}

/// A preview in the making, for workloads that are not in memory all at once.
#[derive(Debug)]
pub struct Previewer<'a> {
    now: &'a Offline,
    then: &'a Offline,
    applied: &'a BTreeSet<String>,
    /// The applied sets, and those whose pods a canary among them takes.
    sets: BTreeMap<String, SetChange>,
    workloads: Vec<WorkloadChange>,
    namespaces: BTreeMap<String, NamespaceTotals>,
}

impl<'a> Previewer<'a> {
    /// A preview of the SidecarSets `applied`, on the way from `now` to `then`.
    pub fn new(now: &'a Offline, then: &'a Offline, applied: &'a BTreeSet<String>) -> Previewer<'a> {
        let sets = affected(now, then, applied).into_iter().map(|name| (name.clone(), set_change(name, now, then)));
        let sets = sets.collect();
        Previewer { now, then, applied, sets, workloads: Vec::new(), namespaces: BTreeMap::new() }
    }

    pub fn add(&mut self, workload: &Workload) {
        let is_touched = self.is_touched(workload);
        let namespace = self.namespace_of(workload).to_owned();
        let change = change(workload, &namespace, is_touched, self.now, self.then);
        let totals = self
            .namespaces
            .entry(namespace)
            .or_insert_with_key(|name| NamespaceTotals { namespace: name.clone(), ..NamespaceTotals::default() });
        totals.pods += workload.replicas;
        totals.workloads += u64::from(is_touched);
        for (sum, of_one) in [(&mut totals.requests, &change.requests), (&mut totals.limits, &change.limits)] {
            add(&mut sum.now, &of_one.now, workload.replicas);
            add(&mut sum.then, &of_one.then, workload.replicas);
        }
        count(&mut self.sets, &change.sidecar_sets.now, workload.replicas, |compared| &mut compared.now);
        count(&mut self.sets, &change.sidecar_sets.then, workload.replicas, |compared| &mut compared.then);
        if !change.containers.is_empty()
            || !change.pod.is_empty()
            || change.refused.is_some()
            || !change.warnings.is_empty()
        {
            self.workloads.push(change);
        }
    }

    /// The preview. `pods` are the pods that run.
    pub fn finish(mut self, pods: &[RunningPod]) -> Preview {
        self.workloads.sort_by(|a, b| (&a.namespace, &a.kind, &a.name).cmp(&(&b.namespace, &b.kind, &b.name)));
        let touched = self.namespaces.into_values().filter(|totals| totals.workloads > 0);
        Preview {
            sidecar_sets: self.sets.into_values().collect(),
            workloads: self.workloads,
            namespaces: touched.collect(),
            pods: updates(pods, self.then, self.applied),
        }
    }

    fn namespace_of<'n>(&self, workload: &'n Workload) -> &'n str
    where
        'a: 'n,
    {
        if workload.namespace.is_empty() { &self.now.namespace } else { &workload.namespace }
    }

    /// Whether any of the affected sets has a selector that matches the pods, now or then. All others are admitted the same way now and then.
    fn is_touched(&self, workload: &Workload) -> bool {
        let template =
            pod_template(&workload.object).and_then(|path| workload.object.pointer(path)).unwrap_or(&Value::Null);
        let labels = template["metadata"]["labels"].as_object().into_iter().flatten();
        let labels: Vec<(&str, &str)> =
            labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))).collect();
        let namespace = self.then.snapshot.namespace(self.namespace_of(workload));
        let is_matched = |catalog: &Catalog| {
            let matching = catalog.matching(&namespace, &labels).summaries();
            matching.into_iter().any(|set| self.sets.contains_key(&*set.name))
        };
        is_matched(&self.then.snapshot.catalog) || is_matched(&self.now.snapshot.catalog)
    }
}

fn count(
    sets: &mut BTreeMap<String, SetChange>,
    matched: &[String],
    pods: u64,
    of: fn(&mut Compared<u64>) -> &mut u64,
) {
    for name in matched {
        if let Some(set) = sets.get_mut(name) {
            *of(&mut set.workloads) += 1;
            *of(&mut set.pods) += pods;
        }
    }
}

fn set_change(name: String, now: &Offline, then: &Offline) -> SetChange {
    let change = match (now.snapshot.catalog.get(&name), then.snapshot.catalog.get(&name)) {
        (Some(now), Some(then)) => {
            (now.spec != then.spec || now.canary_base() != then.canary_base()).then_some(Change::Changed)
        }
        (None, Some(_)) => Some(Change::Added),
        (Some(_), None) => Some(Change::Removed),
        (None, None) => None,
    };
    SetChange { sidecar_set: name, change, workloads: Compared::default(), pods: Compared::default() }
}

/// The applied sets, and those whose pods a canary among them takes, now or then.
fn affected(now: &Offline, then: &Offline, applied: &BTreeSet<String>) -> BTreeSet<String> {
    let mut affected = applied.clone();
    for offline in [now, then] {
        let catalog = &offline.snapshot.catalog;
        let canaries = applied.iter().filter_map(|name| catalog.get(name));
        let bases = canaries.filter_map(|set| catalog.get(set.canary_base()?));
        affected.extend(bases.map(|base| base.name().to_owned()));
    }
    affected
}

/// What the pods of a workload would become.
struct Admitted {
    /// As the API server would store it; as it came where it is refused.
    pod: Value,
    resources: PodResources,
    sets: Vec<String>,
    notes: Vec<Note>,
    refused: Option<String>,
}

fn admitted(pod: &Pod, offline: &Offline) -> Admitted {
    let decision = offline.decide(pod, None);
    let is_excluded = offline.excluded_namespaces.contains(pod.namespace());
    let selection = if is_excluded { Selection::default() } else { offline.snapshot.selection(pod) };
    let mut after = pod.as_value().clone();
    let refused = match decision.outcome {
        Ok(patch) => offline.apply(&mut after, &patch).err().map(|error| error.to_string()),
        Err(denied) => Some(denied.to_string()),
    };
    mount_token(&mut after);
    Admitted {
        resources: PodResources::of(&after),
        pod: after,
        sets: selection.sets().map(|set| set.name().to_owned()).collect(),
        notes: decision.notes,
        refused,
    }
}

fn change(workload: &Workload, namespace: &str, is_touched: bool, now: &Offline, then: &Offline) -> WorkloadChange {
    let mut change = WorkloadChange {
        namespace: namespace.to_owned(),
        kind: workload.kind.clone(),
        name: workload.name.clone(),
        replicas: workload.replicas,
        sidecar_sets: Compared::default(),
        containers: Vec::new(),
        pod: Vec::new(),
        requests: Compared::default(),
        limits: Compared::default(),
        warnings: Vec::new(),
        refused: None,
    };
    let pod = match now.pod(&workload.object) {
        Ok(Some((pod, _))) => pod,
        Ok(None) => return change,
        Err(error) => {
            change.refused = is_touched.then(|| Refusal { message: error.to_string(), also_now: true });
            return change;
        }
    };
    let now = admitted(&pod, now);
    change.requests = Compared { now: now.resources.requests.clone(), then: now.resources.requests.clone() };
    change.limits = Compared { now: now.resources.limits.clone(), then: now.resources.limits.clone() };
    if !is_touched {
        // Refusals that these SidecarSets have no part in are not theirs to show.
        return change;
    }
    let then = admitted(&pod, then);
    change.sidecar_sets = Compared { now: now.sets.clone(), then: then.sets.clone() };
    if let Some(message) = then.refused {
        change.refused = Some(Refusal { message, also_now: now.refused.is_some() });
        return change;
    }
    change.requests.then = then.resources.requests;
    change.limits.then = then.resources.limits;
    change.containers = containers(&now.pod, &then.pod);
    change.pod = outside_containers(&now.pod, &then.pod);
    let warnings = then.notes.iter().filter(|note| note.severity == Severity::Warning && !now.notes.contains(note));
    change.warnings = warnings.map(ToString::to_string).collect();
    change
}

fn containers(now: &Value, then: &Value) -> Vec<ContainerChange> {
    let mut found = Vec::new();
    for (list, is_init) in [("initContainers", true), ("containers", false)] {
        let (before, after) = (items(&now["spec"][list]), items(&then["spec"][list]));
        let named = |list: &'_ [Value], name: &str| list.iter().position(|other| name_in(other) == name);
        let mut push = |container: &str, change, differences| {
            found.push(ContainerChange { container: container.to_owned(), is_init, change, differences });
        };
        for container in after {
            let name = name_in(container);
            match named(before, name).and_then(|i| before.get(i)) {
                None => push(name, Change::Added, Vec::new()),
                Some(other) if other == container => {}
                Some(other) => {
                    let differences = differences(other, container);
                    if !differences.is_empty() {
                        push(name, Change::Changed, differences);
                    }
                }
            }
        }
        for container in before.iter().filter(|container| named(after, name_in(container)).is_none()) {
            push(name_in(container), Change::Removed, Vec::new());
        }
    }
    found
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn name_in(container: &Value) -> &str {
    container.as_object().map(name_of).unwrap_or_default()
}

/// What differs outside of containers and records, which are compared apart.
fn outside_containers(now: &Value, then: &Value) -> Vec<Difference> {
    let spec = |pod: &'_ Value, other: &'_ Value| {
        only(&pod["spec"], &other["spec"], |key| key != "containers" && key != "initContainers")
    };
    let annotations = |pod: &'_ Value, other: &'_ Value| {
        only(&pod["metadata"]["annotations"], &other["metadata"]["annotations"], |key| !is_record(key))
    };
    let now_parts = json!({"annotations": annotations(now, then), "spec": spec(now, then)});
    differences(&now_parts, &json!({"annotations": annotations(then, now), "spec": spec(then, now)}))
}

/// The fields of an object that the other has differently: large pods differ in little, and copying is what takes time.
fn only(object: &Value, other: &Value, is_meant: impl Fn(&str) -> bool) -> Map<String, Value> {
    let fields = object.as_object().into_iter().flatten();
    let differs = fields.filter(|(key, value)| is_meant(key) && other.get(key.as_str()) != Some(value));
    differs.map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests;
