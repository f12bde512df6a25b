//! Whether API servers send pods to the webhooks, whichever replica has registered them.

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::MutatingWebhookConfiguration;
use kube::Api;
use kube::runtime::watcher;

use crate::registration;
use crate::state::Inner;

/// Follows the registration until dropped.
pub(crate) async fn follow(inner: &Inner) {
    let configurations: Api<MutatingWebhookConfiguration> = Api::all(inner.config.client.clone());
    let named = watcher::Config::default().fields(&format!("metadata.name={}", registration::NAME));
    let mut events = std::pin::pin!(pillion_informer::watch(configurations, named));
    let is_registered = |configuration: MutatingWebhookConfiguration| {
        let configuration = serde_json::to_value(configuration).unwrap_or_default();
        registration::is_registered(&configuration, &inner.config.address)
    };
    let mut listed = false;
    while let Some(event) = events.next().await {
        let found = match event {
            watcher::Event::Init => {
                listed = false;
                continue;
            }
            watcher::Event::InitApply(configuration) => {
                listed = is_registered(configuration);
                continue;
            }
            watcher::Event::InitDone => listed,
            watcher::Event::Apply(configuration) => is_registered(configuration),
            watcher::Event::Delete(_) => false,
        };
        inner.registered.send_replace(found);
    }
}
