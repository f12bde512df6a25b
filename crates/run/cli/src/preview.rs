//! `pillion preview`: what applying SidecarSets would do.

mod text;

use std::collections::BTreeSet;
use std::sync::Arc;

use pillion_admission::{Offline, Snapshot};
use pillion_api::sidecarset::SidecarSet;
use pillion_gates::Settings;
use pillion_inject::Revisions;
use pillion_preview::{Input, Preview, Previewer, RunningPod, Workload};
use serde_json::Value;

use crate::cluster::fleet::Fleet;
use crate::cluster::known::{self, Known, Wanted};
use crate::cluster::read::Reader;
use crate::manifest::{Document, Manifests};
use crate::offline::{self, Applied, Inputs, Live, UnknownFields};
use crate::{Failure, unreadable};

pub(crate) use text::text;

/// Previews SidecarSets on a cluster, with the gates that the user sets. Nothing is written.
pub(crate) async fn on_cluster(
    reader: &Reader,
    documents: Vec<Document>,
    wanted: Wanted<'_>,
    user: &Settings,
    unknown_fields: UnknownFields,
    warnings: &mut Vec<String>,
) -> Result<Preview, Failure> {
    let (revisions_namespace, namespace) = (wanted.revisions_namespace, wanted.namespace);
    let mut known = Known::read_with(reader, wanted, user).await?;
    warnings.append(&mut known.warnings);
    if let Some(name) = namespace.filter(|name| !known.offline.snapshot.namespaces.contains_key(*name)) {
        return Err(Failure::no(format!("the cluster has no namespace {name:?}")));
    }
    // Most SidecarSets neither pin a revision nor write annotations: then fewer rights are needed.
    let mentions = |field: &str| documents.iter().any(|document| document.value["spec"].get(field).is_some());
    if known.revisions.is_empty() && (mentions("injectionStrategy") || mentions("injectStrategy")) {
        known.revisions = known::revisions(reader, revisions_namespace).await?;
    }
    let mut whitelist = None;
    if mentions("patchPodMetadata") {
        whitelist = known::whitelist(reader, revisions_namespace, known.offline.gates, warnings).await;
    }
    let live = Live { sets: &known.sets, revisions: &known.revisions, whitelist };
    let Applied { sets, others } =
        offline::load_applied(documents, &live, unknown_fields, warnings).map_err(Failure::No)?;
    need_sets(&sets)?;
    if others > 0 {
        let objects = if others == 1 { "object" } else { "objects" };
        warnings.push(format!(
            "{others} other {objects} in these manifests: only SidecarSets are previewed, on the workloads of the cluster; --offline previews \
             the workloads of the manifests"
        ));
    }
    let then = applied(&known.offline, &sets, &known.revisions)?;
    let fleet = Fleet::read(reader, namespace).await?;
    Ok(preview(&known.offline, &then, &sets, &fleet.workloads, &fleet.pods))
}

/// Previews SidecarSets on the workloads of the manifests that the inputs were read from. `base` are the SidecarSets that are in force now.
pub(crate) fn on_manifests(manifests: &Manifests, inputs: &Inputs, base: Option<&Inputs>) -> Result<Preview, Failure> {
    need_sets(&inputs.sets)?;
    let catalog = base.map(|base| base.offline.snapshot.catalog.clone()).unwrap_or_default();
    let now = Offline { snapshot: Snapshot { catalog, ..inputs.offline.snapshot.clone() }, ..inputs.offline.clone() };
    let revisions = inputs.revisions.iter().chain(base.into_iter().flat_map(|base| &base.revisions));
    let revisions: Vec<Value> = revisions.cloned().collect();
    let then = applied(&now, &inputs.sets, &revisions)?;
    let applied = names_of(&inputs.sets);
    let mut previewer = Previewer::new(&now, &then, &applied);
    let (mut is_empty, mut pods) = (true, Vec::new());
    let read = manifests.for_each(|document| {
        if !inputs.is_object(&document) {
            return;
        }
        let object = document.value;
        // Only what came from a cluster runs.
        if object["kind"] == "Pod" && object["metadata"]["uid"].is_string() {
            pods.extend(RunningPod::of(&object));
        }
        if let Some(workload) = Workload::of(object) {
            previewer.add(&workload);
            is_empty = false;
        }
    });
    read.map_err(unreadable)?;
    if is_empty {
        return Err(Failure::misuse(
            "there is no pod and no workload in these manifests; without --offline those of the cluster are previewed",
        ));
    }
    Ok(previewer.finish(&pods))
}

fn names_of(sets: &[Arc<SidecarSet>]) -> BTreeSet<String> {
    sets.iter().map(|set| set.name().to_owned()).collect()
}

fn need_sets(sets: &[Arc<SidecarSet>]) -> Result<(), Failure> {
    if sets.is_empty() { Err(Failure::misuse("there is no SidecarSet in these manifests")) } else { Ok(()) }
}

/// The same cluster with these SidecarSets in it.
fn applied(now: &Offline, sets: &[Arc<SidecarSet>], revisions: &[Value]) -> Result<Offline, Failure> {
    let revisions: Revisions = revisions.iter().cloned().collect();
    let mut then = now.clone();
    for set in sets {
        // Whatever does not compile was refused by validation already, with a better message.
        let inserted = then.snapshot.catalog.insert(Arc::clone(set), &revisions);
        inserted.map_err(|error| Failure::no(format!("{error}: {}", error.reason)))?;
    }
    Ok(then)
}

fn preview(
    now: &Offline,
    then: &Offline,
    sets: &[Arc<SidecarSet>],
    workloads: &[Workload],
    pods: &[RunningPod],
) -> Preview {
    pillion_preview::preview(&Input { now, then, applied: &names_of(sets), workloads, pods })
}

#[cfg(test)]
mod tests;
