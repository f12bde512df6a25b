//! Which sets are looked at because something else has changed.

use std::collections::BTreeSet;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use pillion_informer::{Cache, Change};
use pillion_pods::CachedPod;

use crate::caches::cluster::NamespaceView;
use crate::caches::revision_view::RevisionView;
use crate::caches::set_view::SetView;
use crate::caches::watches::Caches;

/// How many changes are looked at together.
const BATCH: usize = 10_000;

/// One change of one of the caches.
enum Trigger {
    Set(Change<SetView>),
    Pod(Change<CachedPod>),
    Revision(Change<RevisionView>),
    Namespace,
}

/// Every set that there is, and those that are touched from now on.
pub(super) fn triggers(
    caches: &Caches,
    pods: &Cache<CachedPod>,
) -> (BTreeSet<String>, BoxStream<'static, BTreeSet<String>>) {
    let (held, sets) = caches.sets.subscribe();
    let (pods, revisions, namespaces) = (pods.updates(), caches.revisions.updates(), caches.namespaces.updates());
    let changes = [
        sets.map(Trigger::Set).boxed(),
        pods.map(Trigger::Pod).boxed(),
        revisions.map(Trigger::Revision).boxed(),
        namespaces.map(|_: Change<NamespaceView>| Trigger::Namespace).boxed(),
    ];
    let sets = caches.sets.clone();
    let touched = stream::select_all(changes).ready_chunks(BATCH).map(move |batch| {
        let mut touched = BTreeSet::new();
        let mut is_scope_changed = false;
        for trigger in batch {
            match trigger {
                Trigger::Set(Change { name, .. }) => {
                    touched.insert(name.name.to_string());
                }
                Trigger::Pod(Change { old, new, .. }) => {
                    let pods = [&old, &new].into_iter().flatten().filter_map(|pod| pod.rollout.as_ref());
                    for pod in pods {
                        for set in &pod.injected {
                            if !touched.contains(&*set.name) {
                                touched.insert(set.name.to_string());
                            }
                        }
                    }
                }
                Trigger::Revision(Change { old, new, .. }) => {
                    for stored in [old, new].into_iter().flatten() {
                        touched.extend(stored.owner().map(str::to_owned));
                        // A revision that belongs to no set is pinned by its name.
                        touched.extend(sets.names_in_group(stored.name()).into_iter().map(|set| set.name.to_string()));
                    }
                }
                Trigger::Namespace => is_scope_changed = true,
            }
        }
        if is_scope_changed {
            touched.extend(sets.names(|set| set.is_scoped).into_iter().map(|name| name.name.to_string()));
        }
        touched
    });
    (held.into_iter().map(|change| change.name.name.to_string()).collect(), touched.boxed())
}
