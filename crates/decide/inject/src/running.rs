//! What was injected into a pod that runs.

use pillion_api::names;
use pillion_api::record::{Record, Records};
use pillion_api::sidecarset::SidecarContainer;
use pillion_note::{ContainerKey, ContainerList, Draft};

use crate::body::Body;
use crate::catalog::Catalog;
use crate::injected::{Injected, Sidecar};

/// The sidecars of a running pod that have a `resourcesPolicy`, as the pod's record and the sets in force say. A revision that is
/// neither in force nor pinned is not known: its sidecars are left out.
pub fn injected_before(draft: &Draft<'_>, catalog: &Catalog) -> Injected {
    let records = draft.annotation(names::HASH).and_then(|text| Records::parse(text).ok()).unwrap_or_default();
    let mut injected = Injected::default();
    for set in records.sets() {
        let Some(hash) = records.get(set).map(Record::hash) else { continue };
        let Some(compiled) = catalog.compiled(set) else { continue };
        let Some(body) = compiled.bodies().find(|body| body.hash == hash) else { continue };
        let sidecars = policies(body).filter_map(|(sidecar, policy)| {
            let key = key(draft, sidecar.name())?;
            Some(Sidecar { key, set: set.to_owned(), policy: policy.clone(), mark: None })
        });
        injected.sidecars.extend(sidecars);
    }
    injected
}

/// Whether a set sizes any sidecar by a `resourcesPolicy`.
pub fn has_policy(catalog: &Catalog, set: &str) -> bool {
    catalog.compiled(set).is_some_and(|compiled| compiled.bodies().any(|body| policies(body).next().is_some()))
}

fn policies(body: &Body) -> impl Iterator<Item = (&SidecarContainer, &Option<std::sync::Arc<crate::policy::Policy>>)> {
    let spec = &body.set.spec;
    let all =
        spec.init_containers.iter().zip(&body.init_containers).chain(spec.containers.iter().zip(&body.containers));
    all.filter(|(_, policy)| policy.is_some())
}

/// A marked sidecar may be in another list than its set says. The pod's own container of the same name is not a sidecar.
fn key(draft: &Draft<'_>, name: &str) -> Option<ContainerKey> {
    let lists = [ContainerList::Containers, ContainerList::InitContainers];
    lists.into_iter().find_map(|list| draft.original(list, name)).filter(|key| !draft.is_own(*key))
}
