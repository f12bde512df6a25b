//! Whether API servers have the places of new pods confirmed.
//!
//! A place that is not confirmed is withdrawn after seconds. This is safe only if every API server asks for a confirmation, so a place counts as
//! unconfirmed only if the webhook has been registered for a while when it is granted. It is withdrawn only if the registration is still the same.

use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::core::PartialObjectMeta;

use crate::registration::touched::touched;
use crate::registration::{self, NAME};
use crate::state::Inner;

/// What failed is tried again after this time.
const RETRY: Duration = Duration::from_secs(5);

/// Follows the registration until dropped.
pub(crate) async fn run(inner: &Inner) {
    let api: Api<PartialObjectMeta<ValidatingWebhookConfiguration>> = Api::all(inner.config.client.clone());
    let mut changes = Box::pin(touched(api, NAME));
    while changes.next().await.is_some() {
        loop {
            match registration::confirming(&inner.config).await {
                Ok(confirming) => {
                    inner.registration.saw(confirming);
                    break;
                }
                Err(error) => {
                    tracing::debug!(%error, cause = error.cause(), "the registration cannot be read; trying again");
                    inner.registration.saw(None);
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
    // The watch never ends by itself.
    std::future::pending::<()>().await;
}
