//! Which resources the API server has, the custom ones too.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::discovery::{Discovery, Scope, verbs};

/// A resource that can be listed, watched and deleted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Served {
    pub(crate) resource: ApiResource,
    pub(crate) namespaced: bool,
    pub(crate) deletes_collections: bool,
}

impl Served {
    /// The objects of a namespace; of the cluster, for a resource without namespaces.
    pub(crate) fn api(&self, client: &Client, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &self.resource),
            None => Api::all_with(client.clone(), &self.resource),
        }
    }
}

/// Asks the API server. Each resource comes once, in its most stable version.
pub(crate) async fn discover(client: &Client) -> kube::Result<Vec<Served>> {
    let discovery = Discovery::new(client.clone()).run_aggregated().await?;
    let all = discovery.groups().flat_map(kube::discovery::ApiGroup::resources_by_stability);
    let served = all.filter_map(|(resource, capabilities)| {
        let wanted = [verbs::LIST, verbs::WATCH, verbs::DELETE];
        wanted.iter().all(|verb| capabilities.supports_operation(verb)).then(|| Served {
            resource,
            namespaced: capabilities.scope == Scope::Namespaced,
            deletes_collections: capabilities.supports_operation(verbs::DELETE_COLLECTION),
        })
    });
    let mut served: Vec<Served> = served.collect();
    served.sort_by(|a, b| (&a.resource.group, &a.resource.plural).cmp(&(&b.resource.group, &b.resource.plural)));
    Ok(served)
}
