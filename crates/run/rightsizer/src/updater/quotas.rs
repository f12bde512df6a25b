//! The `ResourceQuotas` of the namespaces where pods may be evicted.

use std::collections::HashMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use kube::api::ListParams;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::Value;

/// What was read in this pass, by namespace.
#[derive(Default)]
pub(super) struct Quotas {
    read: HashMap<String, Vec<Value>>,
    /// Whether the log says that they cannot be read.
    is_unreadable: bool,
}

impl Quotas {
    /// The next pass reads them again.
    pub(super) fn forget(&mut self) {
        self.read.clear();
    }

    /// Those of a namespace. Where they cannot be read none are known, and the first pod of a group is evicted on trial.
    pub(super) async fn of(&mut self, client: &Client, namespace: &str) -> &[Value] {
        if !self.read.contains_key(namespace) {
            let resource = ApiResource::erase::<ResourceQuota>(&());
            let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
            let listed = api.list(&ListParams::default()).await;
            if let Err(error) = &listed
                && !std::mem::replace(&mut self.is_unreadable, true)
            {
                tracing::warn!(namespace, %error, "cannot list ResourceQuotas: whether they allow the successors of evicted pods is not checked");
            }
            let values = listed.map(|list| list.items).unwrap_or_default().into_iter();
            let values = values.filter_map(|quota| serde_json::to_value(quota).ok()).collect();
            self.read.insert(namespace.to_owned(), values);
        }
        self.read.get(namespace).map(Vec::as_slice).unwrap_or_default()
    }
}
