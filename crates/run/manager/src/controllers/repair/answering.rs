//! Whether API servers can call the webhooks: before they can, the successor of an evicted pod would be missed like the pod itself.

use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use tokio::time::Instant;

use crate::config::{Config, WebhookAddress};
use crate::error::Error;
use crate::lock::lock;
use crate::registration;

/// API servers learn of a replica that is ready some moments later.
pub(super) const SETTLING: Duration = Duration::from_secs(5);

/// What is known about it. It is not locked during a request: one that hangs delays no other SidecarSet.
#[derive(Default)]
pub(super) struct Answering {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Since when the webhooks have been found callable.
    since: Option<Instant>,
    /// Whether the log has reported that they are not.
    is_logged: bool,
}

impl Answering {
    /// Whether API servers can call the webhooks, and have had time to learn of the replicas behind a Service.
    pub(super) async fn has_settled(&self, config: &Config) -> bool {
        let found = obstacle(config).await;
        let mut state = lock(&self.state);
        match found {
            Ok(None) => {
                state.is_logged = false;
                let since = *state.since.get_or_insert_with(Instant::now);
                matches!(config.address, WebhookAddress::Url(_)) || since.elapsed() >= SETTLING
            }
            Ok(Some(obstacle)) => {
                state.since = None;
                if !std::mem::replace(&mut state.is_logged, true) {
                    tracing::warn!("{obstacle}: nothing is evicted");
                }
                false
            }
            Err(error) => {
                let cause = error.cause();
                tracing::warn!(%error, cause, "cannot read whether the webhooks can be called: nothing is evicted");
                false
            }
        }
    }
}

/// Why API servers cannot call the webhooks. At a URL this is only known of webhooks that no program has registered.
async fn obstacle(config: &Config) -> Result<Option<String>, Error> {
    let WebhookAddress::Service { namespace, name, .. } = &config.address else {
        let is_registered = registration::pods_are_sent(config).await?;
        return Ok((!is_registered).then(|| "the webhooks are not registered".to_owned()));
    };
    let slices: Api<EndpointSlice> = Api::namespaced(config.client.clone(), namespace);
    let of_service = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
    let found =
        slices.list(&of_service).await.map_err(Error::api(format!("list the endpoints of Service {name:?}")))?;
    let is_ready = found.iter().any(has_ready_endpoint);
    Ok((!is_ready).then(|| format!("no replica is ready behind Service {namespace}/{name} of the webhooks")))
}

fn has_ready_endpoint(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| {
        // Without a condition an endpoint counts as ready.
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    })
}
