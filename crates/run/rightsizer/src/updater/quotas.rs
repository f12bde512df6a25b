//! The `ResourceQuotas` of the namespaces where pods may be evicted.
//!
//! Where there are some, one group after the other plans and evicts: what one of them plans leaves less for the others.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use kube::{Api, Client};
use pillion_rightsize::update::Planned;
use serde_json::Value;

use super::key::{Key, PodsKey};
use crate::named::Named;

/// The quotas, by namespace.
pub(super) struct Quotas {
    all: Mutex<All>,
    /// Names the groups that have waited for their turn.
    named: Named<Key>,
}

#[derive(Default)]
struct All {
    namespaces: HashMap<String, Namespace>,
    /// Whether the log says that they cannot be read.
    is_unreadable: bool,
}

#[derive(Default)]
struct Namespace {
    /// What was read in this interval.
    reading: Option<Reading>,
    /// Whether a group reads the quotas, or evicts under them. The others wait.
    is_taken: bool,
    /// Whether the interval has ended meanwhile.
    is_over: bool,
    /// The groups that wait, in order.
    waiting: Vec<PodsKey>,
}

/// The `ResourceQuotas` of a namespace, read twice: what is used moves while pods are evicted and created.
#[derive(Clone, Default)]
pub(super) struct Reading {
    /// As they were before the first eviction of this interval.
    pub(super) first: Vec<Value>,
    /// What the successors of the pods that were evicted since request more, whichever autoscaler they belong to.
    pub(super) planned: Planned,
    /// As they were when they were read last.
    pub(super) last: Vec<Value>,
    is_outdated: bool,
}

/// The turn of a group: until it is dropped, no other one evicts in the namespace, if it has quotas.
pub(super) struct Turn<'q> {
    quotas: &'q Quotas,
    namespace: &'q str,
    pub(super) reading: Reading,
    is_alone: bool,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.is_alone {
            self.quotas.release(self.namespace);
        }
    }
}

impl Quotas {
    pub(super) fn new() -> Quotas {
        Quotas { all: Mutex::default(), named: Named::new() }
    }

    /// The groups whose turn it may be now, after they have waited.
    pub(super) fn named(&self) -> &Named<Key> {
        &self.named
    }

    /// They are read again in the next interval.
    pub(super) fn forget(&self) {
        self.lock().namespaces.retain(|_, namespace| {
            namespace.is_over = true;
            namespace.is_taken
        });
    }

    /// Those of a namespace are read again when they are needed next. What they said first stays.
    pub(super) fn outdated(&self, namespace: &str) {
        if let Some(reading) = self.lock().reading(namespace) {
            reading.is_outdated = true;
        }
    }

    /// A pod of a namespace was evicted.
    pub(super) fn evicted(&self, namespace: &str, planned: &Planned) {
        if let Some(reading) = self.lock().reading(namespace) {
            reading.planned.add(planned, 1);
            reading.is_outdated = true;
        }
    }

    /// The turn of a group, with the quotas of its namespace. Where they cannot be read none are known, and the first pod of a group is
    /// evicted on trial. `None` if another group has its turn: this one is named after it.
    pub(super) async fn turn<'q>(&'q self, client: &Client, key: &'q PodsKey) -> Option<Turn<'q>> {
        let name = &*key.namespace;
        let known = {
            let mut all = self.lock();
            let namespace = all.namespaces.entry(name.to_owned()).or_default();
            if namespace.is_taken {
                if !namespace.waiting.contains(key) {
                    namespace.waiting.push(key.clone());
                }
                return None;
            }
            let known = namespace.reading.clone().filter(|reading| !reading.is_outdated);
            namespace.is_taken = known.as_ref().is_none_or(|reading| !reading.last.is_empty());
            known
        };
        let is_alone = known.as_ref().is_none_or(|reading| !reading.last.is_empty());
        let mut turn = Turn { quotas: self, namespace: name, reading: Reading::default(), is_alone };
        turn.reading = match known {
            Some(known) => known,
            None => self.read(client, name).await,
        };
        if turn.is_alone && turn.reading.last.is_empty() {
            turn.is_alone = false;
            self.release(name);
        }
        Some(turn)
    }

    async fn read(&self, client: &Client, namespace: &str) -> Reading {
        let resource = ApiResource::erase::<ResourceQuota>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let listed = api.list(&ListParams::default()).await;
        let mut all = self.lock();
        if let Err(error) = &listed
            && !std::mem::replace(&mut all.is_unreadable, true)
        {
            tracing::warn!(namespace, %error, "cannot list ResourceQuotas: whether they allow the successors of evicted pods is not checked");
        }
        let values = listed.map(|list| list.items).unwrap_or_default().into_iter();
        let values: Vec<Value> = values.filter_map(|quota| serde_json::to_value(quota).ok()).collect();
        let namespace = all.namespaces.entry(namespace.to_owned()).or_default();
        let first = || Reading { first: values.clone(), ..Reading::default() };
        let reading = namespace.reading.get_or_insert_with(first);
        (reading.last, reading.is_outdated) = (values, false);
        reading.clone()
    }

    /// Ends a turn.
    fn release(&self, name: &str) {
        let mut all = self.lock();
        let Some(namespace) = all.namespaces.get_mut(name) else { return };
        namespace.is_taken = false;
        let waiting = std::mem::take(&mut namespace.waiting);
        if namespace.is_over {
            all.namespaces.remove(name);
        }
        drop(all);
        self.named.name(waiting.into_iter().map(Key::Pods));
    }

    fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl All {
    fn reading(&mut self, namespace: &str) -> Option<&mut Reading> {
        self.namespaces.get_mut(namespace)?.reading.as_mut()
    }
}
