//! Whether running pods could follow a changed SidecarSet in place.

use std::collections::BTreeSet;
use std::sync::Arc;

use pillion_admission::Offline;
use pillion_api::names;
use pillion_api::record::Records;
use pillion_api::sidecarset::{SidecarSet, UpdateStrategyType, hash, hash_without_image};
use serde::Serialize;
use serde_json::Value;

/// A running pod, as far as an update in place looks at it.
#[derive(Clone, Debug)]
pub struct RunningPod {
    namespace: String,
    name: String,
    labels: Vec<(String, String)>,
    is_opted_out: bool,
    with_image: Records,
    without_image: Records,
}

impl RunningPod {
    /// `None` for a pod that has ended or is being deleted: no update reaches it.
    pub fn of(pod: &Value) -> Option<RunningPod> {
        let metadata = &pod["metadata"];
        let has_ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        if has_ended || !metadata["deletionTimestamp"].is_null() {
            return None;
        }
        let text = |key: &str| metadata[key].as_str().unwrap_or_default().to_owned();
        let labels = metadata["labels"].as_object().into_iter().flatten();
        let annotation = |key: &str| metadata["annotations"].get(key).and_then(Value::as_str).unwrap_or_default();
        // A record that cannot be read says nothing.
        let records = |key: &str| Records::parse(annotation(key)).unwrap_or_default();
        Some(RunningPod {
            namespace: text("namespace"),
            name: text("name"),
            labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
            is_opted_out: annotation(names::INJECT) == "false",
            with_image: records(names::HASH),
            without_image: records(names::HASH_WITHOUT_IMAGE),
        })
    }
}

/// What becomes of the running pods that the applied SidecarSets are about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUpdates {
    /// How many have what the SidecarSets would inject.
    pub up_to_date: u64,
    /// Those for which only images change.
    pub in_place: Vec<PodUpdate>,
    /// Those that keep what they have until they are recreated.
    pub recreate: Vec<PodUpdate>,
}

/// One running pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodUpdate {
    pub namespace: String,
    pub name: String,
    /// Why, for each SidecarSet that it does not follow yet.
    pub reasons: Vec<String>,
}

/// How one pod stands to one set.
enum Stand {
    /// The set is not about the pod.
    Neither,
    UpToDate,
    InPlace(String),
    Recreate(String),
}

/// Sorts the running pods by what the sets `applied` would do to them.
pub(crate) fn updates(pods: &[RunningPod], then: &Offline, applied: &BTreeSet<String>) -> PodUpdates {
    let sets: Vec<(Arc<SidecarSet>, Hashes)> = applied
        .iter()
        .filter_map(|name| then.snapshot.catalog.get(name))
        .map(|set| {
            let hashes = Hashes { whole: hash(&set), without_image: hash_without_image(&set) };
            (set, hashes)
        })
        .collect();
    let mut updates = PodUpdates::default();
    for pod in pods.iter().filter(|pod| !then.excluded_namespaces.contains(&pod.namespace)) {
        let namespace = then.snapshot.namespace(&pod.namespace);
        let labels: Vec<(&str, &str)> = pod.labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let matching: BTreeSet<&str> =
            then.snapshot.catalog.matching(&namespace, &labels).summaries().into_iter().map(|set| &*set.name).collect();
        let (mut is_up_to_date, mut in_place, mut recreate) = (false, Vec::new(), Vec::new());
        for (set, hashes) in &sets {
            match stand(pod, set, hashes, matching.contains(set.name())) {
                Stand::Neither => {}
                Stand::UpToDate => is_up_to_date = true,
                Stand::InPlace(reason) => in_place.push(reason),
                Stand::Recreate(reason) => recreate.push(reason),
            }
        }
        let update = |reasons| PodUpdate { namespace: pod.namespace.clone(), name: pod.name.clone(), reasons };
        if !recreate.is_empty() {
            recreate.extend(in_place);
            updates.recreate.push(update(recreate));
        } else if !in_place.is_empty() {
            updates.in_place.push(update(in_place));
        } else if is_up_to_date {
            updates.up_to_date += 1;
        }
    }
    updates.in_place.sort_unstable();
    updates.recreate.sort_unstable();
    updates
}

struct Hashes {
    whole: String,
    without_image: String,
}

fn stand(pod: &RunningPod, set: &SidecarSet, hashes: &Hashes, is_matched: bool) -> Stand {
    let name = set.name();
    let Some(record) = pod.with_image.get(name) else {
        let is_wanted = is_matched && !pod.is_opted_out && !set.spec.injection_strategy.paused;
        let has_containers = !set.spec.containers.is_empty() || !set.spec.init_containers.is_empty();
        return if is_wanted && has_containers {
            Stand::Recreate(format!("{name} has not been injected into it"))
        } else {
            Stand::Neither
        };
    };
    if !is_matched {
        return Stand::Recreate(format!("{name} no longer matches it: its sidecars stay until then"));
    }
    if record.hash() == hashes.whole {
        return Stand::UpToDate;
    }
    let same_but_images = pod.without_image.get(name).is_some_and(|record| record.hash() == hashes.without_image);
    if !same_but_images {
        return Stand::Recreate(format!("more than images of {name} changes"));
    }
    match set.spec.update_strategy.strategy {
        Some(UpdateStrategyType::NotUpdate) => Stand::Recreate(format!("updateStrategy.type of {name} is NotUpdate")),
        _ => Stand::InPlace(format!("only images of {name} change")),
    }
}

#[cfg(test)]
mod tests;
