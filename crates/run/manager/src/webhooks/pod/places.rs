//! The places that a new pod asks for.

use std::collections::BTreeMap;

use futures::future::join_all;
use pillion_admission::Snapshot;
use pillion_api::names;
use pillion_api::pod::Pod;
use pillion_api::record::Records;
use pillion_inject::Selection;
use pillion_rollout::{Applicant, Creator, Grant, Limit, Origin, PodView, Texts};

use crate::places::Ask;
use crate::state::Inner;

/// What was answered.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// By SidecarSet, whether the pod gets the pinned revision.
    pub(super) granted: BTreeMap<String, bool>,
    /// The id of the places.
    pub(super) id: Option<String>,
    /// What whoever creates the pod should know.
    pub(super) warnings: Vec<String>,
    /// The sets that count the pod.
    taken: Vec<String>,
}

/// Asks for a place in each SidecarSet that counts them, in all of them at the same time: the API server does not wait for one after the
/// other, and would then create the pod without any sidecar.
pub(super) async fn ask(
    inner: &Inner,
    snapshot: &Snapshot,
    (pod, selection): (&Pod, &Selection),
    id: &str,
    is_dry_run: bool,
) -> Places {
    let quotas = selection.quotas(pod);
    if quotas.is_empty() {
        return Places::default();
    }
    let namespace = snapshot.namespace(pod.namespace());
    let mut places = Places::default();
    let mut asks = Vec::new();
    let records = || Records::parse(pod.annotation(names::HASH).unwrap_or_default()).unwrap_or_default();
    for asked in quotas {
        let name = asked.set.name().to_owned();
        // Another entry of the webhook has injected the pod already.
        if let Some(record) = records().get(&name) {
            places.granted.insert(name, record.controller_revision() == Some(asked.revision.as_str()));
            places.id = pod.annotation(names::QUOTA_PLACE).map(str::to_owned);
            continue;
        }
        let limit = Limit::of(&asked.set);
        if limit == Limit::Number(0) {
            places.granted.insert(name, false);
            continue;
        }
        let is_percentage = matches!(limit, Limit::Percentage(_));
        let view = PodView::new(pod, &mut Texts::default());
        let registration = inner.registration.of(&namespace);
        let applicant = registration.map(|registration| Applicant { creator: Creator::of(&view), registration });
        let origin = Origin::of(&view);
        let ask = Ask { id: id.to_owned(), origin, applicant, revision: asked.revision, limit, is_dry_run };
        let set = asked.set;
        asks.push(async move { (name, is_percentage, inner.places.ask(&inner.config, &set, ask).await) });
    }
    for (name, is_percentage, grant) in join_all(asks).await {
        if grant.is_none() {
            places.warnings.push(format!(
                "SidecarSet {name:?}: the places of its partition could not be counted in time, so the pod gets the latest revision"
            ));
        }
        let is_granted = grant == Some(Grant::Place);
        if is_granted || is_percentage && grant.is_some() {
            places.id = Some(id.to_owned());
            if !is_dry_run {
                places.taken.push(name.clone());
            }
        }
        places.granted.insert(name, is_granted);
    }
    places
}

impl Places {
    /// The pod is refused after all.
    pub(super) fn give_back(&self, inner: &Inner, snapshot: &Snapshot) {
        let Some(id) = &self.id else { return };
        for set in self.taken.iter().filter_map(|name| snapshot.catalog.get(name)) {
            inner.places.give_back(&inner.config, &set, id);
        }
    }
}
