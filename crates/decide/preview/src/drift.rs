//! What a running pod has, beside what it would get if it were created today.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use pillion_admission::{Offline, OfflineError};
use pillion_api::names;
use pillion_api::pod::{Container, Object, Pod, name_of};
use pillion_api::record::hot_upgrade::{Working, pair};
use pillion_api::record::{Record, Records};
use pillion_rules::pod::apply_defaults;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::difference::{Difference, differences};
use crate::original::{before_injection, is_record, mount_token};

/// How a running pod differs from the one that would be created in its place today.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Drift {
    /// The SidecarSets that were injected or would be, by name.
    pub sidecar_sets: Vec<SetDrift>,
    /// The injected containers that differ.
    pub containers: Vec<ContainerDrift>,
    /// What differs outside of containers: annotations, volumes and secrets for images that would be injected.
    pub pod: Vec<Difference>,
    /// Why the pod would be refused today, if it would. Nothing else is compared then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
}

/// One SidecarSet of a running pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetDrift {
    pub sidecar_set: String,
    /// How the pod stands to it.
    pub state: DriftState,
    /// The revision that the pod's record names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_revision: Option<String>,
    /// The revision that a new pod would get.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// When it was injected or last updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub injected_at: Option<String>,
}

/// How a running pod stands to a SidecarSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DriftState {
    /// It has what it would get today.
    UpToDate,
    /// It was injected from another revision.
    Outdated,
    /// It was injected from the same revision, and its containers differ all the same.
    Differs,
    /// It would be injected today, and is not there.
    Missing,
    /// It was injected, and would not be today.
    Leftover,
    /// A new pod would be refused, so that there is nothing to compare with.
    Refused,
}

impl fmt::Display for DriftState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DriftState::UpToDate => "up to date",
            DriftState::Outdated => "other revision",
            DriftState::Differs => "same revision, but changed since it was injected",
            DriftState::Missing => "missing",
            DriftState::Leftover => "would not be injected today",
            DriftState::Refused => "a new pod would be refused",
        })
    }
}

/// One injected container that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerDrift {
    /// Its name.
    pub container: String,
    /// The SidecarSet that it comes from, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sidecar_set: Option<String>,
    /// What is different about it.
    pub change: Change,
    /// Its fields that differ; none for a container that is only in one of the two pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub differences: Vec<Difference>,
}

/// How a container differs between what is there and what would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Change {
    /// It is not there, and would be.
    Added,
    /// It is there, and would be different.
    Changed,
    /// It is there, and would not be.
    Removed,
}

impl Drift {
    /// Whether the pod has exactly what it would get today.
    pub fn is_empty(&self) -> bool {
        self.denied.is_none()
            && self.containers.is_empty()
            && self.pod.is_empty()
            && self.sidecar_sets.iter().all(|set| set.state == DriftState::UpToDate)
    }
}

/// Compares a running pod with what it would be if it were created `now`.
///
/// # Errors
/// The pod is malformed.
pub fn drift(pod: &Value, offline: &Offline, now: Timestamp) -> Result<Drift, OfflineError> {
    let running = Pod::new(pod.clone())?;
    let original = before_injection(pod);
    let Some((asked, _)) = offline.pod(&original)? else {
        return Ok(Drift { sidecar_sets: Vec::new(), containers: Vec::new(), pod: Vec::new(), denied: None });
    };
    let has = records(&running);
    let mut today = asked.clone().into_value();
    let outcome = offline.decide(&asked, Some(now)).outcome.map_err(OfflineError::from);
    match outcome.and_then(|patch| offline.apply(&mut today, &patch)) {
        Ok(()) => finish(&mut today),
        Err(error) if error.is_refusal() => {
            let sidecar_sets = has.sets().map(|set| set_drift(set, DriftState::Refused, &has, &Records::default()));
            let (sidecar_sets, denied) = (sidecar_sets.collect(), Some(error.to_string()));
            return Ok(Drift { sidecar_sets, containers: Vec::new(), pod: Vec::new(), denied });
        }
        Err(error) => return Err(error),
    }
    let today = Pod::new(today)?;
    let would = records(&today);
    let selection = offline.snapshot.selection(&asked);
    let plain: Vec<(&str, &str)> = selection
        .sets()
        .flat_map(|set| set.spec.init_containers.iter().map(|container| (container.name(), set.name())))
        .collect();
    let owner = |container: &str| {
        let of_records =
            [&would, &has].into_iter().find_map(|records| records.sets().find(|set| lists(records, set, container)));
        of_records.or_else(|| plain.iter().find(|(name, _)| *name == container).map(|(_, set)| *set)).map(str::to_owned)
    };
    let containers = containers(&running, &today, &owner);
    let sets: BTreeSet<&str> = has.sets().chain(would.sets()).collect();
    let state = |set: &str| state(set, &running, &has, &would, &containers);
    let sidecar_sets = sets.into_iter().map(|set| set_drift(set, state(set), &has, &would)).collect();
    let pod = differences(&injected_parts(&running, &original, &today), &injected_parts(&today, &original, &today));
    Ok(Drift { sidecar_sets, containers, pod, denied: None })
}

/// What else the API server does to a pod after the webhook has changed it, as far as injected containers show it.
fn finish(pod: &mut Value) {
    mount_token(pod);
    apply_defaults(pod);
}

/// The record of a pod; one that cannot be read says nothing.
pub(crate) fn records(pod: &Pod) -> Records {
    Records::parse(pod.annotation(names::HASH).unwrap_or_default()).unwrap_or_default()
}

/// Whether the record of a set lists this container, or the sidecar whose pair it belongs to.
fn lists(records: &Records, set: &str, container: &str) -> bool {
    let is_meant = |sidecar: &str| sidecar == container || pair(sidecar).iter().any(|name| name == container);
    records.get(set).is_some_and(|record| record.sidecars().any(is_meant))
}

fn set_drift(set: &str, state: DriftState, has: &Records, would: &Records) -> SetDrift {
    let revision = |records: &Records| Some(records.get(set)?.controller_revision()?.to_owned());
    let injected_at = has.get(set).and_then(Record::updated_at).map(|time| time.to_string());
    SetDrift { sidecar_set: set.to_owned(), state, has_revision: revision(has), revision: revision(would), injected_at }
}

fn state(set: &str, running: &Pod, has: &Records, would: &Records, changed: &[ContainerDrift]) -> DriftState {
    let (Some(now), Some(today)) = (has.get(set), would.get(set)) else {
        return if has.get(set).is_some() { DriftState::Leftover } else { DriftState::Missing };
    };
    // A record is not believed if nothing of what it lists is in the pod: it was copied from another pod.
    let is_there =
        all_containers(running).any(|(_, container)| container.is_injected() && lists(has, set, container.name()));
    if !is_there && now.sidecars().next().is_some() {
        return DriftState::Missing;
    }
    if now.hash() != today.hash() {
        return DriftState::Outdated;
    }
    let differs = changed.iter().any(|container| container.sidecar_set.as_deref() == Some(set));
    if differs { DriftState::Differs } else { DriftState::UpToDate }
}

fn all_containers(pod: &Pod) -> impl Iterator<Item = (&'static str, Container<'_>)> {
    let init = pod.init_containers().map(|container| ("initContainers", container));
    init.chain(pod.containers().map(|container| ("containers", container)))
}

fn containers(running: &Pod, today: &Pod, owner: &dyn Fn(&str) -> Option<String>) -> Vec<ContainerDrift> {
    let injected = |pod| all_containers(pod).filter(|(_, container)| container.is_injected());
    let find = |pod, list: &str, name: &str| {
        injected(pod)
            .find(|(other, container)| *other == list && container.name() == name)
            .map(|(_, container)| container)
    };
    let working = Working::parse(running.annotation(names::WORKING_HOT_UPGRADE_CONTAINER).unwrap_or_default());
    let drift = |container: Container<'_>, change, differences| {
        let name = container.name();
        ContainerDrift { container: name.to_owned(), sidecar_set: owner(name), change, differences }
    };
    let mut found = Vec::new();
    for (list, container) in injected(today) {
        let (name, differences) = match place_in_pair(container.name(), &working) {
            None => (container.name(), compared as fn(&Object, &Object) -> Vec<Difference>),
            // Of a pair only the image of the container that works says which version runs.
            Some((1, works)) => (works, images as fn(&Object, &Object) -> Vec<Difference>),
            Some(_) => continue,
        };
        match find(running, list, name) {
            None => found.push(drift(container, Change::Added, Vec::new())),
            Some(has) => {
                let differences = differences(has.0, container.0);
                if !differences.is_empty() {
                    found.push(drift(has, Change::Changed, differences));
                }
            }
        }
    }
    let gone = injected(running).filter(|(list, container)| find(today, list, container.name()).is_none());
    found.extend(gone.map(|(_, container)| drift(container, Change::Removed, Vec::new())));
    found
}

/// For a container of a hot-upgrade pair: whether it is the first or the second, and which of the two works.
fn place_in_pair<'w>(container: &str, working: &'w Working) -> Option<(u8, &'w str)> {
    let (sidecar, place) = match container.strip_suffix("-1") {
        Some(sidecar) => (sidecar, 1),
        None => (container.strip_suffix("-2")?, 2),
    };
    working.get(sidecar).map(|works| (place, works))
}

fn compared(now: &Object, then: &Object) -> Vec<Difference> {
    differences(&Value::Object(now.clone()), &Value::Object(then.clone()))
}

fn images(now: &Object, then: &Object) -> Vec<Difference> {
    let image = |container: &Object| json!({"image": container.get("image")});
    differences(&image(now), &image(then))
}

/// The parts of a pod outside of containers that injection has written or would write, so that two pods can be compared by them.
fn injected_parts(pod: &Pod, original: &Value, today: &Pod) -> Value {
    let is_own = |list: &str, name: &str| {
        original["spec"][list]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .any(|own| name_of(own) == name)
    };
    let volumes = pod.volumes().filter(|volume| !is_own("volumes", name_of(volume))).cloned();
    let secrets = pod.image_pull_secrets().filter(|secret| !is_own("imagePullSecrets", name_of(secret))).cloned();
    let written = |key: &str| {
        today.annotation(key) != original["metadata"]["annotations"].get(key).and_then(Value::as_str) && !is_record(key)
    };
    let annotations = pod.as_value()["metadata"]["annotations"].as_object().into_iter().flatten();
    let annotations: Map<String, Value> =
        annotations.filter(|(key, _)| written(key)).map(|(key, value)| (key.clone(), value.clone())).collect();
    json!({
        "annotations": annotations,
        "volumes": volumes.map(Value::Object).collect::<Vec<_>>(),
        "imagePullSecrets": secrets.map(Value::Object).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests;
