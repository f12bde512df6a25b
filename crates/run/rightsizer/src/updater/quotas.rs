//! The `ResourceQuotas` of the namespaces where pods may be evicted.
//!
//! Where there are some, one group after the other plans and evicts: what one of them plans leaves less for the others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc::UnboundedSender;
use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use kube::{Api, Client};
use pillion_rightsize::update::Planned;
use serde_json::Value;

use super::key::{Key, PodsKey};

pub(super) struct Quotas {
    namespaces: Mutex<HashMap<String, Namespace>>,
    /// Whether the log says that they cannot be read.
    is_unreadable: AtomicBool,
    /// Takes the groups that have waited for their turn.
    due: UnboundedSender<Key>,
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
    pub(super) reading: Reading,
    _taken: Option<Taken<'q>>,
}

/// Other groups of the namespace wait until this is dropped.
struct Taken<'q> {
    quotas: &'q Quotas,
    namespace: &'q str,
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.quotas.release(self.namespace);
    }
}

impl Quotas {
    /// Sends the groups whose turn it may be, after they have waited, to `due`.
    pub(super) fn new(due: UnboundedSender<Key>) -> Quotas {
        Quotas { namespaces: Mutex::default(), is_unreadable: AtomicBool::new(false), due }
    }

    /// They are read again in the next interval.
    pub(super) fn forget(&self) {
        self.lock().retain(|_, namespace| {
            namespace.is_over = true;
            namespace.is_taken
        });
    }

    /// Those of a namespace are read again when they are needed next. What they said first stays.
    pub(super) fn outdated(&self, namespace: &str) {
        if let Some(reading) = self.lock().get_mut(namespace).and_then(|it| it.reading.as_mut()) {
            reading.is_outdated = true;
        }
    }

    pub(super) fn evicted(&self, namespace: &str, planned: &Planned) {
        if let Some(reading) = self.lock().get_mut(namespace).and_then(|it| it.reading.as_mut()) {
            reading.planned.add(planned, 1);
            reading.is_outdated = true;
        }
    }

    /// The turn of a group, with the quotas of its namespace. Where they cannot be read none are known, and the first pod of a group is
    /// evicted on trial. `None` if another group has its turn: this one is reconciled after it.
    pub(super) async fn turn<'q>(&'q self, client: &Client, key: &'q PodsKey) -> Option<Turn<'q>> {
        let name = &*key.namespace;
        let known = {
            let mut namespaces = self.lock();
            let namespace = namespaces.entry(name.to_owned()).or_default();
            if namespace.is_taken {
                if !namespace.waiting.contains(key) {
                    namespace.waiting.push(key.clone());
                }
                return None;
            }
            namespace.is_taken = true;
            namespace.reading.clone().filter(|reading| !reading.is_outdated)
        };
        let taken = Taken { quotas: self, namespace: name };
        let reading = match known {
            Some(known) => known,
            None => self.read(client, name).await,
        };
        // Without quotas groups do not wait for each other.
        let taken = (!reading.last.is_empty()).then_some(taken);
        Some(Turn { reading, _taken: taken })
    }

    async fn read(&self, client: &Client, namespace: &str) -> Reading {
        let resource = ApiResource::erase::<ResourceQuota>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let listed = api.list(&ListParams::default()).await;
        if let Err(error) = &listed
            && !self.is_unreadable.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(namespace, %error, "cannot list ResourceQuotas: whether they allow the successors of evicted pods is not checked");
        }
        let values = listed.map(|list| list.items).unwrap_or_default().into_iter();
        let values: Vec<Value> = values.filter_map(|quota| serde_json::to_value(quota).ok()).collect();
        let mut namespaces = self.lock();
        let namespace = namespaces.entry(namespace.to_owned()).or_default();
        let first = || Reading { first: values.clone(), ..Reading::default() };
        let reading = namespace.reading.get_or_insert_with(first);
        (reading.last, reading.is_outdated) = (values, false);
        reading.clone()
    }

    fn release(&self, name: &str) {
        let mut namespaces = self.lock();
        let Some(namespace) = namespaces.get_mut(name) else { return };
        namespace.is_taken = false;
        for key in std::mem::take(&mut namespace.waiting) {
            // The receiver lives as long as the reconciler of the groups.
            let _ = self.due.unbounded_send(Key::Pods(key));
        }
        if namespace.is_over {
            namespaces.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Namespace>> {
        self.namespaces.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
