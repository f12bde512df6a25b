//! Whether API servers can call the webhooks: before they can, the successor of an evicted pod would be missed like the pod itself.

use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::config::{Config, WebhookAddress};

/// API servers learn of a replica that is ready some moments later.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// What is known about it.
#[derive(Default)]
pub(super) struct Answering {
    /// Since when a replica has been found behind the Service.
    since: Option<Instant>,
    /// Whether the log has reported that no replica is ready.
    is_logged: bool,
}

impl Answering {
    /// Whether API servers have had time to learn of a replica that is ready. What is at a URL is taken to be there.
    pub(super) async fn has_settled(&mut self, config: &Config) -> bool {
        let WebhookAddress::Service { namespace, name, .. } = &config.address else { return true };
        let slices: Api<EndpointSlice> = Api::namespaced(config.client.clone(), namespace);
        let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        match slices.list(&of_service).await {
            Ok(found) if found.iter().any(has_ready_endpoint) => {
                self.is_logged = false;
                self.since.get_or_insert_with(Instant::now).elapsed() >= SETTLING
            }
            Ok(_) => {
                self.since = None;
                if !std::mem::replace(&mut self.is_logged, true) {
                    tracing::warn!(
                        namespace,
                        service = name,
                        "no replica is ready behind the Service of the webhooks: nothing is evicted"
                    );
                }
                false
            }
            Err(error) => {
                tracing::warn!(%error, "cannot read whether the webhooks can be called: nothing is evicted");
                false
            }
        }
    }
}

fn has_ready_endpoint(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| {
        // Without a condition an endpoint counts as ready.
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    })
}
