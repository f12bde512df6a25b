//! The `ResourceQuotas` of the namespaces where pods may be evicted.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use kube::{Api, Client};
use pillion_rightsize::update::Planned;
use serde_json::Value;

/// What was read in this interval, by namespace.
#[derive(Default)]
pub(super) struct Quotas {
    read: HashMap<String, Reading>,
    /// Whether the log says that they cannot be read.
    is_unreadable: bool,
}

/// The `ResourceQuotas` of a namespace, read twice: what is used moves while pods are evicted and created.
#[derive(Default)]
pub(super) struct Reading {
    /// As they were before the first eviction of this interval.
    pub(super) first: Vec<Value>,
    /// What the successors of the pods that were evicted since request more, whichever autoscaler they belong to.
    pub(super) planned: Planned,
    /// As they were when they were read last.
    pub(super) last: Vec<Value>,
    is_outdated: bool,
}

impl Quotas {
    /// The next pass reads them again.
    pub(super) fn forget(&mut self) {
        self.read.clear();
    }

    /// Those of a namespace are read again when they are needed next. What they said first stays.
    pub(super) fn outdated(&mut self, namespace: &str) {
        if let Some(reading) = self.read.get_mut(namespace) {
            reading.is_outdated = true;
        }
    }

    /// A pod of a namespace was evicted.
    pub(super) fn evicted(&mut self, namespace: &str, planned: &Planned) {
        self.read.entry(namespace.to_owned()).or_default().planned.add(planned, 1);
        self.outdated(namespace);
    }

    /// Those of a namespace. Where they cannot be read none are known, and the first pod of a group is evicted on trial.
    pub(super) async fn of(&mut self, client: &Client, namespace: &str) -> &Reading {
        if self.read.get(namespace).is_none_or(|reading| reading.is_outdated) {
            let resource = ApiResource::erase::<ResourceQuota>(&());
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let listed = api.list(&ListParams::default()).await;
            if let Err(error) = &listed
                && !std::mem::replace(&mut self.is_unreadable, true)
            {
                tracing::warn!(namespace, %error, "cannot list ResourceQuotas: whether they allow the successors of evicted pods is not checked");
            }
            let values = listed.map(|list| list.items).unwrap_or_default().into_iter();
            let values: Vec<Value> = values.filter_map(|quota| serde_json::to_value(quota).ok()).collect();
            let first = || Reading { first: values.clone(), ..Reading::default() };
            let reading = self.read.entry(namespace.to_owned()).or_insert_with(first);
            (reading.last, reading.is_outdated) = (values, false);
        }
        self.read.entry(namespace.to_owned()).or_default()
    }
}
