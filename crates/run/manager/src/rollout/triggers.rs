//! Which sets are looked at because something else has changed.

use std::collections::BTreeSet;

use futures::stream::BoxStream;
use futures::{StreamExt as _, stream};
use pillion_informer::{Cache, Change};

use crate::cluster::{NamespaceView, RevisionView, SetView};
use crate::pods::CachedPod;
use crate::watches::Caches;

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
    let (_, pods) = pods.subscribe();
    let (_, revisions) = caches.revisions.subscribe();
    let (_, namespaces) = caches.namespaces.subscribe();
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
                    let injected = [old, new].into_iter().flatten();
                    for pod in injected {
                        for set in &pod.0.injected {
                            if !touched.contains(&*set.name) {
                                touched.insert(set.name.to_string());
                            }
                        }
                    }
                }
                Trigger::Revision(Change { old, new, .. }) => {
                    touched.extend([old, new].into_iter().flatten().filter_map(|stored| stored.owner()));
                }
                Trigger::Namespace => is_scope_changed = true,
            }
        }
        if is_scope_changed {
            let sets = sets.list();
            let scoped = sets.iter().map(|view| view.set()).filter(|set| set.spec.namespace_selector.is_some());
            touched.extend(scoped.map(|set| set.name().to_owned()));
        }
        touched
    });
    (held.into_iter().map(|change| change.name.name.to_string()).collect(), touched.boxed())
}
